// The list of queries, filtered and sorted. Only one page is drawn, however many queries there are.

import { byId, element, keyedRows, setAttribute, setText } from "./dom.js";
import { cell, dayAndClock, NOTHING, plain, plural, rate, seconds, whole } from "./format.js";
import { History } from "./history.js";
import { drawSpark, spark } from "./sparkline.js";

export const PAGE_SIZE = 15;
const SPARK_POINTS = 60;
const STATUS_ORDER = { FAILED: 0, SUSPENDED: 1, RUNNING: 2 };
const NO_MATCH = "No query matches the filter.";
const NO_QUERY =
  "No query yet. Add one above: a SELECT with a window, such as " +
  "SELECT COUNT(*) AS n FROM trades [RANGE 1 MINUTE SLIDE 1 SECOND].";
const STATUS_MARKS = { SUSPENDED: "❚❚", FAILED: "✕" };

export class QueriesView {
  /** `choose(name)` is called when a query is chosen, `sighted(names)` when the visible queries change. */
  constructor(choose, sighted) {
    this.choose = choose;
    this.sighted = sighted;
    this.body = byId("query-list").tBodies[0];
    this.rows = new Map();
    this.page = 0;
    this.queries = [];
    this.chosen = null;
    byId("filter").addEventListener("input", () => this.turn(0, true));
    byId("sort").addEventListener("change", () => this.turn(0));
    byId("page-back").addEventListener("click", () => this.turn(this.page - 1));
    byId("page-on").addEventListener("click", () => this.turn(this.page + 1));
  }

  turn(page, spoken = false) {
    this.page = page;
    this.arrange();
    // Announced when typing pauses, not at every letter.
    clearTimeout(this.speech);
    if (spoken) this.speech = setTimeout(() => setText(byId("filter-status"), byId("queries-note").textContent), 700);
  }

  /** `queries` are {name, statement, status, reason, perSecond, lateness}. */
  show(queries, chosen) {
    this.queries = queries;
    this.chosen = chosen;
    this.arrange();
  }

  arrange() {
    const found = this.filtered();
    const pages = Math.max(1, Math.ceil(found.length / PAGE_SIZE));
    this.page = Math.min(Math.max(0, this.page), pages - 1);
    const shown = found.slice(this.page * PAGE_SIZE, (this.page + 1) * PAGE_SIZE);
    const names = shown.map((query) => query.name);
    const before = [...this.rows.keys()].join("\n");
    keyedRows(this.body, this.rows, names, (name) => this.makeRow(name));
    shown.forEach((query) => this.fillState(this.rows.get(query.name), query));
    this.showFrame(found.length, pages);
    if (before !== names.join("\n")) this.sighted(names);
  }

  filtered() {
    const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = ({ name, status, statement }) => {
      const text = `${name} ${status} ${statement}`.toLowerCase();
      return words.every((word) => text.includes(word));
    };
    const byName = (one, other) => one.name.localeCompare(other.name, "en", { numeric: true });
    const order = {
      name: byName,
      rate: (one, other) => (other.perSecond || 0) - (one.perSecond || 0) || byName(one, other),
      lateness: (one, other) => (other.lateness || 0) - (one.lateness || 0) || byName(one, other),
      status: (one, other) => STATUS_ORDER[one.status] - STATUS_ORDER[other.status] || byName(one, other),
    }[byId("sort").value];
    return (words.length ? this.queries.filter(matches) : [...this.queries]).sort(order);
  }

  showFrame(found, pages) {
    const all = this.queries.length;
    setText(byId("queries-note"), found === all ? plural(all, "query", "queries") : `${whole(found)} of ${whole(all)}`);
    byId("query-list").parentElement.hidden = !found;
    byId("pages").hidden = pages < 2;
    const from = this.page * PAGE_SIZE + 1;
    const to = Math.min(found, from + PAGE_SIZE - 1);
    setText(byId("page-text"), `${whole(from)} to ${whole(to)} of ${whole(found)}`);
    byId("page-back").disabled = this.page === 0;
    byId("page-on").disabled = this.page >= pages - 1;
    byId("queries-empty").hidden = found > 0;
    if (!found) setText(byId("queries-empty"), all ? NO_MATCH : NO_QUERY);
  }

  makeRow(name) {
    const button = element("button", { type: "button", class: "link", click: () => this.choose(name) }, name);
    const status = element("span", { class: "status" });
    const answer = element("td", { class: "answer" });
    const trend = spark();
    const perSecond = element("td", { class: "number" });
    const delay = element("td", { class: "number" });
    const node = element(
      "tr",
      {
        // The mouse can click the whole row; the keyboard uses the button.
        click: (event) => event.target.closest("button") || this.choose(name),
      },
      element("th", { scope: "row" }, button, status),
      answer,
      element("td", { class: "trend" }, trend),
      perSecond,
      delay,
    );
    return { node, button, status, answer, trend, perSecond, delay, version: -1 };
  }

  fillState(row, query) {
    setAttribute(row.node, "data-chosen", query.name === this.chosen ? "yes" : null);
    setAttribute(row.button, "aria-current", query.name === this.chosen ? "true" : null);
    setAttribute(row.node, "data-status", query.status);
    const mark = STATUS_MARKS[query.status] ?? "";
    setText(row.status, query.status === "RUNNING" ? "" : `${mark} ${query.status.toLowerCase()}`);
    setText(row.perSecond, query.perSecond === null ? NOTHING : rate(query.perSecond));
    setText(row.delay, seconds(query.lateness));
  }

  /** Draws the last answer and the trend of a visible query. `column` is the name of the column to draw. */
  showAnswer(name, history, column) {
    const row = this.rows.get(name);
    if (!row || !history) return;
    const key = `${history.version} ${column}`;
    if (row.version === key) return;
    row.version = key;
    const index = history.columnNamed(column);
    const group = this.followed(row, history, index);
    row.answer.replaceChildren(...answerParts(history, group));
    const values = index < 0 ? [] : history.series(group, index).slice(-SPARK_POINTS).map((point) => point.value);
    drawSpark(row.trend, values, { slots: Math.min(SPARK_POINTS, Math.max(values.length, 20)) });
  }

  /** The group to show: the same one as long as it is in the answer, so that changes are easy to follow. */
  followed(row, history, column) {
    const latest = new Map(history.current());
    if (row.group === undefined || !latest.has(row.group)) {
      const ranking = column < 0 ? [] : history.ranking(column);
      row.group = ranking.find((group) => latest.has(group)) ?? latest.keys().next().value ?? ranking[0];
    }
    return row.group;
  }
}

function answerParts(history, group) {
  const note = (text) => element("span", { class: "note" }, text);
  const rows = history.current();
  if (history.form === "lookup" && !history.answer) return [note("answers when asked")];
  if (!rows.length && history.answer?.problem) return [note("no answer")];
  if (!rows.length) return history.answer ? [note(`no rows at ${dayAndClock(history.currentAt())}`)] : [];
  const [, row] = rows.find(([name]) => name === group) ?? rows[0];
  const values = history.shownColumns.filter((index) => !history.keyColumns.includes(index));
  const parts = values.flatMap((index) => {
    const { name, type } = history.columns[index];
    const value = typeof row[index] === "number" ? plain(History.value(row, index)) : cell(row[index], type);
    return [note(`${name} `), `${value}   `];
  });
  if (group) parts.unshift(element("span", { class: "group" }, `${group}   `));
  return history.form === "changes" ? [note("last change "), ...parts] : parts;
}
