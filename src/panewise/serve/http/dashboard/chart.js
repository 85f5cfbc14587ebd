// A line chart without a library: a line for each group over event time. Mouse and arrow keys move the cursor.
//
// The drawing is hidden from screen readers. They get a slider, whose positions are the instants and whose value is
// the tooltip's text, and a sentence that summarizes the chart.

import { element, setAttribute, svg } from "./dom.js";
import { clock, digitsFor, plain } from "./format.js";
import { timeTicks, valueTexts, valueTicks } from "./ticks.js";

const HEIGHT = 268;
const MARGIN = { top: 14, right: 16, bottom: 30, left: 58 };
const JUMP = 10;

export class Chart {
  constructor() {
    this.drawing = svg("svg", { class: "chart-drawing", "aria-hidden": "true" });
    this.tooltip = element("div", { class: "tooltip", hidden: true, "aria-hidden": "true" });
    this.node = element(
      "div",
      {
        class: "chart",
        role: "slider",
        tabindex: "0",
        "aria-label": "Instant in the chart",
        "aria-valuemin": "0",
        "aria-valuemax": "0",
        "aria-valuenow": "0",
        "aria-valuetext": "no answer yet",
        keydown: (event) => this.key(event),
        blur: () => this.point(null),
        focus: () => this.point(this.instants.length - 1),
        pointermove: (event) => this.hover(event),
        pointerleave: () => this.point(null),
      },
      this.drawing,
      this.tooltip,
    );
    this.instants = [];
    this.lines = [];
    this.cursor = null; // the selected instant, kept while the chart moves on
  }

  clear() {
    this.cursor = null;
    this.show([], [], { timed: true, label: "" });
  }

  /**
   * `instants` are in ms. A line is {group, colour, values}, with a value for each instant or NaN. `joinsGaps` draws
   * lines across NaN.
   */
  show(instants, lines, { timed, label, joinsGaps = false }) {
    Object.assign(this, { instants, lines, timed, label, joinsGaps });
    this.draw();
  }

  draw() {
    const width = Math.max(280, this.node.clientWidth);
    const parts = [];
    const values = this.lines.flatMap((line) => line.values).filter(Number.isFinite);
    setAttribute(this.drawing, "viewBox", `0 0 ${width} ${HEIGHT}`);
    setAttribute(this.node, "aria-valuemax", Math.max(0, this.instants.length - 1));
    if (values.length) {
      this.scale(width, values);
      parts.push(...this.axes(width), ...this.lines.map((line) => this.line(line)));
    }
    this.drawing.replaceChildren(...parts);
    this.showCursor();
  }

  scale(width, values) {
    let [least, greatest] = [Math.min(...values), Math.max(...values)];
    if (least > 0 && least < greatest * 0.6) least = 0;
    if (greatest < 0 && greatest > least * 0.6) greatest = 0;
    this.ticks = valueTicks(least, greatest);
    const [low, high] = [this.ticks[0], this.ticks.at(-1)];
    const [first, last] = [this.instants[0], this.instants.at(-1)];
    const inner = width - MARGIN.left - MARGIN.right;
    const tall = HEIGHT - MARGIN.top - MARGIN.bottom;
    this.x = (at) => MARGIN.left + (last > first ? (at - first) / (last - first) : 0.5) * inner;
    this.y = (value) => MARGIN.top + (1 - (value - low) / (high - low)) * tall;
  }

  axes(width) {
    const floor = HEIGHT - MARGIN.bottom;
    const tickTexts = valueTexts(this.ticks);
    const rows = this.ticks.flatMap((tick, index) => [
      svg("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: this.y(tick), y2: this.y(tick) }),
      svg("text", { class: "tick", x: MARGIN.left - 8, y: this.y(tick) + 4, "text-anchor": "end" }, tickTexts[index]),
    ]);
    const texts = this.timed ? timeTicks(this.instants[0], this.instants.at(-1), Math.max(2, width / 130)) : [];
    const columns = texts.map(({ at, text }) => {
      // A text near the right edge ends at its tick, so that it is not cut off.
      const x = this.x(at);
      const anchor = x > width - 40 ? "end" : "middle";
      return svg("text", { class: "tick", x, y: floor + 19, "text-anchor": anchor }, text);
    });
    const base = svg("line", { class: "axis", x1: MARGIN.left, x2: width - MARGIN.right, y1: floor, y2: floor });
    return [...rows, base, ...columns];
  }

  line({ colour, values }) {
    let path = "";
    let drawing = false;
    let alone = "";
    values.forEach((value, index) => {
      if (!Number.isFinite(value)) {
        drawing = drawing && this.joinsGaps;
        return;
      }
      const place = `${this.x(this.instants[index]).toFixed(1)} ${this.y(value).toFixed(1)}`;
      // A point between two gaps needs a dot: a line of no length is invisible.
      if (!drawing && !this.joinsGaps && !Number.isFinite(values[index + 1])) alone += `M${place}h0`;
      else path += `${drawing ? "L" : "M"}${place}`;
      drawing = true;
    });
    return svg(
      "g",
      { class: `line colour-${colour}` },
      svg("path", { class: "stroke", d: path }),
      svg("path", { class: "stroke point", d: alone }),
    );
  }

  hover(event) {
    if (!this.lines.length || !this.x) return;
    const at = event.clientX - this.node.getBoundingClientRect().left;
    const distances = this.instants.map((instant) => Math.abs(this.x(instant) - at));
    this.point(distances.indexOf(Math.min(...distances)));
  }

  key(event) {
    const last = this.instants.length - 1;
    const now = this.cursor === null ? last : this.indexOfCursor();
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -JUMP, PageUp: JUMP };
    if (event.key === "Escape") this.point(null);
    else if (event.key === "Home") this.point(0);
    else if (event.key === "End") this.point(last);
    else if (event.key in steps) this.point(Math.min(last, Math.max(0, now + steps[event.key])));
    else return;
    event.preventDefault();
  }

