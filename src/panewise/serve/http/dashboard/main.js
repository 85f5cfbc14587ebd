// The dashboard: polls the figures once a second, and the catalog and the weave when they may have changed. It follows
// only visible queries, and looks one up after a new report. With a thousand queries that is one request a second, at
// most sixteen lookups, and one WebSocket.

import { ApiError, get, post, queryPath, remove, Unreachable } from "./api.js";
import { Connection } from "./connection.js";
import { DetailView } from "./detail_view.js";
import { byId, setText } from "./dom.js";
import { Figures } from "./figures.js";
import { Live } from "./live.js";
import { QueriesView } from "./queries_view.js";
import { Rates } from "./rates.js";
import { StatementForm } from "./statement_form.js";
import { StreamsView } from "./streams_view.js";
import { startTheme } from "./theme.js";
import { startTokenDialog } from "./token_dialog.js";
import { WeaveView } from "./weave_view.js";

const POLL_MS = 1000;
const WEAVE_EVERY = 5; // polls
const DRAW_MS = 250;
const LIST_BACK_ROWS = 1_500;
const CHART_BACK_ROWS = 12_000;

class Dashboard {
  constructor() {
    this.stats = { streams: {}, queries: {}, trees: [] };
    this.catalog = new Map();
    this.weave = null;
    this.polls = 0;
    this.chosen = null;
    this.sighted = [];
    this.columns = new Map(); // query -> column that is drawn
    this.rates = new Rates(); // of results, by query
    this.rowRates = new Rates(); // of rows, by stream
    this.live = new Live(
      (name) => this.describe(name),
      (name) => this.dirty.add(name),
      // Reload the catalog: the name may exist again, with another statement.
      () => (this.names = null),
    );
    this.dirty = new Set();
    this.connection = new Connection();
    this.figures = new Figures();
    this.streams = new StreamsView();
    this.queries = new QueriesView((name) => this.choose(name, true), (names) => this.sight(names));
    this.detail = new DetailView((action, name) => this.act(action, name), (name, column) => this.follow(name, column));
    this.weaveView = new WeaveView((name) => this.choose(name, true));
    this.form = new StatementForm((name) => this.added(name));
    this.tokenDialog = startTokenDialog(() => this.admitted());
    startTheme();
    window.addEventListener("hashchange", () => this.chooseFromAddress());
    document.addEventListener("visibilitychange", () => document.hidden || this.poll());
  }

  // -- polling

  start() {
    this.poll();
    setInterval(() => document.hidden || this.poll(), POLL_MS);
    setInterval(() => this.draw(), DRAW_MS);
  }

  poll() {
    if (this.tokenDialog.isOpen()) return Promise.resolve();
    this.polling ??= this.pollOnce().finally(() => (this.polling = null));
    return this.polling;
  }

  /** Starts a new poll: the answer of a running one may be older than the last action. */
  async pollAnew() {
    await this.polling;
    await this.poll();
  }

  async pollOnce() {
    try {
      // The first poll needs both.
      const [stats, catalog] = await Promise.all([get("/v1/stats"), this.polls ? null : get("/v1/catalog")]);
      await this.take(stats, catalog);
      const pipeline = stats.spark;
      if (pipeline?.state === "FAILED") this.connection.refused(`the pipeline has failed: ${pipeline.message}`);
      else this.connection.restored(stats.kind);
      this.show();
      this.live.retry();
    } catch (error) {
      if (error instanceof Unreachable) this.connection.lost();
      else if (error instanceof ApiError) this.connection.refused(error.message);
      else throw error;
    }
  }

  /** Updates figures and catalog together, so that no query is shown without its statement. */
  async take(stats, known) {
    const names = JSON.stringify([
      Object.keys(stats.streams ?? {}),
      Object.entries(stats.queries ?? {}).map(([name, query]) => [name, query.status]),
    ]);
    const isNew = names !== this.names;
    if (isNew) {
      const catalog = known ?? (await get("/v1/catalog"));
      this.catalog = new Map(catalog.queries.map((query) => [query.name, query]));
      this.names = names;
    }
    this.stats = stats;
    this.measure();
    if (isNew || this.polls % WEAVE_EVERY === 0) this.pollWeave();
    this.polls += 1;
  }

  measure() {
    const totals = (parts, name) =>
      Object.fromEntries(Object.entries(parts ?? {}).map(([key, part]) => [key, part[name]]));
    const now = performance.now();
    this.rates.take(totals(this.stats.queries, "results"), now);
    this.rowRates.take(totals(this.stats.streams, "rows"), now);
    // The engine measures the rate of rows; a Spark pipeline only counts them.
    for (const [name, stream] of Object.entries(this.stats.streams ?? {})) stream.rate ??= this.rowRates.of(name);
  }

  /** Not awaited: with many queries the weave takes longer than all other requests. */
  async pollWeave() {
    if (this.isPollingWeave) return;
    this.isPollingWeave = true;
    try {
      this.weave = await get("/v1/weave");
      this.weaveView.show(this.weave, this.stats);
      this.figures.show(this.stats, this.weave);
    } catch (error) {
      // The poll of the figures shows whether the server answers.
      if (!(error instanceof Unreachable || error instanceof ApiError)) throw error;
    } finally {
      this.isPollingWeave = false;
    }
  }

