// What has to be said: sentences above everything else.

import { byId, make } from "./dom.js";
import { hasToken } from "./server.js";

const SIGNS = { warn: "▲ warning ", error: "■ error " };
const words = (name) => name.replaceAll("_", " ");

const storeNotice = ({ status, reason, breakers }) => {
  if (status === "failing") {
    const why = reason ? ` (${words(reason)})` : "";
    return ["error", `The store fails${why}. Plans answer by their failure mode: open lets through, closed denies.`];
  }
  const open = breakers.filter(({ state }) => state !== "closed").map(({ node, state }) => `${node} ${words(state)}`);
  if (open.length) return ["warn", `A part of the store is not asked: ${open.join(", ")}.`];
  return ["warn", "The store failed in the last second."];
};

const noticesOf = ({ server, store, total }) => {
  const notices = [];
  if (server.draining) notices.push(["warn", "Draining: the server finishes what it has begun, and stops."]);
  if (store.status !== "ok") notices.push(storeNotice(store));
  if (server.config === "reload_failed") {
    notices.push(["warn", "The configuration file could not be read again: the one before is in force. The events say why."]);
  }
  if (store.refusing_new_keys?.length) {
    const remedy = "New keys are answered by the failure mode, known ones as before. Raise --max-keys.";
    notices.push(["warn", `The store is full. ${remedy}`]);
  }
  if (total.allowed + total.denied + total.errors === 0) notices.push(["quiet", "No traffic yet. Ask for something:"]);
  return notices;
};

const notice = ([level, text]) => {
  const made = make(`p.notice.${level}`, make("b", SIGNS[level] ?? ""), text);
  if (level === "quiet") {
    const token = hasToken() ? ' -H "authorization: Bearer $TOKEN"' : "";
    const body = `'{"key": "user:42", "quota": "10/s burst 20"}'`;
    const type = '-H "content-type: application/json"';
    made.append(make("code.command", `curl ${location.origin}/v1/acquire ${type}${token} -d ${body}`));
  }
  return made;
};

/** Shows what there is to say of a message, or only `lost`: why there is none. */
export const showNotices = (stats, lost) => {
  const notices = lost ? [["warn", lost]] : stats ? noticesOf(stats) : [];
  const place = byId("notices");
  const said = JSON.stringify(notices);
  // Set once: a status that is set again each second would be read out each second.
  if (place.dataset.said === said) return;
  place.dataset.said = said;
  place.replaceChildren(...notices.map(notice));
};
