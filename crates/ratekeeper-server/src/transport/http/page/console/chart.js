// The large chart: all answers over time, and all but what was allowed once more below it.

import { byId, make, setText } from "./dom.js";
import { drawSwatch, hairline, ink, sharpen } from "./ink.js";
import { P99, PARTS } from "./series.js";
import { NOTHING, clock, micros, percent, short, shortClock, span } from "./text.js";

/** Room for figures at the left, and for times below. */
const LEFT = 46;
const BELOW = 20;

const chart = byId("chart");
const legend = PARTS.map(({ name, note }, part) => {
  const swatch = make("canvas.swatch");
  const value = make("b", NOTHING);
  const item = make("li", swatch, make("span", name), value);
  if (note) item.title = note;
  byId("legend").append(item);
  return { swatch, value, part };
});
const p99 = make("b", NOTHING);
byId("legend").append(make("li", make("span", "p99"), p99));

let series = null;
let readSlot = null;
let shownNewest = 0;
let isPlan = false;

/** Shows another series; `onlyPlan` if it is that of a plan, of which failures and errors are not told apart. */
export const setSeries = (shown, onlyPlan) => {
  if (series !== shown) readSlot = null;
  series = shown;
  isPlan = onlyPlan;
  drawLegend();
};

const drawLegend = () => legend.forEach(({ swatch, part }) => drawSwatch(swatch, part));

/** 1, 2, 2.5 or 5 with zeros: how much there is between two lines. */
const niceStep = (rough) => {
  const size = 10 ** Math.floor(Math.log10(rough));
  return size * [1, 2, 2.5, 5, 10].find((factor) => factor * size >= rough);
};

/** Returns the columns: one for each slot, or one for several of them where the screen has fewer pixels. */
const columnsOf = (first, pixels) => {
  const each = Math.max(1, Math.ceil(series.size / pixels));
  const columns = [];
  for (let start = 0; start < series.size; start += each) {
    let sum = null;
    let found = 0;
    for (let slot = first + start; slot < first + Math.min(start + each, series.size); slot += 1) {
      const point = series.points.get(slot);
      if (!point) continue;
      found += 1;
      sum = sum ? sum.map((value, part) => value + point[part]) : point.slice(0, PARTS.length);
    }
    columns.push(sum && found > 1 ? sum.map((value) => value / found) : sum);
  }
  return { columns, each };
};

/** Draws everything. `newest` is the slot at the right edge. */
export const drawChart = (newest) => {
  if (!series) return;
  shownNewest = newest;
  const [width, height] = [chart.clientWidth, chart.clientHeight];
  if (!width || !height) return;
  const { context, w, h, ratio } = sharpen(chart, width, height);
  const { text, dim } = ink();
  const [left, bottom] = [LEFT * ratio, h - BELOW * ratio];
  const room = w - left;
  const first = newest - series.size + 1;
  const { columns, each } = columnsOf(first, room);
  const x = (index) => Math.round(left + (index * each * room) / series.size);
  const frame = { context, columns, x, left, room, ratio, thin: hairline(ratio) };
  context.font = `${11 * ratio}px ${getComputedStyle(chart).fontFamily}`;

  // All of it in proportion, and below it what is worth a look, on a scale of its own: one in a hundred is seen there.
  const lower = bottom - Math.round((bottom * 27) / 100);
  const upper = lower - 26 * ratio;
  drawPanel({ ...frame, top: 8 * ratio, zero: upper, indices: [0, 1, 2, 3, 4, 5], lines: 3, least: 0 });
  drawPanel({ ...frame, top: lower, zero: bottom, indices: [1, 2, 3, 4, 5], lines: 1, least: 2 * frame.thin });
  context.fillStyle = dim;
  context.textAlign = "left";
  context.fillText("all but allowed, enlarged", left, lower - 9 * ratio);
  drawTimes(context, { first, left, room, bottom, h, ratio, width });
  drawGaps(frame, upper / 2);

  if (readSlot !== null && readSlot < first) readSlot = null;
  if (readSlot !== null) {
    context.fillStyle = text;
    context.fillRect(Math.round(left + ((readSlot - first + 0.5) * room) / series.size), 0, frame.thin, bottom);
  }
  showReading(newest, first);
};

/** Draws lines and figures, and the parts that are shown on top of each other. */
const drawPanel = ({ context, columns, x, left, room, ratio, thin, top, zero, indices, lines, least }) => {
  const { text, dim, line, fills } = ink();
  const sumOf = (column) => (column ? indices.reduce((sum, part) => sum + column[part], 0) : 0);
  const most = columns.reduce((max, column) => Math.max(max, sumOf(column)), 0);
  const step = niceStep(Math.max(most, lines) / lines);
  // To half a line, so that the scale changes seldom and little is empty.
  const unit = (zero - top) / (Math.max(1, Math.ceil((2 * most) / step) / 2) * step);
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (let row = 0; zero - row * step * unit >= top - 1; row += 1) {
    const y = Math.round(zero - row * step * unit);
    context.fillStyle = row ? line : text;
    context.fillRect(left, y, room, thin);
    context.fillStyle = dim;
    context.fillText(row ? `${short(row * step)}/s` : "0", left - 6 * ratio, y);
  }
  // One path for each part: six fills, however many columns.
  const paths = PARTS.map(() => new Path2D());
  columns.forEach((column, index) => {
    if (!column) return;
    const [start, end] = [x(index), Math.max(x(index) + 1, x(index + 1))];
    let [sum, base] = [0, zero];
    for (const part of indices) {
      if (!column[part]) continue;
      sum += column[part];
      // Enlarged, what there is can be seen if it is one in a million.
      const to = Math.min(Math.round(zero - sum * unit), base - least);
      paths[part].rect(start, to, end - start, base - to);
      base = to;
    }
  });
  for (const part of indices) {
    context.fillStyle = fills[part];
    context.fill(paths[part]);
  }
};

