// What happened: reloads, breakers, snapshots, refused keys.

import { byId, make } from "./dom.js";
import { ask } from "./server.js";
import { count, moment, visible } from "./text.js";

/** Not by colour alone. */
const SIGNS = { info: "·", warn: "▲", error: "■" };

let have = { last: 0, started: 0 };
let isAsking = false;

const line = ({ time, kind, level, text, times }) => {
  // Most texts begin with what they are about.
  const word = `${level === "info" ? "" : `${level}: `}${text.includes(kind) ? "" : `${kind}: `}`;
  return make(
    `li.${level}`,
    make("span.sign", { "aria-hidden": "true" }, SIGNS[level] ?? "·"),
    make("time", { datetime: new Date(time).toISOString() }, moment(time)),
    make("span", make("b", word), visible(text), times > 1 ? make("span.dim", ` (${count(times)} times)`) : ""),
  );
};

/** Asks for events, if there are new ones. A server that was started again counts from 1. */
export const showEvents = async ({ last_event: last, server }) => {
  if (isAsking || (last === have.last && server.started === have.started)) return;
  isAsking = true;
  try {
    const { events } = await ask("v1/events");
    have = { last, started: server.started };
    byId("events").replaceChildren(...events.reverse().map(line));
  } finally {
    isAsking = false;
  }
};
