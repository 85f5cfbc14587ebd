// Rates per second, from the server's totals, averaged over half a minute: results come in bursts at the ends of
// windows, and on Spark rows come by the micro-batch.

const SPAN_MS = 30_000;

export class Rates {
  constructor() {
    this.samples = []; // {at, totals: Map of name to total}
  }

  /** `totals` maps names to totals; `at` is an instant in ms. */
  take(totals, at) {
    this.samples.push({ at, totals: new Map(Object.entries(totals)) });
    while (this.samples.length > 2 && at - this.samples[1].at >= SPAN_MS) this.samples.shift();
  }

  /** The rate per second, or null if there are no two samples to compare. */
  of(name) {
    const last = this.samples.at(-1);
    const first = this.samples.find((sample) => Number.isFinite(sample.totals.get(name)));
    if (!first || first === last) return null;
    const difference = last.totals.get(name) - first.totals.get(name);
    // After a drop and a new CREATE the total starts at zero again.
    return difference < 0 ? null : (difference * 1000) / (last.at - first.at);
  }
}
