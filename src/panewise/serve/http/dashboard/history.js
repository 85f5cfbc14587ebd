// What is known of one query: its last results by instant, which sparklines and charts are drawn from, and its answer.
// An instant holds one row for each group. At most INSTANTS_MAX instants and ROWS_MAX rows are kept, so memory stays
// bounded whatever a query sends. Results do not say that a report had no rows, so the answer is what a lookup gives; of
// a query that tells changes only the last ones are shown.

import { instant } from "./format.js";

const INSTANTS_MAX = 240;
const ROWS_MAX = 60_000;
const NUMERIC = /^(INT|BIGINT|FLOAT|DOUBLE|DECIMAL)/;
const WINDOW_COLUMNS = ["window_start", "window_end"];

export class History {
  /** `form`: whether results are whole "reports", "changes", or there are none and the query answers a "lookup". */
  constructor(statement, back, form) {
    this.statement = statement ?? "";
    this.back = back; // rows of the past that were asked for
    this.form = form;
    this.answer = null; // {rows, watermark, upTo, status}, or {rows: [], problem, upTo, status}
    this.next = null; // the number of the next row
    this.seriesId = null; // what the number is of: another one where the query was created anew
    this.columns = []; // nothing is known of them until the server's greeting
    this.timeColumn = -1;
    this.keyColumns = [];
    this.valueColumns = [];
    this.shownColumns = [];
    this.subscribed = false;
    this.greeted = false;
    this.attempts = 0;
    this.forget();
  }

  forget() {
    this.next = null;
    this.instants = []; // {at, rows: Map of group to row}, in order
    this.rowsHeld = 0;
    this.rowsSeen = 0;
    this.version = 0;
  }

  greet(columns) {
    this.greeted = true;
    this.columns = columns;
    this.version += 1;
    const names = columns.map((column) => column.name.toLowerCase());
    this.timeColumn = names.indexOf("window_end");
    if (this.timeColumn < 0 && this.form !== "lookup") {
      this.timeColumn = columns.findIndex((column) => column.type.startsWith("TIMESTAMP"));
    }
    this.keyColumns = keyColumns(columns, this.statement);
    this.valueColumns = columns.flatMap((column, index) =>
      NUMERIC.test(column.type) && !this.keyColumns.includes(index) ? [index] : [],
    );
    this.shownColumns = columns.flatMap((column, index) =>
      WINDOW_COLUMNS.includes(names[index]) || index === this.timeColumn ? [] : [index],
    );
  }

  append(rows, next) {
    for (const row of rows) this.add(row);
    this.next = next;
    this.version += 1;
    while (this.instants.length > 1 && (this.instants.length > INSTANTS_MAX || this.rowsHeld > ROWS_MAX)) {
      this.rowsHeld -= this.instants.shift().rows.size;
    }
  }

  add(row) {
    this.rowsSeen += 1;
    const known = this.placeOf(this.timeColumn < 0 ? this.rowsSeen : instant(row[this.timeColumn]));
    if (!this.keyColumns.length && known.rows.size) this.regroup();
    const before = known.rows.size;
    known.rows.set(this.groupOf(row), row);
    this.rowsHeld += known.rows.size - before;
  }

  /** The place of an instant, made where it is not there. Joined rows may come out of order by a little. */
  placeOf(at) {
    let index = this.instants.length;
    while (index > 0 && this.instants[index - 1].at > at) index -= 1;
    if (this.instants[index - 1]?.at !== at) this.instants.splice(index++, 0, { at, rows: new Map() });
    return this.instants[index - 1];
  }

  /** Whether the answer was another one at `since` (as the figures write it), or in another status, than that here. */
  isBehind(since, status) {
    return since !== null && !(this.answer?.status === status && this.answer.upTo >= since);
  }

  /** What a lookup says, {columns, rows, watermark}, or the `problem` that it has, asked when `isBehind` was true. */
  answered({ columns, rows = [], watermark, problem }, since, status) {
    // The figures write no T, and a fraction only where there is one: then their text is the beginning of this one.
    const upTo = watermark?.replace("T", " ") ?? since;
    this.answer = { rows, watermark, problem, upTo, status };
    if (this.form === "lookup" && columns) this.greet(columns);
    if (this.form === "reports" && !rows.length && !problem) this.breakOff(instant(upTo));
    this.version += 1;
  }

  /** No group has a value: lines end, and do not go on to the next one. Of such instants in a row the last is kept. */
  breakOff(at) {
    const last = this.last();
    if (!last || at <= last.at) return;
    if (last.rows.size) this.placeOf(at);
    else last.at = at;
  }

  /** The answer as pairs of a group and its row; of a change log the last change of each group. */
  current() {
    if (this.form === "changes") return [...this.latest()];
    return this.columns.length ? (this.answer?.rows ?? []).map((row) => [this.groupOf(row), row]) : [];
  }

