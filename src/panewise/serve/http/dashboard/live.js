// Results of the visible queries, over one WebSocket. The difference between wanted and subscribed queries goes to the
// server. After a lost connection every query goes on from its next row number: no row is drawn twice, and no row is
// missed that the server still holds.

import { token } from "./api.js";
import { History } from "./history.js";

const BACK_OFF_MS = [250, 500, 1000, 2000, 5000];
// A query that is further behind, such as after the tab was asleep, skips to near the end.
const BEHIND_ROWS_MAX = 50_000;
// The result log may not know a new query at first: subscribe this many times at most.
const ATTEMPTS_MAX = 5;

export class Live {
  /**
   * `describe(name)` returns {statement, results, answers} of a query. `changed(name)` is called after new rows,
   * `ended(name)` when the query was dropped.
   */
  constructor(describe, changed, ended) {
    this.describe = describe;
    this.changed = changed;
    this.ended = ended;
    this.histories = new Map();
    this.wanted = new Map(); // name -> number of past rows
    this.socket = null;
    this.failures = 0;
    this.timer = null;
  }

  /** Follows these queries only. `wanted` maps a name to the number of past rows to get. */
  want(wanted) {
    this.wanted = wanted;
    for (const name of [...this.histories.keys()]) if (!wanted.has(name)) this.leave(name);
    for (const [name, back] of wanted) {
      const history = this.histories.get(name);
      if (history && history.back >= back) continue;
      if (history) this.leave(name);
      const { statement, answers } = this.describe(name);
      this.histories.set(name, new History(statement, back, answers));
      this.subscribe(name);
    }
    if (wanted.size && !this.socket && !this.timer) this.connect();
  }

  /** Connects again at once, with the current token. */
  reconnect() {
    this.failures = 0;
    clearTimeout(this.timer);
    this.timer = null;
    if (this.socket) this.socket.close();
    else if (this.wanted.size) this.connect();
  }

  /** Subscribes again where the server refused; call it regularly. */
  retry() {
    for (const [name, history] of this.histories) {
      if (!history.subscribed && history.attempts < ATTEMPTS_MAX) this.subscribe(name);
    }
  }

  historyOf(name) {
    return this.histories.get(name) ?? null;
  }

  leave(name) {
    if (this.histories.get(name)?.subscribed) this.send({ type: "unsubscribe", query: name });
    this.histories.delete(name);
  }

  subscribe(name) {
    const history = this.histories.get(name);
    if (!history || history.form === "lookup" || this.socket?.readyState !== WebSocket.OPEN) return;
    const end = this.describe(name).results;
    if (history.next === null && Number.isFinite(end)) history.next = Math.max(0, end - history.back);
    history.subscribed = true;
    history.greeted = false;
    history.attempts += 1;
    const series = history.seriesId === null || history.next === null ? {} : { series: history.seriesId };
    this.send({ type: "subscribe", query: name, ...series, ...(history.next === null ? {} : { start: history.next }) });
  }

  send(message) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  connect() {
    this.timer = null;
    const address = new URL("/v1/live", location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    if (token()) address.searchParams.set("token", token());
    const socket = new WebSocket(address);
    this.socket = socket;
    socket.addEventListener("open", () => {
      this.failures = 0;
      for (const name of this.histories.keys()) this.subscribe(name);
    });
    socket.addEventListener("message", (event) => this.take(JSON.parse(event.data)));
    socket.addEventListener("close", () => {
      this.socket = null;
      for (const history of this.histories.values()) history.subscribed = false;
      const pause = BACK_OFF_MS[Math.min(this.failures++, BACK_OFF_MS.length - 1)];
      if (this.wanted.size) this.timer = setTimeout(() => this.connect(), pause);
    });
  }

  take(message) {
    const name = message.query;
    const history = this.histories.get(name);
    if (!history) return;
    if (message.type === "hello") {
      // The query was dropped and created again while the connection was lost: the drawn rows are obsolete.
      if (history.seriesId !== null && history.seriesId !== message.series) {
        history.forget();
        history.answer = null;
      }
      history.seriesId = message.series;
      history.greet(message.columns);
      history.attempts = 0;
    } else if (message.type === "error") {
      history.subscribed = false;
      history.forget();
      return;
    } else if (message.type === "end") {
      this.histories.delete(name);
      this.ended(name);
      return;
    } else if (!history.greeted) {
      return; // from a cancelled subscription
    } else if (message.type === "rows") {
      history.append(message.rows, message.next);
      if (this.describe(name).results - message.next > BEHIND_ROWS_MAX + history.back) this.skip(name, history);
    } else if (message.type === "gap") {
      history.next = message.to;
    } else {
      return;
    }
    this.changed(name);
  }

  skip(name, history) {
    this.send({ type: "unsubscribe", query: name });
    history.forget();
    this.subscribe(name);
  }
}
