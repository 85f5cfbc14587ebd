// One query's last results by instant, for sparklines and charts, and its answer. An instant holds one row for each
// group. At most INSTANTS_MAX instants and ROWS_MAX rows are kept, so memory is bounded whatever a query sends. The
// results do not show an empty report, so the answer comes from a lookup. For a change log only the last changes are
// shown.

import { instant } from "./format.js";

const INSTANTS_MAX = 240;
const ROWS_MAX = 60_000;
const NUMERIC = /^(INT|BIGINT|FLOAT|DOUBLE|DECIMAL)/;
const WINDOW_COLUMNS = ["window_start", "window_end"];

export class History {
  /** `form`: results are whole "reports" or "changes"; a query in mode "lookup" has no results. */
  constructor(statement, back, form) {
    this.statement = statement ?? "";
    this.back = back; // number of past rows that were requested
    this.form = form;
    this.answer = null; // {rows, watermark, upTo, status}, or {rows: [], problem, upTo, status}
    this.next = null; // the number of the next row
    this.seriesId = null; // `next` counts rows of this series; a query that is created again has a new one
    this.columns = []; // empty until the server's greeting
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

  /** The entry of an instant, inserted if missing. Joined rows may come slightly out of order. */
  placeOf(at) {
    let index = this.instants.length;
    while (index > 0 && this.instants[index - 1].at > at) index -= 1;
    if (this.instants[index - 1]?.at !== at) this.instants.splice(index++, 0, { at, rows: new Map() });
    return this.instants[index - 1];
  }

  /** Whether the answer here is older than `since` (in the format of the figures) or of another status. */
  isBehind(since, status) {
    return since !== null && !(this.answer?.status === status && this.answer.upTo >= since);
  }

  /** Stores a lookup's {columns, rows, watermark} or `problem`. Look up when `isBehind` is true. */
  answered({ columns, rows = [], watermark, problem }, since, status) {
    // The figures write no T and no zero fraction, so that their text is a prefix of this one.
    const upTo = watermark?.replace("T", " ") ?? since;
    this.answer = { rows, watermark, problem, upTo, status };
    if (this.form === "lookup" && columns) this.greet(columns);
    if (this.form === "reports" && !rows.length && !problem) this.breakOff(instant(upTo));
    this.version += 1;
  }

  /** Adds an instant without values, where lines end. Of several in a row only the last is kept. */
  breakOff(at) {
    const last = this.last();
    if (!last || at <= last.at) return;
    if (last.rows.size) this.placeOf(at);
    else last.at = at;
  }

  /** The answer as pairs of a group and its row; for a change log, the `latest` rows. */
  current() {
    if (this.form === "changes") return [...this.latest()];
    return this.columns.length ? (this.answer?.rows ?? []).map((row) => [this.groupOf(row), row]) : [];
  }

  /** The instant of `current`: the end of a window, or how far the query had come; NaN if unknown. */
  currentAt() {
    if (this.form === "changes") return this.timeColumn < 0 ? NaN : (this.last()?.at ?? NaN);
    const row = this.timeColumn < 0 ? null : this.answer?.rows[0];
    return instant(row ? row[this.timeColumn] : this.answer?.upTo);
  }

  /** Groups rows by their text columns: for joins and selections, which have several rows at one instant. */
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

  /** The rows of the last instant, by group; if groups change by turns, the last known row of each group. */
  latest() {
    if (!this.isByTurns()) return this.last()?.rows ?? new Map();
    const rows = new Map();
    for (const known of this.instants) for (const [group, row] of known.rows) rows.set(group, row);
    return rows;
  }

  /** Whether an instant of a change log has, on average, rows of fewer than half of the groups. */
  isByTurns() {
    if (this.form !== "changes") return false;
    if (this.turnsVersion !== this.version) {
      const groups = new Set(this.instants.flatMap(({ rows }) => [...rows.keys()]));
      this.byTurns = this.rowsHeld / this.instants.length < groups.size / 2;
      this.turnsVersion = this.version;
    }
    return this.byTurns;
  }

  /** The value of a column in a row as a number; NaN if there is none. */
  static value(row, column) {
    const value = row?.[column];
    return value === null || value === undefined ? NaN : Number(value);
  }

  columnNamed(name) {
    const found = this.valueColumns.find((index) => this.columns[index].name === name);
    return found ?? this.valueColumns[0] ?? -1;
  }

  /** Groups by their mean over all kept instants, the greatest first, so that the order is stable. */
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
 * The columns that identify the group: those that GROUP BY names, by name or by the expression behind an alias. Without
 * GROUP BY there is one group. If GROUP BY names no result column, the text columns identify the group.
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

/** Splits a list at its commas, except those within parentheses. */
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

/** A name in lower case without table and quotes, or an expression in lower case without spaces and quotes. */
function bare(text) {
  const flat = text.replace(/["`\s]/g, "").toLowerCase();
  return /^[\w.]+$/.test(flat) ? flat.split(".").at(-1) : flat;
}
