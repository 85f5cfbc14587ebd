// A line without axes, hidden from screen readers: the numbers beside it are text.

import { svg } from "./dom.js";

const WIDTH = 120;
const HEIGHT = 26;
const MARGIN = 2;

/** An empty sparkline; `drawSpark` fills it. */
export function spark() {
  return svg(
    "svg",
    { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("path", { class: "spark-area" }),
    svg("path", { class: "spark-line", "vector-effect": "non-scaling-stroke" }),
  );
}

/** Draws values from old to new, NaN for none, in the last of `slots` places. `fromZero` starts the axis at zero. */
export function drawSpark(node, values, { slots = values.length, fromZero = false } = {}) {
  const known = values.filter((value) => Number.isFinite(value));
  const [area, line] = node.children;
  if (known.length < 2) {
    area.setAttribute("d", "");
    line.setAttribute("d", "");
    return;
  }
  const least = fromZero ? Math.min(0, ...known) : Math.min(...known);
  const span = Math.max(...known) - least;
  const step = WIDTH / Math.max(1, slots - 1);
  const offset = WIDTH - step * (values.length - 1);
  const points = values.flatMap((value, index) => {
    if (!Number.isFinite(value)) return [];
    // A constant line is drawn in the middle, not at the bottom.
    const part = span > 0 ? (value - least) / span : fromZero ? 1 : 0.5;
    return [[offset + index * step, HEIGHT - MARGIN - part * (HEIGHT - 2 * MARGIN)]];
  });
  const path = points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L");
  line.setAttribute("d", `M${path}`);
  area.setAttribute("d", `M${path}L${points.at(-1)[0].toFixed(1)} ${HEIGHT}L${points[0][0].toFixed(1)} ${HEIGHT}Z`);
}
