// The last answers of one query, by instant: what sparklines, charts and the table of the last answer are drawn from.
// An instant holds one row for each group. At most INSTANTS_MAX instants and ROWS_MAX rows are kept, so memory stays
// bounded whatever a query sends. A report without rows sends nothing: the figures tell of it (`reported`).

import { instant } from "./format.js";

const INSTANTS_MAX = 240;
const ROWS_MAX = 60_000;
const NUMERIC = /^(INT|BIGINT|FLOAT|DOUBLE|DECIMAL)/;
const WINDOW_COLUMNS = ["window_start", "window_end"];

export class History {
  constructor(statement, back) {
    this.statement = statement ?? "";
    this.back = back; // rows of the past that were asked for
    this.next = null; // the number of the next row
    this.seriesId = null; // what the number is of: another one where the query was created anew
    this.columns = []; // nothing is known of them until the server's greeting
    this.timeColumn = -1;
    this.keyColumns = [];
    this.valueColumns = [];
    this.shownColumns = [];
    this.subscribed = false;
    this.greeted = false;
    this.isWhole = false; // whether every instant is a report with the rows of all groups
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
    const names = columns.map((column) => column.name.toLowerCase());
    this.timeColumn = names.indexOf("window_end");
    if (this.timeColumn < 0) this.timeColumn = columns.findIndex((column) => column.type.startsWith("TIMESTAMP"));
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

  /**
   * The figures: when the last report was (NaN where answers are not whole reports, or none was made), and how many
   * rows there were then. Where all of them have come and are older, that report was empty, and so is the answer.
   */
  reported(at, results) {
    if (!this.greeted || this.timeColumn < 0 || !Number.isFinite(at)) return;
    this.isWhole = true;
    const last = this.last();
    if (this.next === null || this.next < results || (last && at <= last.at)) return;
    // Of empty reports in a row the last one is kept, so that they do not drive the others out.
    if (last && !last.rows.size) last.at = at;
    else this.instants.push({ at, rows: new Map() });
    this.version += 1;
  }

  add(row) {
    this.rowsSeen += 1;
    const at = this.timeColumn < 0 ? this.rowsSeen : instant(row[this.timeColumn]);
    let last = this.instants.at(-1);
    if (!last || at > last.at) {
      last = { at, rows: new Map() };
      this.instants.push(last);
    } else if (at < last.at) {
      // Joined rows may come out of order by a little: they belong where their instant is.
      last = this.instants.findLast((known) => known.at === at);
      if (!last) return;
    }
    if (!this.keyColumns.length && last.rows.size) this.regroup();
    const before = last.rows.size;
    last.rows.set(this.groupOf(row), row);
    this.rowsHeld += last.rows.size - before;
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

  /** The last row of each group: that of the last instant, or the last known where groups answer by turns. */
  latest() {
    if (!this.isByTurns()) return this.last()?.rows ?? new Map();
    const rows = new Map();
    for (const known of this.instants) for (const [group, row] of known.rows) rows.set(group, row);
    return rows;
  }

  /** Whether an instant has rows of few groups only, as rows of joins and of windows of rows do. */
  isByTurns() {
    if (this.isWhole) return false;
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
