// The strip of figures at the top, legible from a distance.

import { byId, element, setAttribute, setText } from "./dom.js";
import { bytes, count, NOTHING, percent, plural, seconds, whole } from "./format.js";

const NAMES = [
  ["rate", "Rows per second"],
  ["queries", "Queries"],
  ["saved", "Work saved"],
  ["state", "State"],
  ["lag", "Greatest lag"],
  ["aside", "Late, bad, shed"],
];

export class Figures {
  constructor() {
    this.parts = new Map();
    for (const [key, name] of NAMES) {
      const head = element("dt", {}, name);
      const value = element("dd", { class: "figure-value" }, NOTHING);
      const note = element("dd", { class: "figure-note" });
      this.parts.set(key, { head, value, note });
      byId("figures").append(element("div", { class: "figure" }, head, value, note));
    }
  }

  show(stats, weave) {
    const streams = Object.values(stats.streams ?? {});
    const queries = Object.values(stats.queries ?? {});
    this.set("rate", count(sum(streams, "rate")), this.capacity(streams));
    const running = queries.filter((query) => query.status === "RUNNING").length;
    const failed = queries.filter((query) => query.status === "FAILED").length;
    const note = queries.length > running ? statusNote(running, failed, queries.length) : "all running";
    this.set("queries", whole(queries.length), queries.length ? note : "none yet", failed > 0);
    const trees = weave?.queries ? `${plural(weave.trees, "tree")} instead of ${whole(weave.queries)}` : "";
    this.set("saved", savedShare(weave), trees);
    const held = stateBytes(stats);
    this.set("state", bytes(held.all), held.waiting ? `${bytes(held.waiting)} waiting` : "in trees and queries");
    this.showLag(streams, stats.spark);
    const [late, bad, shed] = ["late_rows", "bad_rows", "shed_rows"].map((name) => sum(streams, name));
    const parts = `${count(late)} late, ${count(bad)} bad, ${count(shed)} shed`;
    this.set("aside", count(late + bad + shed), parts, bad + shed > 0);
  }

  /** The greatest lag of a stream; on Spark, the age of the last micro-batch's answers. */
  showLag(streams, pipeline) {
    if (pipeline) {
      setText(this.parts.get("lag").head, "Age of answers");
      const took = `micro-batch ${whole(pipeline.batches)} took ${seconds(pipeline.trigger_seconds)}`;
      this.set("lag", seconds(pipeline.age_seconds), pipeline.batches ? took : "the first micro-batch runs");
      return;
    }
    const lags = streams.map((stream) => stream.lag).filter(Number.isFinite);
    this.set("lag", lags.length ? seconds(Math.max(...lags)) : NOTHING, "answers behind the newest row");
  }

  capacity(streams) {
    const known = streams.map((stream) => stream.sustainable_rate).filter(Number.isFinite);
    return known.length ? `${count(Math.max(...known))} can be processed` : "";
  }

  set(key, value, note, alarming = false) {
    const part = this.parts.get(key);
    setText(part.value, value);
    setText(part.note, note);
    setAttribute(part.note, "data-alarming", alarming ? "yes" : null);
  }
}

function statusNote(running, failed, all) {
  const suspended = all - running - failed;
  const parts = [`${whole(running)} running`];
  if (suspended) parts.push(`${whole(suspended)} suspended`);
  if (failed) parts.push(`${whole(failed)} failed`);
  return parts.join(", ");
}

function sum(parts, name) {
  return parts.reduce((total, part) => total + (part[name] ?? 0), 0);
}

export function savedShare(weave) {
  if (!weave || !(weave.cost_alone_ns_per_second > 0) || weave.queries < 2) return NOTHING;
  return percent(Math.max(0, 1 - weave.cost_ns_per_second / weave.cost_alone_ns_per_second));
}

/** Bytes of all state, and bytes of pending rows. */
export function stateBytes(stats) {
  const parts = [
    ...Object.values(stats.streams ?? {}),
    ...Object.values(stats.tables ?? {}),
    ...Object.values(stats.queries ?? {}),
    ...(stats.trees ?? []),
  ];
  return { all: sum(parts, "bytes"), waiting: sum(Object.values(stats.streams ?? {}), "waiting_bytes") };
}
