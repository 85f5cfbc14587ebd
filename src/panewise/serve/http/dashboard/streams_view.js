// The table of streams: rate, watermark, lag, and counts of pending, late, bad and shed rows.

import { byId, element, keyedRows, setAttribute, setText } from "./dom.js";
import { bytes, clock, count, dayAndClock, instant, plural, rate, seconds, whole } from "./format.js";
import { drawSpark, spark } from "./sparkline.js";

const SAMPLES_MAX = 180; // three minutes, one sample a second

export class StreamsView {
  constructor() {
    this.body = byId("streams").tBodies[0];
    this.rows = new Map();
    this.samples = new Map();
    byId("streams-empty").append(
      element("p", {}, "No stream yet. Create one with “Add a query”, or start the server with a file:"),
      element("pre", {}, "CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, size BIGINT,\n" +
        "                      WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS);"),
    );
  }

  show(streams) {
    const names = Object.keys(streams);
    byId("streams").parentElement.hidden = !names.length;
    byId("streams-empty").hidden = names.length > 0;
    setText(byId("streams-note"), names.length > 1 ? plural(names.length, "stream") : "");
    keyedRows(this.body, this.rows, names, (name) => makeRow(name));
    for (const name of names) {
      const samples = this.samples.get(name) ?? [];
      samples.push(streams[name].rate ?? NaN);
      if (samples.length > SAMPLES_MAX) samples.shift();
      this.samples.set(name, samples);
      fill(this.rows.get(name), streams[name], samples);
    }
    showRemarks(names.flatMap((name) => [streams[name].late_remark, streams[name].bad_remark]).filter(Boolean));
    for (const name of this.samples.keys()) if (!(name in streams)) this.samples.delete(name);
  }
}

function makeRow(name) {
  const trend = spark();
  const cells = {};
  for (const key of ["rate", "rows", "watermark", "lag", "waiting", "late", "bad", "shed"]) {
    cells[key] = element("td", { class: "number" });
  }
  const node = element(
    "tr",
    {},
    element("th", { scope: "row" }, name),
    element("td", { class: "trend wide" }, trend),
    Object.values(cells),
  );
  return { node, trend, cells };
}

function fill({ trend, cells }, stream, samples) {
  drawSpark(trend, samples, { slots: Math.max(60, samples.length), fromZero: true });
  setText(cells.rate, rate(stream.rate));
  setText(cells.rows, whole(stream.rows));
  const age = Number.isFinite(stream.age) ? `, newest row ${seconds(stream.age)} ago` : "";
  setText(cells.watermark, watermarkText(instant(stream.watermark)) + age);
  setText(cells.lag, seconds(stream.lag));
  const waiting = stream.waiting_rows ?? 0;
  setText(cells.waiting, waiting ? `${count(waiting)} (${bytes(stream.waiting_bytes)})` : "0");
  for (const [key, value] of [["late", stream.late_rows], ["bad", stream.bad_rows], ["shed", stream.shed_rows]]) {
    setText(cells[key], count(value ?? 0));
    setAttribute(cells[key], "data-alarming", value ? "yes" : null);
  }
}

/** Shows the server's remarks on late rows and bad rows: how many, why, and what to do. */
function showRemarks(remarks) {
  const list = byId("streams-remarks");
  list.hidden = !remarks.length;
  while (list.children.length > remarks.length) list.lastChild.remove();
  remarks.forEach((remark, i) => {
    if (!list.children[i]) list.append(element("li"));
    setText(list.children[i], remark);
  });
}

function watermarkText(at) {
  return Math.abs(Date.now() - at) < 86_400_000 ? clock(at) : dayAndClock(at);
}