/** Times of day under the chart, on whole minutes or hours. */
const drawTimes = (context, { first, left, room, bottom, h, ratio, width }) => {
  const { dim, line } = ink();
  const isMinutes = series.stepMs > 1000;
  const every = (isMinutes ? (width < 600 ? 6 : 3) * 3600 : (width < 600 ? 5 : 3) * 60) * 1000;
  const shift = new Date().getTimezoneOffset() * 60000;
  const [start, end] = [series.timeOf(first - 1), series.timeOf(first + series.size - 1)];
  context.textBaseline = "alphabetic";
  context.textAlign = "center";
  for (let time = Math.ceil((start - shift) / every) * every + shift; time <= end; time += every) {
    const at = Math.round(left + ((time - start) / (end - start)) * room);
    context.fillStyle = line;
    context.fillRect(at, bottom, hairline(ratio), 5 * ratio);
    context.fillStyle = dim;
    const half = 18 * ratio;
    context.fillText(shortClock(time), Math.min(Math.max(at, left + half), left + room - half), h - 4 * ratio);
  }
};

/** Where nothing is known nothing is drawn, and wide gaps say so. */
const drawGaps = ({ context, columns, x, ratio }, y) => {
  const label = "no data";
  context.textAlign = "center";
  context.textBaseline = "middle";
  let from = null;
  [...columns, []].forEach((column, index) => {
    if (!column) from ??= index;
    if (!column || from === null) return;
    const [start, end] = [x(from), x(index)];
    if (end - start > context.measureText(label).width + 8 * ratio) context.fillText(label, (start + end) / 2, y);
    from = null;
  });
};

/** The figures under the chart: of the point that is read, or of the newest. */
const showReading = (newest, first) => {
  const slot = readSlot ?? series.newest;
  const point = series.points.get(slot);
  const isMinutes = series.stepMs > 1000;
  const end = series.timeOf(slot);
  const ago = Math.max(0, (newest - slot) * series.stepMs);
  let told = isMinutes ? "last whole minute, a second" : "last second";
  if (readSlot !== null) {
    const when = isMinutes ? `${shortClock(end - series.stepMs)} to ${shortClock(end)}, a second` : clock(end);
    told = `${when} · ${ago ? `${span(ago)} ago` : "now"}${point ? "" : " · no data"}`;
  }
  setText(byId("reading"), told);
  const known = (part) => point && !(isPlan && (part === 2 || part > 3));
  legend.forEach(({ value, part }) => setText(value, known(part) ? short(point[part]) : NOTHING));
  setText(p99, point ? micros(point[P99]) : NOTHING);
  chart.setAttribute("aria-valuemax", String(series.size - 1));
  chart.setAttribute("aria-valuenow", String(Math.max(0, slot - first)));
  if (document.activeElement !== chart || !point) return;
  const denied = point[3] + point[4];
  const decided = point[0] + point[1] + point[2] + denied;
  const figures = legend.filter(({ part }) => point[part]).map(({ part }) => `${short(point[part])} ${PARTS[part].name}`);
  chart.setAttribute("aria-valuetext", `${told}: ${figures.join(", ") || "nothing"}; ${percent(denied, decided)} denied`);
};

const read = (slot) => {
  const first = shownNewest - series.size + 1;
  readSlot = slot === null ? null : Math.min(Math.max(slot, first), shownNewest);
  drawChart(shownNewest);
};

const slotAt = (event) => {
  const { left, width } = chart.getBoundingClientRect();
  const share = (event.clientX - left - LEFT) / (width - LEFT);
  return shownNewest - series.size + 1 + Math.floor(share * series.size);
};

chart.addEventListener("pointerdown", (event) => series && read(slotAt(event)));
chart.addEventListener("pointermove", (event) => {
  // A pointer that rests moves, too, when the page changes below it: what is read by keys must not jump there.
  if (series && (event.movementX || event.movementY)) read(slotAt(event));
});
// A finger leaves when it has pointed; what it read stays.
chart.addEventListener("pointerleave", (event) => {
  if (series && event.pointerType === "mouse" && document.activeElement !== chart) read(null);
});
chart.addEventListener("blur", () => series && read(null));
chart.addEventListener("keydown", (event) => {
  const moves = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageUp: -60, PageDown: 60, Home: -Infinity };
  if (!series || event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === "Escape" || event.key === "End") read(null);
  else if (event.key in moves) read((readSlot ?? series.newest) + moves[event.key]);
  else return;
  event.preventDefault();
});
document.addEventListener("themechange", () => {
  drawLegend();
  if (series) drawChart(shownNewest);
});
new ResizeObserver(() => series && drawChart(shownNewest)).observe(chart);
drawLegend();
