// Numbers for reading at a distance: three significant digits with a unit.

const COUNT_UNITS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
const BYTE_UNITS = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]];
export const NOTHING = "–";

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

function threeDigits(value) {
  const size = Math.abs(value);
  if (size >= 100 || Number.isInteger(value)) return value.toFixed(0);
  return size >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** 950, 1.43 k, 12.9 M. */
export function count(value) {
  if (!isNumber(value)) return NOTHING;
  for (const [factor, unit] of COUNT_UNITS) {
    if (Math.abs(value) >= factor * 0.9995) return `${threeDigits(round(value / factor))} ${unit}`;
  }
  return threeDigits(round(value));
}

const round = (value) => Number(value.toPrecision(3));

/** All digits, with thousands separators, for counts that may be compared: 9,568,256. */
export function whole(value) {
  return isNumber(value) ? Math.round(value).toLocaleString("en-US") : NOTHING;
}

export function bytes(value) {
  if (!isNumber(value)) return NOTHING;
  for (const [factor, unit] of BYTE_UNITS) {
    if (value >= factor) return `${threeDigits(round(value / factor))} ${unit}`;
  }
  return `${Math.round(value)} B`;
}

/** A rate; below one a second it is given by the minute or the hour. */
export function rate(perSecond) {
  if (!isNumber(perSecond)) return NOTHING;
  if (perSecond === 0) return "0";
  if (perSecond >= 99.95) return count(perSecond);
  if (perSecond >= 0.995) return perSecond.toFixed(1);
  return perSecond * 60 >= 0.995 ? `${count(perSecond * 60)}/min` : `${count(perSecond * 3600)}/h`;
}

/** A rate that is known exactly: 1, not 1.0. */
export function exactRate(perSecond) {
  return rate(perSecond).replace(/\.0$/, "");
}

/** A duration in its two greatest units at most: 14 ms, 2.0 s, 3 min 20 s, 2 h 5 min, 4 d. */
export function seconds(value) {
  if (!isNumber(value)) return NOTHING;
  if (value < 0) return `−${seconds(-value)}`;
  if (value === 0) return "0 s";
  if (value < 0.001) return "<1 ms";
  if (value < 0.9995) return `${Math.round(value * 1000)} ms`;
  if (value < 59.95) return `${value < 10 ? value.toFixed(1) : Math.round(value)} s`;
  if (value < 3600) return pair(Math.round(value), 60, "min", "s");
  if (value < 86400) return pair(Math.round(value / 60), 60, "h", "min");
  return pair(Math.round(value / 3600), 24, "d", "h");
}

function pair(value, base, great, small) {
  const rest = value % base;
  return `${Math.floor(value / base)} ${great}${rest ? ` ${rest} ${small}` : ""}`;
}

/** Processor time per second of the stream. */
export function processorTime(nanoseconds) {
  if (!isNumber(nanoseconds)) return NOTHING;
  if (nanoseconds >= 1e9) return `${count(nanoseconds / 1e9)} s/s`;
  if (nanoseconds >= 1e6) return `${count(nanoseconds / 1e6)} ms/s`;
  return nanoseconds >= 1e3 ? `${count(nanoseconds / 1e3)} µs/s` : `${count(nanoseconds)} ns/s`;
}

/** 97 %; a share below 1 is never shown as 100 %. */
export function percent(share) {
  if (!isNumber(share)) return NOTHING;
  if (share > 0.99 && share < 1) return `${Math.min(99.9, Math.floor(share * 1000) / 10).toFixed(1)} %`;
  return `${Math.round(share * 100)} %`;
}

/** The server's text of an instant, with or without a zone, or its microseconds, in ms; NaN if it is none. */
export function instant(text) {
  if (typeof text === "number") return text / 1000;
  if (typeof text !== "string") return NaN;
  const joined = text.replace(" ", "T");
  return Date.parse(/(Z|[+-]\d\d:?\d\d)$/.test(joined) ? joined : `${joined}Z`);
}

export function clock(milliseconds, withFraction = false) {
  if (!Number.isFinite(milliseconds)) return NOTHING;
  const text = new Date(milliseconds).toISOString();
  return text.slice(11, withFraction ? 23 : 19);
}

export function dayAndClock(milliseconds) {
  if (!Number.isFinite(milliseconds)) return NOTHING;
  const text = new Date(milliseconds).toISOString();
  return `${text.slice(0, 10)} ${text.slice(11, 19)}`;
}

export function plural(number, one, many = `${one}s`) {
  return `${whole(number)} ${number === 1 ? one : many}`;
}

/** A cell's text, by its column's type. Floating-point values get `digits` decimals. */
export function cell(value, type, digits = null) {
  if (value === null || value === undefined) return "NULL";
  if (type.startsWith("TIMESTAMP")) {
    const at = instant(value);
    return at % 1000 === 0 ? dayAndClock(at) : `${dayAndClock(at)}.${String(Math.floor(at) % 1000).padStart(3, "0")}`;
  }
  if (typeof value === "number") return plain(value, type === "BIGINT" || type === "INT" ? 0 : digits);
  return String(value);
}

/** A number with `digits` decimals; if null, as many as suit its size. */
export function plain(value, digits = null) {
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-6)) return value.toPrecision(4);
  if (digits === null) return value.toLocaleString("en-US", { maximumFractionDigits: digitsFor([value]) });
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** The number of decimals for all values of a column, so that their points are aligned. */
export function digitsFor(values) {
  const known = values.filter(Number.isFinite);
  if (known.every(Number.isInteger)) return 0;
  const size = Math.max(...known.map(Math.abs));
  return Math.min(6, Math.max(size >= 1e6 ? 0 : 2, 3 - Math.floor(Math.log10(size))));
}
