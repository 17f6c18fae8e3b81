/** Numbers, durations and times as they are shown: in the viewer's zone, aligned by their width. */

const MS_PER_HOUR = 3_600_000;
const STEPS: [number, string][] = [
  [86_400_000, "d"],
  [MS_PER_HOUR, "h"],
  [60_000, "min"],
  [1_000, "s"],
];

const count = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
/** By the number of digits after the point: to make one takes longer than to write many numbers. */
const withDigits = [0, 1, 2].map(
  (digits) => new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }),
);
const clock = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hour12: false,
});
const day = new Intl.DateTimeFormat(undefined, { day: "2-digit", month: "short" });
const date = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

/** Returns a whole number with its thousands apart. */
export function number(value: number): string {
  return count.format(value);
}

/** Returns a duration in its two largest units: `2h 5min`. */
export function duration(ms: number): string {
  let left = Math.max(0, Math.round(ms / 1_000) * 1_000);
  const parts: string[] = [];
  for (const [size, unit] of STEPS) {
    const many = Math.floor(left / size);
    left -= many * size;
    if (many > 0 || (unit === "s" && parts.length === 0)) parts.push(`${many}${unit}`);
    else if (parts.length) break;
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}

/** Returns GPU-hours of GPU-milliseconds, with as many digits as they need. */
export function gpuHours(gpuMs: number): string {
  const hours = gpuMs / MS_PER_HOUR;
  const digits = Math.abs(hours) >= 100 ? 0 : Math.abs(hours) >= 1 ? 1 : 2;
  return (withDigits[digits] as Intl.NumberFormat).format(hours);
}

/** Returns GPU-hours for a column: filled up with blanks, so that the points lie below each other. */
export function gpuHoursCell(gpuMs: number): string {
  const said = gpuHours(gpuMs);
  const point = said.indexOf(".");
  // Blanks as wide as a point and as a digit.
  return point < 0 ? `${said}\u2008\u2007\u2007` : said + "\u2007".repeat(point + 3 - said.length);
}

/** Returns a part of a whole in percent; nothing of nothing is 0. */
export function percent(part: number, of: number): string {
  return `${(of ? (100 * part) / of : 0).toFixed(of && part / of < 0.1 && part ? 1 : 0)} %`;
}

/** Returns a part of a whole in percent for a column: with one digit after the point, always. */
export function percentCell(part: number, of: number): string {
  return `${(of ? (100 * part) / of : 0).toFixed(1)} %`;
}

/** Returns an instant as time of day, with the day where it is not today; else as a date. */
export function time(at: string | number, now: number = Date.now()): string {
  const [then, today] = [new Date(at), new Date(now)];
  if (then.toDateString() === today.toDateString()) return clock.format(then);
  const isNear = Math.abs(then.getTime() - now) < 180 * 24 * MS_PER_HOUR;
  return isNear ? `${day.format(then)} ${clock.format(then)}` : date.format(then);
}

const hour = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });

/** Returns an instant as it stands at an axis whose marks are `everyS` apart. */
export function axisTime(at: number, everyS: number): string {
  const then = new Date(at);
  const isDay = everyS >= 86_400 || (then.getHours() === 0 && then.getMinutes() === 0);
  return isDay ? day.format(then) : hour.format(then);
}

/** Returns an instant in full, with its zone. */
export function fullTime(at: string | number): string {
  return whole.format(new Date(at));
}

/** Returns how far away an instant is: `in 5min`, `2h ago`. */
export function away(at: string | number, now: number): string {
  const ms = new Date(at).getTime() - now;
  return ms >= 0 ? `in ${duration(ms)}` : `${duration(-ms)} ago`;
}

const INSTANT = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g;

/** A piece of a sentence: text, or an instant in it. */
export type Said = { text: string } | { at: string };

/** Returns a sentence of the service in pieces, so that its instants are shown in the viewer's zone. */
export function piecesOf(sentence: string): Said[] {
  const found: Said[] = [];
  let from = 0;
  for (const match of sentence.matchAll(INSTANT)) {
    if (match.index > from) found.push({ text: sentence.slice(from, match.index) });
    found.push({ at: match[0] });
    from = match.index + match[0].length;
  }
  if (from < sentence.length) found.push({ text: sentence.slice(from) });
  return found;
}
