// The colours and patterns of the charts, and small charts.

import { make } from "./dom.js";

/** One pixel of the page in pixels of the screen. */
export const density = () => Math.max(1, Math.min(3, window.devicePixelRatio || 1));

/** The thinnest line that is seen well. */
export const hairline = (ratio) => Math.max(1, Math.round(ratio * 0.75));

/** Makes a canvas as sharp as the screen; returns what draws on it, and its size in pixels of the screen. */
export const sharpen = (canvas, width, height) => {
  const ratio = density();
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w) canvas.width = w;
  if (canvas.height !== h) canvas.height = h;
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, w, h);
  return { context, w, h, ratio };
};

/** Tiles of the patterns, so that what has the same brightness is told apart: strokes in a square of 6 by 6. */
const STROKES = [
  null,
  [[0, 6, 6, 0], [-1, 1, 1, -1], [5, 7, 7, 5]],
  [[0, 1.5, 6, 1.5], [0, 4.5, 6, 4.5]],
  null,
  [[0, 6, 6, 0], [0, 0, 6, 6]],
  null,
];

let inks = null;

document.addEventListener("themechange", () => {
  inks = null;
});

/** Returns the fills of the parts, and the colours of everything else, as the style sheet has them at present. */
export const ink = () => {
  if (inks) return inks;
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const parts = [0, 1, 2, 3, 4, 5].map((part) => colour(`part-${part}`));
  inks = { text: colour("text"), dim: colour("dim"), line: colour("line"), back: colour("back"), parts };
  inks.fills = parts.map((value, part) => pattern(value, STROKES[part], inks.back));
  return inks;
};

const pattern = (colour, strokes, back) => {
  if (!strokes) return colour;
  const ratio = density();
  const tile = make("canvas");
  const { context, w, h } = sharpen(tile, 6, 6);
  context.fillStyle = colour;
  context.fillRect(0, 0, w, h);
  context.scale(ratio, ratio);
  context.strokeStyle = back;
  context.lineWidth = 1.6;
  context.beginPath();
  for (const [x, y, to, down] of strokes) {
    context.moveTo(x, y);
    context.lineTo(to, down);
  }
  context.stroke();
  return context.createPattern(tile, "repeat");
};

/** Draws the sample of a part that stands beside its name. */
export const drawSwatch = (canvas, part) => {
  const { context, w, h } = sharpen(canvas, 14, 12);
  context.fillStyle = ink().fills[part];
  context.fillRect(0, 0, w, h);
};

/**
 * Draws a small chart of `slots` columns, as the large one: what was `allowed` and above it what was `denied`, then `denied`
 * once more on a scale of its own. Without `allowed` there is only that. `mark`, if given, is drawn over it as a step.
 */
export const drawSmall = (canvas, width, height, { slots, allowed, denied, mark }) => {
  const { context, w, h, ratio } = sharpen(canvas, width, height);
  const { fills, line, text } = ink();
  const thin = hairline(ratio);
  const first = slots - denied.length;
  const x = (index) => Math.round(((first + index) * w) / slots);
  // With room for it, columns stand apart.
  const apart = w / slots >= 5 * ratio ? Math.round(ratio) : 0;
  const most = (list) => list.reduce((max, value) => Math.max(max, value ?? 0), 0);
  const scaleOf = (list, room) => (room - 2 * thin) / Math.max(most(list), 1e-9);
  const draw = (list, base, scale, fill, under) => {
    context.fillStyle = fill;
    list.forEach((value, index) => {
      if (!value) return;
      const start = base - Math.round((under?.[index] ?? 0) * scale);
      const tall = Math.max(thin, Math.round(value * scale));
      context.fillRect(x(index), start - tall, x(index + 1) - x(index) - apart, tall);
    });
  };
  const base = h - thin;
  const room = allowed ? Math.round(h * 0.36) : h;
  context.fillStyle = line;
  context.fillRect(0, base, w, thin);
  const scale = scaleOf(mark ? [...denied, ...mark] : denied, room);
  draw(denied, base, scale, fills[3]);
  if (allowed) {
    const above = h - room - 2 * thin;
    const sums = allowed.map((value, index) => value + denied[index]);
    const scaleAbove = scaleOf(sums, above);
    draw(allowed, above, scaleAbove, fills[0]);
    draw(denied, above, scaleAbove, fills[3], allowed);
  }
  if (!mark) return;
  context.strokeStyle = text;
  context.lineWidth = 1.5 * ratio;
  context.beginPath();
  mark.forEach((value, index) => {
    context.lineTo(x(index), base - value * scale);
    context.lineTo(x(index + 1), base - value * scale);
  });
  context.stroke();
};