  point(index) {
    this.cursor = index === null || index < 0 ? null : this.instants[index];
    this.showCursor();
  }

  indexOfCursor() {
    return Math.max(0, this.instants.findIndex((at) => at >= this.cursor));
  }

  showCursor() {
    const last = this.instants.length - 1;
    this.drawing.querySelector(".cursor")?.remove();
    this.tooltip.hidden = this.cursor === null || last < 0 || !this.x;
    const index = this.cursor === null ? last : this.indexOfCursor();
    setAttribute(this.node, "aria-valuenow", Math.max(0, index));
    // Without a cursor the value is constant, so that screen readers do not announce every update.
    setAttribute(this.node, "aria-valuetext", this.cursor === null ? this.restText() : this.textAt(index));
    if (this.tooltip.hidden) return;
    this.drawing.append(this.cursorAt(index));
    this.fillTooltip(index);
  }

  restText() {
    return this.instants.length ? "arrow keys read the values" : "no answer yet";
  }

  instantText(index) {
    return this.timed ? `${clock(this.instants[index])} UTC` : `row ${this.instants[index]}`;
  }

  textAt(index) {
    const values = this.valuesAt(index).map(({ group, text }) => `${group || this.label} ${text}`);
    return `${this.instantText(index)}: ${values.join(", ") || "no value"}`;
  }

  valuesAt(index) {
    const digits = digitsFor(this.lines.map((line) => line.values[index]));
    return this.lines
      .map((line) => ({ ...line, value: line.values[index] }))
      .filter(({ value }) => Number.isFinite(value))
      .sort((one, other) => other.value - one.value)
      .map((line) => ({ ...line, text: plain(line.value, digits) }));
  }

  cursorAt(index) {
    const x = this.x(this.instants[index]);
    const dots = this.valuesAt(index).map(({ colour, value }) =>
      svg("circle", { class: `colour-${colour} dot`, cx: x, cy: this.y(value), r: 3.5 }),
    );
    const rule = svg("line", { class: "rule", x1: x, x2: x, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom });
    return svg("g", { class: "cursor" }, rule, dots);
  }

  fillTooltip(index) {
    const rows = this.valuesAt(index).map(({ group, colour, text }) =>
      element(
        "div",
        { class: "tooltip-row" },
        element("span", { class: `swatch colour-${colour}` }),
        element("span", { class: "tooltip-group" }, group || this.label),
        element("span", { class: "number" }, text),
      ),
    );
    this.tooltip.replaceChildren(element("div", { class: "tooltip-head" }, this.instantText(index)), ...rows);
    const x = this.x(this.instants[index]);
    const left = x > this.node.clientWidth / 2;
    this.tooltip.style.left = left ? "auto" : `${x + 14}px`;
    this.tooltip.style.right = left ? `${this.node.clientWidth - x + 14}px` : "auto";
  }
}

/** A sentence that says what the chart shows. */
export function summary(chart, label, left) {
  const { instants, lines, timed } = chart;
  if (!instants.length || !lines.length) return `No values of ${label} yet.`;
  const span = timed ? `from ${clock(instants[0])} to ${clock(instants.at(-1))} UTC` : `over ${instants.length} rows`;
  const groups = lines.length === 1 && !lines[0].group ? "one line" : `${lines.length} groups`;
  const others = left ? `, ${left} more groups are not drawn` : "";
  return `Line chart of ${label}, ${groups}, ${span}${others}.`;
}
