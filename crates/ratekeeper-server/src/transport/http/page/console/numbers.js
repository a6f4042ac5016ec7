// The line of numbers, and the line about the server.

import { byId, make, setCut, setText } from "./dom.js";
import { NOTHING, bytes, count, micros, percent, short, span, visible } from "./text.js";

/** A figure: what it is, what it is at present, what there is to say about it. `isPart` if it is a part of a whole. */
const figure = (id, name, isPart = false) => {
  const [value, note, inner] = [make("dd.value", NOTHING), make("dd.note"), make("span")];
  const made = make("div", { id: `now-${id}` }, make("dt", name), value, note);
  const bar = make("dd.bar", inner);
  if (isPart) made.append(bar);
  byId("now").append(made);
  return (shown, said, share = 0) => {
    setText(value, shown);
    setText(note, said);
    inner.style.width = `${Math.min(100, 100 * share)}%`;
    bar.className = share >= 0.98 ? "bar full" : share >= 0.9 ? "bar near" : "bar";
    return made;
  };
};

const decided = figure("decided", "decided/s");
const allowed = figure("allowed", "allowed/s");
const denied = figure("denied", "denied/s");
const errors = figure("errors", "errors/s");
const time = figure("time", "p99");
const keys = figure("keys", "keys", true);
const memory = figure("bytes", "bytes", true);

/** Shows the figures of the last second, each with the last minute beside it. */
export const showNumbers = ({ second, minute, store }) => {
  const all = minute.allowed + minute.denied;
  const ofMinute = (part) => `last minute ${percent(part, all)}`;
  decided(count(second.allowed + second.denied), `last minute ${short(all / 60)}/s`);
  const shadow = minute.would_deny && `would deny ${percent(minute.would_deny, all)}`;
  allowed(short(second.allowed), shadow || ofMinute(minute.allowed));
  denied(short(second.denied), ofMinute(minute.denied));
  const failed = second.failed_open + second.failed_closed;
  const note = failed ? `${short(failed)}/s by failure mode` : `last minute ${short(minute.errors)}`;
  errors(short(second.errors), note).classList.toggle("bad", second.errors + failed > 0);
  time(micros(second.p99_us ?? minute.p99_us), `p50 ${micros(second.p50_us ?? minute.p50_us)}`);
  byId("now-keys").hidden = store.keys === null;
  byId("now-bytes").hidden = store.keys === null;
  if (store.keys === null) return;
  const held = store.holds ? `, ${short(store.holds)} held` : "";
  const refused = store.refused_keys ? `, ${short(store.refused_keys)} refused` : "";
  keys(short(store.keys), `of ${short(store.max_keys)}${held}${refused}`, store.keys / store.max_keys);
  memory(bytes(store.bytes), `of ${bytes(store.max_bytes)}`, store.bytes / store.max_bytes);
};

/** Shows who the server is. */
export const showAbout = ({ server, store }) => {
  setCut(byId("name"), visible(server.name));
  setText(byId("uptime"), `up ${span(server.uptime_s * 1000)}`);
  const latency = store.latency_ms === null ? "" : ` ${micros(store.latency_ms * 1000)}`;
  setText(byId("store"), `store ${store.kind} ${store.status}${latency}`);
  byId("store").dataset.status = store.status;
  setText(byId("version"), server.version);
};
