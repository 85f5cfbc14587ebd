// The weave as a drawing: streams at the left, trees in the middle, queries at the right. A thicker line means more
// processor time. If there are many trees or queries, the first are drawn and a line counts the others. Screen readers
// get the table of trees below it instead.

import { element, svg } from "./dom.js";
import { exactRate, plural, rate, whole } from "./format.js";

const TREES_MAX = 8;
const QUERIES_MAX = 12; // per tree
const LINE = 21;
const TREE_HEIGHT = 46;
const GAP = 18;
const TOP = 8;
const WORDS = { MICROSECOND: "µs", MILLISECOND: "ms", SECOND: "s", MINUTE: "min", HOUR: "h", DAY: "d", WEEK: "w" };

/** The nodes of the drawing, `width` pixels wide, and of a note on trees that are left out; none without trees. */
export function drawWeave(weave, width, choose) {
  const trees = numberedTrees(weave);
  if (!trees.length) return [];
  const [streamX, treeX, queryX] = [0, 0.25, 0.56].map((part) => part * width + 1);
  const streamWidth = Math.min(190, (treeX - streamX) * 0.62);
  const treeWidth = (queryX - treeX) * 0.74;
  const placed = place(trees.slice(0, TREES_MAX), width - queryX);
  const height = placed.at(-1).bottom + TOP;
  const streams = streamsOf(placed);
  const nodes = [];
  for (const part of placed) {
    const stream = streams.get(part.family.stream);
    nodes.push(curve(streamX + streamWidth, stream.middle, treeX, part.middle, 1.5 + 9 * part.share));
    part.queries.forEach((query) => nodes.push(curve(treeX + treeWidth, part.middle, queryX - 8, query.y, 1)));
  }
  for (const [name, stream] of streams) nodes.push(streamBox(name, stream, streamX, streamWidth));
  for (const part of placed) {
    nodes.push(treeBox(part, treeX, treeWidth));
    nodes.push(...part.queries.map((query) => queryText(query, queryX, width - queryX, choose)));
  }
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" }, nodes);
  const more = trees.length - TREES_MAX;
  return more > 0 ? [drawing, element("p", { class: "note" }, `${plural(more, "tree")} not drawn.`)] : [drawing];
}

/** Describes the rows that a family folds. */
export function familyText({ stream, grouping, selections }) {
  const where = selections.filter(Boolean);
  const parts = [stream, grouping ? `by ${grouping}` : ""];
  if (where.length === 1 && selections.length === 1) parts.push(`where ${where[0]}`);
  else if (selections.length > 1) parts.push(`${selections.length} selections`);
  return parts.filter(Boolean).join(" ");
}

/** All trees, families with the most queries first, numbered over the whole weave, not per family. */
export function numberedTrees(weave) {
  const all = weave.cost_ns_per_second || 1;
  const size = (family) => family.trees.reduce((sum, tree) => sum + tree.members.length, 0);
  return [...(weave.families ?? [])]
    .sort((one, other) => size(other) - size(one))
    .flatMap((family) =>
      family.trees.map((tree) => ({
        family,
        tree,
        share: ((family.cost_ns_per_second / all) * tree.members.length) / size(family),
      })),
    )
    .map((part, position) => ({ ...part, name: `tree ${position + 1}` }));
}

/** Places trees from the top down; a tree is as tall as its list of queries. */
function place(trees, queryWidth) {
  let top = TOP;
  const perLine = queryWidth > 420 ? 2 : 1;
  return trees.map((part) => {
    const labels = queryLabels(part.tree);
    const lines = Math.ceil(labels.length / perLine);
    const height = Math.max(TREE_HEIGHT, lines * LINE);
    const middle = top + height / 2;
    const first = middle - ((lines - 1) * LINE) / 2;
    const queries = labels.map((label, index) => ({
      ...label,
      y: first + Math.floor(index / perLine) * LINE,
      column: index % perLine,
      columns: perLine,
    }));
    const bottom = top + height;
    top = bottom + GAP;
    return { ...part, middle, bottom, queries };
  });
}

