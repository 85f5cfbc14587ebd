// How much comes in a second, from totals that the server tells: over the last half minute, because results come in
// bursts at the ends of windows, and on Spark rows come by the micro-batch.

const SPAN_MS = 30_000;

export class Rates {
  constructor() {
    this.samples = []; // {at, totals: Map of name to total}
  }

  /** `totals` is an object of name to total, `at` an instant in ms. */
  take(totals, at) {
    this.samples.push({ at, totals: new Map(Object.entries(totals)) });
    while (this.samples.length > 2 && at - this.samples[1].at >= SPAN_MS) this.samples.shift();
  }

  /** By the second, null where there is nothing to compare with yet. */
  of(name) {
    const last = this.samples.at(-1);
    const first = this.samples.find((sample) => Number.isFinite(sample.totals.get(name)));
    if (!first || first === last) return null;
    const difference = last.totals.get(name) - first.totals.get(name);
    // What was dropped and created again counts from nothing.
    return difference < 0 ? null : (difference * 1000) / (last.at - first.at);
  }
}
