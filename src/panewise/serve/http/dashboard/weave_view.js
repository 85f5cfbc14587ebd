// What the queries share: a sentence with the saving, a drawing, and a table of the trees.

import { byId, element, setAttribute } from "./dom.js";
import { bytes, exactRate, NOTHING, percent, plural, processorTime, whole } from "./format.js";
import { savedShare } from "./figures.js";
import { drawWeave, familyText, numberedTrees } from "./weave_drawing.js";

const TREES_MAX = 30;
const WIDTH_MIN = 720; // of the drawing, in pixels

export class WeaveView {
  constructor(choose) {
    this.choose = choose;
    this.body = byId("trees").tBodies[0];
    this.drawing = byId("weave-drawing");
    this.weave = null;
    new ResizeObserver(() => this.draw()).observe(this.drawing);
  }

  show(weave, stats) {
    this.weave = weave;
    this.stats = stats;
    byId("saving").replaceChildren(...saving(weave));
    byId("weave-scroll").hidden = !weave.families?.length;
    this.body.replaceChildren(...this.rows());
    this.draw();
  }

  draw() {
    if (!this.weave || !this.drawing.clientWidth) return;
    const room = this.drawing.clientWidth;
    // If the drawing scrolls, the keyboard must be able to scroll it.
    setAttribute(this.drawing, "tabindex", room < WIDTH_MIN ? "0" : null);
    this.drawing.replaceChildren(...drawWeave(this.weave, Math.max(WIDTH_MIN, room), this.choose));
  }

  rows() {
    const all = this.weave.cost_ns_per_second;
    const trees = numberedTrees(this.weave);
    const shown = trees.slice(0, TREES_MAX);
    const toldBy = new Map();
    const rows = shown.map(({ family, tree, name }, position) => {
      const isFirst = shown[position - 1]?.family !== family;
      const spans = shown.filter((part) => part.family === family).length;
      const share = all > 0 ? ` (${percent(family.cost_ns_per_second / all)})` : "";
      // All trees of a family share folding and slices: show their cost once.
      const together = (text) => (isFirst ? element("td", { class: "number", rowspan: spans }, text) : null);
      return element(
        "tr",
        {},
        element("th", { scope: "row" }, name),
        element("td", {}, familyText(family)),
        element("td", { class: "number" }, whole(tree.members.length)),
        element("td", { class: "number" }, tree.edges_per_second === null ? NOTHING : exactRate(tree.edges_per_second)),
        element("td", { class: "number" }, this.slicesOf(tree)),
        element("td", {}, [...new Set(Object.values(tree.technique))].join(", ")),
        together(processorTime(family.cost_ns_per_second) + share),
        together(this.stateOf(family, name, toldBy)),
      );
    });
    if (trees.length > shown.length) {
      const text = `and ${plural(trees.length - shown.length, "more tree")}`;
      rows.push(element("tr", {}, element("td", { colspan: 8, class: "note" }, text)));
    }
    return rows;
  }

  slicesOf({ slices_held: held }) {
    // A Spark pipeline's driver holds no slices; they are in the buckets.
    return held === null || this.stats?.kind === "spark" ? NOTHING : whole(held);
  }

  /** Bytes of state, shown once: on Spark several families may share one state. */
  stateOf(family, name, toldBy) {
    const member = family.trees[0]?.members[0]?.query;
    const kept = (this.stats?.trees ?? []).find((tree) => tree.queries?.includes(member));
    if (!kept) return NOTHING;
    if (toldBy.has(kept)) return `in that of ${toldBy.get(kept)}`;
    toldBy.set(kept, name);
    return bytes(kept.bytes);
  }
}

function saving(weave) {
  if (!weave.queries) return ["No query that could share work is registered."];
  const run = `${plural(weave.queries, "query runs", "queries run")} as ${plural(weave.trees, "tree")}`;
  const saved = savedShare(weave);
  if (saved === NOTHING) return [`${run}.`];
  const alone = processorTime(weave.cost_alone_ns_per_second);
  const now = processorTime(weave.cost_ns_per_second);
  return [
    `${run}: `,
    element("strong", {}, `${saved} of the work is saved`),
    `. Estimated processor time: ${now} instead of ${alone}, were each query to run alone.`,
  ];
}