  // -- what is shown

  describe(name) {
    const state = this.stats.queries?.[name] ?? {};
    const known = this.catalog.get(name) ?? {};
    return {
      name,
      statement: known.statement ?? "",
      status: state.status ?? known.status ?? "RUNNING",
      reason: state.reason || known.reason || "",
      results: state.results ?? NaN,
      lateness: state.lateness ?? NaN,
      answers: known.answers ?? "",
      answerSince: state.answer_since ?? null,
      bytes: state.bytes ?? 0,
      perSecond: this.rates.of(name),
    };
  }

  show() {
    this.figures.show(this.stats, this.weave);
    this.streams.show(this.stats.streams ?? {});
    const names = Object.keys(this.stats.queries ?? {});
    this.queries.show(names.map((name) => this.describe(name)), this.chosen);
    if (this.chosen && !names.includes(this.chosen)) this.choose(null);
    else if (this.chosen) this.detail.showState(this.describe(this.chosen));
    if (!this.isStarted) {
      this.isStarted = true;
      this.chooseFromAddress();
    }
    this.want();
    document.body.dataset.ready = "yes";
  }

  sight(names) {
    this.sighted = names;
    this.want();
  }

  want() {
    const wanted = new Map(this.sighted.map((name) => [name, LIST_BACK_ROWS]));
    if (this.chosen) wanted.set(this.chosen, CHART_BACK_ROWS);
    this.live.want(wanted);
    for (const name of wanted.keys()) this.dirty.add(name);
    this.lookUp();
  }

  /** One lookup at a time: a pipeline may need a micro-batch for each. */
  async lookUp() {
    if (this.isLookingUp) return;
    this.isLookingUp = true;
    try {
      for (const name of new Set([this.chosen, ...this.sighted])) await this.lookUpOne(name);
    } finally {
      this.isLookingUp = false;
    }
  }

  /** Looks up a query's answer if it has changed. A query in mode 'lookup' is asked only while it is chosen. */
  async lookUpOne(name) {
    const history = this.live.historyOf(name);
    const { answerSince, status } = this.describe(name);
    const isAsked = history?.form === "reports" || (history?.form === "lookup" && name === this.chosen);
    if (!isAsked || !history.isBehind(answerSince, status)) return;
    try {
      const failed = status === "FAILED" ? { problem: "There is no answer: the query has failed." } : null;
      history.answered(failed ?? (await get(queryPath(name, "lookup"))), answerSince, status);
    } catch (error) {
      if (error instanceof Unreachable) return; // the next poll shows it
      if (!(error instanceof ApiError)) throw error;
      history.answered({ problem: `There is no answer: ${error.message}.` }, answerSince, status);
    }
    this.dirty.add(name);
  }

  draw() {
    if (document.hidden) return;
    for (const name of this.dirty) {
      const history = this.live.historyOf(name);
      this.queries.showAnswer(name, history, this.columns.get(name));
      if (name === this.chosen) this.detail.showAnswer(history, this.columns.get(name));
    }
    this.dirty.clear();
  }

  // -- user actions

  choose(name, byHand = false) {
    this.chosen = name;
    if (byHand) history.replaceState(null, "", name ? `#${encodeURIComponent(name)}` : "#");
    if (name) this.detail.open(this.describe(name));
    else this.detail.showNothing();
    this.queries.show(this.queries.queries, name);
    this.want();
  }

  chooseFromAddress() {
    const name = decodeURIComponent(location.hash.slice(1));
    if (name in (this.stats.queries ?? {}) && name !== this.chosen) this.choose(name);
  }

  follow(name, column) {
    this.columns.set(name, column);
    this.dirty.add(name);
    this.draw();
  }

  async act(action, name) {
    if (action === "drop" && !(await confirmDrop(name))) return;
    try {
      if (action === "drop") await remove(queryPath(name));
      else await post(queryPath(name, action));
      if (action === "drop") this.dropped(name);
      else this.detail.say(action === "suspend" ? `${name} is suspended.` : `${name} runs again.`);
      await this.pollAnew();
    } catch (error) {
      this.detail.say(error instanceof Unreachable ? "The server does not answer." : error.message, true);
    }
  }

  dropped(name) {
    delete this.stats.queries?.[name]; // so that nothing asks for it before the next poll
    this.choose(null, true);
    byId("queries").focus();
  }

  async added(name) {
    await this.pollAnew();
    const known = Object.keys(this.stats.queries ?? {}).find((other) => other.toLowerCase() === name?.toLowerCase());
    if (known) this.choose(known, true);
  }

  admitted() {
    this.live.reconnect();
    this.poll();
  }
}

function confirmDrop(name) {
  const dialog = byId("drop-dialog");
  setText(byId("drop-title"), `Drop ${name}?`);
  setText(byId("drop-why"), "Its results and the state that no other query needs are gone then.");
  dialog.returnValue = "keep";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "drop"), { once: true });
  });
}

new Dashboard().start();