  /** The instant that `current` is of: the end of a window, or how far the query had come; NaN where none is known. */
  currentAt() {
    if (this.form === "changes") return this.timeColumn < 0 ? NaN : (this.last()?.at ?? NaN);
    const row = this.timeColumn < 0 ? null : this.answer?.rows[0];
    return instant(row ? row[this.timeColumn] : this.answer?.upTo);
  }

  /** Several rows at one instant, and no GROUP BY: rows of a join or a selection are told apart by their texts. */
  regroup() {
    this.keyColumns = textColumns(this.columns);
    for (const known of this.instants) {
      known.rows = new Map([...known.rows.values()].map((row) => [this.groupOf(row), row]));
    }
  }

  groupOf(row) {
    return this.keyColumns.map((index) => (row[index] === null ? "NULL" : String(row[index]))).join(" · ");
  }

  last() {
    return this.instants.at(-1) ?? null;
  }

  /** The last row of each group: that of the last instant, or the last known where groups change by turns. */
  latest() {
    if (!this.isByTurns()) return this.last()?.rows ?? new Map();
    const rows = new Map();
    for (const known of this.instants) for (const [group, row] of known.rows) rows.set(group, row);
    return rows;
  }

  /** Whether an instant has rows of few groups only. A report has those of all. */
  isByTurns() {
    if (this.form !== "changes") return false;
    if (this.turnsVersion !== this.version) {
      const groups = new Set(this.instants.flatMap(({ rows }) => [...rows.keys()]));
      this.byTurns = this.rowsHeld / this.instants.length < groups.size / 2;
      this.turnsVersion = this.version;
    }
    return this.byTurns;
  }

  /** The value of a column in a row as a number; NaN where there is none. */
  static value(row, column) {
    const value = row?.[column];
    return value === null || value === undefined ? NaN : Number(value);
  }

  columnNamed(name) {
    const found = this.valueColumns.find((index) => this.columns[index].name === name);
    return found ?? this.valueColumns[0] ?? -1;
  }

  /** Groups by their mean over what is kept, the greatest first: an order that does not jump with every answer. */
  ranking(column) {
    const found = new Map();
    for (const { rows } of this.instants) {
      for (const [group, row] of rows) {
        const value = History.value(row, column);
        if (Number.isNaN(value)) continue;
        const known = found.get(group) ?? { sum: 0, count: 0 };
        known.sum += value;
        known.count += 1;
        found.set(group, known);
      }
    }
    const means = [...found].map(([group, { sum, count }]) => [group, sum / count]);
    return means.sort((one, other) => other[1] - one[1] || (one[0] < other[0] ? -1 : 1)).map(([group]) => group);
  }

  series(group, column) {
    return this.instants.map(({ at, rows }) => ({ at, value: History.value(rows.get(group), column) }));
  }
}

/**
 * Which columns say the group: those that GROUP BY names, by their own name or by the expression behind an alias. A
 * statement without GROUP BY has one group; one whose GROUP BY names none of its columns is told apart by its texts.
 */
export function keyColumns(columns, statement) {
  const clause = /\bGROUP\s+BY\s+([\s\S]+?)(?=\bHAVING\b|\bORDER\b|\bWITH\b|\bUNION\b|;|$)/i.exec(statement);
  if (!clause) return [];
  const grouped = splitList(clause[1]).map(bare);
  const selected = /\bSELECT\s+(?:DISTINCT\s+)?([\s\S]+?)\bFROM\b/i.exec(statement);
  const behind = new Map();
  for (const item of splitList(selected ? selected[1] : "")) {
    const alias = /^([\s\S]+?)\s+AS\s+([\w"`]+)$/i.exec(item);
    if (alias) behind.set(bare(alias[2]), bare(alias[1]));
  }
  const isKey = ({ name }) => {
    const own = bare(name);
    return grouped.includes(behind.get(own) ?? own) || grouped.includes(own);
  };
  const found = columns.flatMap((column, index) => (isKey(column) ? [index] : []));
  return found.length ? found : textColumns(columns);
}

function textColumns(columns) {
  return columns.flatMap(({ type }, index) => (NUMERIC.test(type) || type.startsWith("TIMESTAMP") ? [] : [index]));
}

/** A list at its commas, those within parentheses aside. */
function splitList(text) {
  const parts = [""];
  let depth = 0;
  for (const letter of text) {
    if (letter === "(") depth += 1;
    if (letter === ")") depth -= 1;
    if (letter === "," && depth === 0) parts.push("");
    else parts[parts.length - 1] += letter;
  }
  return parts.map((part) => part.trim()).filter(Boolean);
}

/** A name without its table, quotes and case; an expression without its spaces. */
function bare(text) {
  const flat = text.replace(/["`\s]/g, "").toLowerCase();
  return /^[\w.]+$/.test(flat) ? flat.split(".").at(-1) : flat;
}
