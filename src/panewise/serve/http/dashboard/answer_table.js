// Rows as a table; numbers are aligned right.

import { element } from "./dom.js";
import { cell, digitsFor } from "./format.js";

const AT_THE_RIGHT = /^(INT|BIGINT|FLOAT|DOUBLE|DECIMAL|TIMESTAMP)/;

export function answerTable(columns, rows) {
  const side = ({ type }) => ({ class: AT_THE_RIGHT.test(type) ? "number" : null });
  const heads = columns.map((column) => element("th", { scope: "col", ...side(column) }, column.name));
  const digits = columns.map((_, index) => digitsFor(rows.map((row) => row[index])));
  const text = (value, index) => cell(value, columns[index].type, digits[index]);
  const lines = rows.map((row) =>
    element("tr", {}, row.map((value, index) => element("td", side(columns[index]), text(value, index)))),
  );
  return element("table", {}, element("thead", {}, element("tr", {}, heads)), element("tbody", {}, lines));
}

/** A region that scrolls separately, also by keyboard. */
export function scrolling(label, node) {
  return element("div", { class: "scroll tall", role: "region", tabindex: "0", "aria-label": label }, node);
}
