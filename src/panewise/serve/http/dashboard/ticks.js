// The ticks of axes: round values, few enough to read.

const SECOND = 1000;
const TIME_STEPS = [
  ...[0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30].map((seconds) => seconds * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * 60 * SECOND),
  ...[1, 2, 3, 6, 12].map((hours) => hours * 3600 * SECOND),
  ...[1, 2, 7, 14, 30, 90, 365].map((days) => days * 86_400 * SECOND),
];

const UNITS = [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"]];

/** Round values that enclose both arguments, about `about` steps of 1, 2 or 5 times a power of ten. */
export function valueTicks(least, greatest, about = 4) {
  if (least === greatest) {
    const around = least === 0 ? 1 : Math.abs(least) * 0.1;
    return valueTicks(least - around, greatest + around, about);
  }
  const rough = (greatest - least) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough * 0.7);
  const first = Math.floor(least / step + 1e-9);
  const last = Math.ceil(greatest / step - 1e-9);
  return Array.from({ length: last - first + 1 }, (_, index) => Number(((first + index) * step).toPrecision(12)));
}

/** The texts of ticks, with one unit for all and enough digits to distinguish them. */
export function valueTexts(ticks) {
  const size = Math.max(...ticks.map(Math.abs));
  const [factor, unit] = UNITS.find(([least]) => size >= least * 10) ?? [1, ""];
  const step = (ticks[1] - ticks[0]) / factor;
  const digits = Math.min(8, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
  return ticks.map((tick) => (tick === 0 ? "0" : `${(tick / factor).toFixed(digits)}${unit}`));
}

/** Ticks {at, text} between two instants in ms, at a round step of the clock. */
export function timeTicks(first, last, most) {
  if (!(last > first)) return Number.isFinite(first) ? [{ at: first, text: timeText(first, SECOND) }] : [];
  const step = TIME_STEPS.find((candidate) => (last - first) / candidate <= most) ?? TIME_STEPS.at(-1);
  const ticks = [];
  for (let at = Math.ceil(first / step) * step; at <= last; at += step) ticks.push({ at, text: timeText(at, step) });
  return ticks;
}

function timeText(at, step) {
  const text = new Date(at).toISOString();
  if (step >= 86_400 * SECOND) return text.slice(0, 10);
  if (step < SECOND) return text.slice(11, 22);
  return step >= 60 * SECOND ? text.slice(11, 16) : text.slice(11, 19);
}
