// One query: its chart by group, last answer, plan and statement, and buttons to suspend, resume or drop it.

import { byId, element, setAttribute, setText } from "./dom.js";
import { bytes, dayAndClock, digitsFor, NOTHING, plain, plural, rate, seconds, whole } from "./format.js";
import { answerTable, scrolling } from "./answer_table.js";
import { get, queryPath } from "./api.js";
import { Chart, summary } from "./chart.js";
import { History } from "./history.js";
import { Tabs } from "./tabs.js";

const GROUPS_MAX = 8;
const TABLE_ROWS_MAX = 200;
const WAITING = "Waiting for the first answer: it comes when the first window ends.";
const ASKED = "This query has no results to draw. It answers when it is asked, as below.";
const ANSWERS = { reports: "Last answer", changes: "Last change", lookup: "Answer now" };

export class DetailView {
  /** `act(action, name)` suspends, resumes or drops; `follow(name, column)` is called when a column is chosen. */
  constructor(act, follow) {
    this.act = act;
    this.follow = follow;
    this.section = byId("detail");
    this.name = null;
    this.chart = new Chart();
    new ResizeObserver(() => this.chart.draw()).observe(this.chart.node);
    this.showNothing();
  }

  showNothing() {
    this.name = null;
    this.section.replaceChildren(
      element("div", { class: "card-head" }, element("h2", { id: "detail-title" }, "No query chosen")),
      element("p", { class: "empty" }, "Choose a query in the list to see its chart, its last answer and its plan."),
    );
  }

  /** Builds the elements for a query; `showState` and `showAnswer` fill them. */
  open(query) {
    this.name = query.name;
    this.form = query.answers;
    this.version = null;
    this.history = null;
    this.colours = new Map();
    this.chart.clear();
    this.parts = {
      status: element("p", { class: "note" }),
      reason: element("p", { class: "reason", hidden: true }),
      toggle: element("button", { type: "button", click: () => this.act(this.toggleAction, query.name) }, "Suspend"),
      column: element("select", { id: "chart-column", change: (event) => this.follow(query.name, event.target.value) }),
      legend: element("ul", { class: "legend", "aria-label": "Groups in the chart" }),
      summary: element("p", { class: "visually-hidden" }),
      note: element("p", { class: "note" }),
      message: element("p", { class: "message", role: "status" }),
      statement: element("pre", { tabindex: "0", "aria-label": "Statement" }),
    };
    this.tabs = new Tabs("What is known of the query", [
      ["answer", ANSWERS[this.form] ?? ANSWERS.reports],
      ["plan", "Plan"],
      ["statement", "Statement"],
    ], (tab) => this.openTab(tab));
    this.section.replaceChildren(...this.frame(query));
    this.tabs.panel("statement").replaceChildren(this.parts.statement);
    this.showState(query);
  }

  frame(query) {
    const { status, reason, toggle, column, legend, note, message } = this.parts;
    const dropIt = () => this.act("drop", query.name);
    const drop = element("button", { type: "button", class: "danger-quiet", click: dropIt }, "Drop");
    return [
      element(
        "div",
        { class: "card-head" },
        element("h2", { id: "detail-title", tabindex: "-1" }, query.name),
        status,
        element("div", { class: "actions" }, toggle, drop),
      ),
      message,
      reason,
      element(
        "div",
        { class: "chart-head" },
        element("label", { for: "chart-column", class: "note" }, "Column"),
        column,
        note,
      ),
      this.parts.summary,
      this.chart.node,
      legend,
      this.tabs.node,
    ];
  }

  showState(query) {
    if (query.name !== this.name) return;
    if (query.answers !== this.form) {
      this.open(query); // created again, with another form
      return;
    }
    this.query = query;
    const parts = [query.status.toLowerCase()];
    if (Number.isFinite(query.results)) parts.push(`${whole(query.results)} result rows`);
    if (query.perSecond !== null) parts.push(rateText(query.perSecond));
    if (Number.isFinite(query.lateness)) parts.push(`${seconds(query.lateness)} delay`);
    if (query.bytes) parts.push(bytes(query.bytes));
    setText(this.parts.status, parts.join(" · "));
    setText(this.parts.statement, query.statement);
    this.parts.reason.hidden = !query.reason;
    setText(this.parts.reason, query.reason ?? "");
    this.toggleAction = query.status === "RUNNING" ? "suspend" : "resume";
    setText(this.parts.toggle, query.status === "RUNNING" ? "Suspend" : "Resume");
    this.parts.toggle.disabled = query.status === "FAILED";
  }

  say(text, isBad = false) {
    if (!this.parts) return;
    setAttribute(this.parts.message, "data-tone", isBad ? "bad" : null);
    setText(this.parts.message, text);
  }

  showAnswer(history, column) {
    const key = `${history?.version} ${column} ${history?.columns.length}`;
    if (!history || key === this.version) return;
    this.version = key;
    const index = history.columnNamed(column);
    this.fillColumns(history, index);
    const isAsked = this.form === "lookup";
    const isDrawn = !isAsked && (index >= 0 || !history.columns.length);
    this.chart.node.hidden = this.parts.legend.hidden = !isDrawn;
    if (isDrawn && index >= 0) this.drawChart(history, index);
    else setText(this.parts.note, isAsked ? ASKED : isDrawn ? WAITING : "No numeric column to draw.");
    if (this.tabs.open === "answer") this.fillTable(history);
    this.history = history;
  }

