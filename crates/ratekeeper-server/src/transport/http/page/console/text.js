// Numbers, times and names as text.

/** Between a number and its unit: narrow, and never broken. */
const THIN = "\u202f";
/** Where there is nothing to tell. */
export const NOTHING = "–";

const grouped = new Intl.NumberFormat("en-US");
const clockOf = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const shortClockOf = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const dayOf = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** 52310 as 52,310. */
export const count = (value) => grouped.format(value);

/** Three digits, such as 1.23 of 1.234; fewer only of what is exact, so that a figure keeps its width as it changes. */
const digits = (value) => {
  const text = value.toFixed(value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2);
  return Number(text) === value ? String(value) : text;
};

const scaled = (value, units) => {
  let index = 0;
  while (index < units.length - 1 && value >= 1000) {
    value /= 1000;
    index += 1;
  }
  return `${index === 0 ? String(Math.round(value * 10) / 10) : digits(value)}${units[index] && THIN + units[index]}`;
};

/** 49100 as 49.1 k; up to 9,999 as it is. */
export const short = (value) => {
  if (value >= 10000) return scaled(value, ["", "k", "M", "G", "T"]);
  return value < 10 ? String(Number(value.toFixed(value < 1 ? 2 : 1))) : count(Math.round(value));
};

export const bytes = (value) => scaled(value, ["B", "kB", "MB", "GB", "TB"]);

/** A part in percent: what is there is never told as 0, and what is not all never as 100. */
export const percent = (part, whole) => {
  if (!whole) return NOTHING;
  const value = (100 * part) / whole;
  if (part > 0 && value < 0.1) return `<${THIN}0.1${THIN}%`;
  if (part < whole && value > 99.9) return `>${THIN}99.9${THIN}%`;
  return `${value.toFixed(value >= 99.95 || value === 0 ? 0 : 1)}${THIN}%`;
};

export const micros = (value) => {
  if (value === null || value === undefined) return NOTHING;
  if (value < 999.5) return `${digits(value)}${THIN}µs`;
  return value < 999500 ? `${digits(value / 1000)}${THIN}ms` : `${digits(value / 1e6)}${THIN}s`;
};

/** How long, in the two largest units that matter. */
export const span = (millis) => {
  if (millis < 1000) return `${Math.round(millis)}${THIN}ms`;
  if (millis < 10000) return `${(Math.ceil(millis / 100) / 10).toFixed(1)}${THIN}s`;
  const seconds = Math.ceil(millis / 1000);
  const parts = [
    [86400, "d"],
    [3600, "h"],
    [60, "min"],
    [1, "s"],
  ];
  const first = parts.findIndex(([size]) => seconds >= size);
  const [size, unit] = parts[first];
  const rest = parts[first + 1];
  const more = rest ? Math.floor((seconds % size) / rest[0]) : 0;
  return `${count(Math.floor(seconds / size))}${THIN}${unit}${more ? ` ${more}${THIN}${rest[1]}` : ""}`;
};

export const clock = (time) => clockOf.format(time);
export const shortClock = (time) => shortClockOf.format(time);

/** The time of day, and the day if it is another. */
export const moment = (time) => {
  const day = dayOf.format(time);
  return day === dayOf.format(Date.now()) ? clock(time) : `${day} ${clock(time)}`;
};

/** Makes characters seen that would not be, or that would turn the text around: a key may hold anything. */
export const visible = (text) =>
  text.replace(
    /[\u0000-\u001f\u007f-\u00a0\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\ufffb]/g,
    (found) => `\\u{${found.codePointAt(0).toString(16)}}`,
  );