/** The names of queries if they are few, otherwise each window with its number of queries. */
function queryLabels({ members }) {
  if (members.length <= QUERIES_MAX) {
    return members.map(({ query, window }) => ({ name: query, note: windowText(window), query }));
  }
  const windows = new Map();
  for (const { window } of members) windows.set(window, (windows.get(window) ?? 0) + 1);
  const frequent = [...windows].sort((one, other) => other[1] - one[1]);
  const shown = frequent.slice(0, QUERIES_MAX - 1).map(([window, number]) => ({
    name: windowText(window),
    note: plural(number, "query", "queries"),
  }));
  const others = frequent.slice(QUERIES_MAX - 1);
  const left = others.reduce((sum, [, number]) => sum + number, 0);
  if (left) shown.push({ name: plural(others.length, "more window"), note: plural(left, "query", "queries") });
  return shown;
}

function windowText(window) {
  const units = new RegExp(`(\\d+) (${Object.keys(WORDS).join("|")})S?\\b`, "g");
  return window
    .replace(/^\[|\]$/g, "")
    .replace(units, (_, number, unit) => `${number} ${WORDS[unit]}`)
    .replace(/^RANGE /, "")
    .replace(/ SLIDE /, " every ")
    .replace(/ OFFSET (.*)/, ", $1 ago");
}

function streamsOf(placed) {
  const streams = new Map();
  for (const part of placed) {
    const stream = streams.get(part.family.stream) ?? { middles: [], rate: null };
    stream.middles.push(part.middle);
    stream.rate = part.family.rows_per_second ?? stream.rate;
    streams.set(part.family.stream, stream);
  }
  for (const stream of streams.values()) {
    stream.middle = (Math.min(...stream.middles) + Math.max(...stream.middles)) / 2;
  }
  return streams;
}

function curve(x1, y1, x2, y2, thickness) {
  const bend = (x1 + x2) / 2;
  const path = `M${x1} ${y1.toFixed(1)}C${bend} ${y1.toFixed(1)} ${bend} ${y2.toFixed(1)} ${x2} ${y2.toFixed(1)}`;
  return svg("path", { class: "thread", d: path, "stroke-width": thickness.toFixed(1) });
}

function streamBox(name, { middle, rate: perSecond }, x, width) {
  const note = perSecond === null ? "" : `${rate(perSecond)} rows/s`;
  return box("stream-box", x, middle, width, name, note);
}

function treeBox({ family, tree, name, middle }, x, width) {
  const edges = tree.edges_per_second === null ? "" : edgesText(tree.edges_per_second);
  const states = family.states.length ? plural(family.states.length, "state") : "";
  const note = [plural(tree.members.length, "query", "queries"), edges, states].filter(Boolean).join(" · ");
  return box("tree-box", x, middle, width, `${name}: ${familyText(family)}`, note, tree.members.length > 1);
}

function edgesText(perSecond) {
  const [number, unit = "s"] = exactRate(perSecond).split("/");
  return `${number} edges/${unit}`;
}

function box(kind, x, middle, width, title, note, isShared = false) {
  const y = middle - TREE_HEIGHT / 2;
  return svg(
    "g",
    { class: isShared ? `${kind} shared` : kind },
    svg("title", {}, `${title}\n${note}`),
    svg("rect", { x, y, width, height: TREE_HEIGHT, rx: 6 }),
    svg("text", { class: "strong", x: x + 12, y: middle - 4 }, fitted(title, width - 24, 7)),
    svg("text", { class: "soft", x: x + 12, y: middle + 14 }, fitted(note, width - 24, 6.3)),
  );
}

function queryText({ name, note, query, y, column, columns }, x, width, choose) {
  const left = x + (column * width) / columns;
  const room = width / columns - 8;
  const shownName = fitted(name, room, 7.2);
  const rest = room - shownName.length * 6.9 - 10;
  const parts = [svg("tspan", { class: query ? "query-name" : "" }, shownName)];
  if (rest > 40) parts.push(svg("tspan", { class: "soft", dx: 8 }, fitted(note, rest, 5.6)));
  const attributes = query ? { class: "query", click: () => choose(query) } : {};
  return svg("text", { x: left, y: y + 4, ...attributes }, svg("title", {}, `${name} ${note}`), parts);
}

/** The text, cut to fit into `room` pixels; `letter` is the mean width of a letter. */
function fitted(text, room, letter) {
  const most = Math.max(3, Math.floor(room / letter));
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}