  fillColumns(history, chosen) {
    const names = history.valueColumns.map((index) => history.columns[index].name);
    const select = this.parts.column;
    if ([...select.options].map((option) => option.value).join("\n") !== names.join("\n")) {
      select.replaceChildren(...names.map((name) => element("option", { value: name }, name)));
    }
    if (chosen >= 0 && document.activeElement !== select) select.value = history.columns[chosen].name;
    select.disabled = names.length < 2;
  }

  drawChart(history, index) {
    const ranking = history.ranking(index);
    const groups = ranking.slice(0, GROUPS_MAX);
    this.recolour(groups);
    const lines = groups.map((group) => ({
      group,
      colour: this.colours.get(group),
      values: history.series(group, index).map((point) => point.value),
    }));
    const label = history.columns[index].name;
    const instants = history.instants.map(({ at }) => at);
    this.chart.show(instants, lines, { timed: history.timeColumn >= 0, label, joinsGaps: history.isByTurns() });
    const left = ranking.length - groups.length;
    setText(this.parts.summary, summary(this.chart, label, left));
    this.fillLegend(lines, new Map(history.current()), index);
    const waiting = history.answer ? "No result to draw." : WAITING;
    setText(this.parts.note, history.last() ? this.noteOf(ranking.length, left, history) : waiting);
  }

  noteOf(groups, left, history) {
    const shown = `the ${whole(groups - left)} greatest of ${whole(groups)} groups, ${whole(left)} left out`;
    const axis = history.timeColumn >= 0 ? "event time, UTC" : "by row";
    return left ? `${shown} · ${axis}` : axis;
  }

  /** Assigns colours. A group keeps its colour as long as it is drawn. */
  recolour(groups) {
    for (const group of [...this.colours.keys()]) if (!groups.includes(group)) this.colours.delete(group);
    for (const group of groups) {
      if (this.colours.has(group)) continue;
      const taken = new Set(this.colours.values());
      let colour = 0;
      while (taken.has(colour)) colour += 1;
      this.colours.set(group, colour);
    }
  }

  fillLegend(lines, latest, index) {
    const legend = this.parts.legend;
    legend.hidden = !lines.some((line) => line.group);
    while (legend.children.length > lines.length) legend.lastChild.remove();
    const digits = digitsFor(lines.map(({ group }) => History.value(latest.get(group), index)));
    lines.forEach(({ group, colour }, position) => {
      let item = legend.children[position];
      if (!item) {
        const value = element("span", { class: "number" });
        item = element("li", {}, element("span", { "aria-hidden": "true" }), element("span"), value);
        legend.append(item);
      }
      const [swatch, name, value] = item.children;
      setAttribute(swatch, "class", `swatch colour-${colour}`);
      setText(name, group);
      const known = History.value(latest.get(group), index);
      setText(value, Number.isNaN(known) ? NOTHING : plain(known, digits));
    });
  }

  openTab(tab) {
    if (tab === "answer" && this.history) this.fillTable(this.history);
    if (tab === "plan") this.fillPlan(this.name);
  }

  async fillPlan(name) {
    const panel = this.tabs.panel("plan");
    try {
      const { text } = await get(queryPath(name, "explain"));
      if (name === this.name) panel.replaceChildren(element("pre", { tabindex: "0", "aria-label": "Plan" }, text));
    } catch (error) {
      panel.replaceChildren(element("p", { class: "message", "data-tone": "bad" }, error.message));
    }
  }

  fillTable(history) {
    const panel = this.tabs.panel("answer");
    const rows = history.current().sort(([one], [other]) => one.localeCompare(other, "en", { numeric: true }));
    if (!rows.length) {
      panel.replaceChildren(element("p", { class: "empty" }, emptyText(history)));
      return;
    }
    const columns = history.shownColumns;
    const table = answerTable(
      columns.map((index) => history.columns[index]),
      rows.slice(0, TABLE_ROWS_MAX).map(([, row]) => columns.map((index) => row[index])),
    );
    const region = panel.querySelector(".scroll");
    // The region is reused, so that it keeps its scroll position and the focus.
    if (region) region.replaceChildren(table);
    else panel.replaceChildren(scrolling(ANSWERS[this.form] ?? ANSWERS.reports, table), element("p", { class: "note" }));
    const more = rows.length - TABLE_ROWS_MAX;
    const left = more > 0 ? `, ${whole(more)} more are not shown` : "";
    const until = history.isByTurns() ? ", the last of each group until" : " at";
    const instant = history.currentAt();
    const at = Number.isFinite(instant) ? `${until} ${dayAndClock(instant)} UTC` : "";
    setText(panel.querySelector("p"), `${plural(rows.length, "row")}${at}${left}`);
  }
}

function emptyText(history) {
  if (history.form === "changes") return "No change yet.";
  if (!history.answer) return "No answer yet.";
  return history.answer.problem ?? `The answer at ${dayAndClock(history.currentAt())} UTC has no rows.`;
}

function rateText(perSecond) {
  const text = rate(perSecond);
  return text.includes("/") ? text : `${text}/s`;
}
