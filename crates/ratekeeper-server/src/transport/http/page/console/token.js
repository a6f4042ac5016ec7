// The form that asks for a token.

import { byId, setText } from "./dom.js";
import { ask, keepToken } from "./server.js";

const WHY = {
  look: "This server wants a token.",
  again: "The server does not take the token of this tab any more.",
  admin: "The admin token of the server:",
};

const form = byId("token-form");
const problem = byId("token-problem");
let why = "";
/** Those who wait for a token. */
const waiting = [];

/** Hides the form; not if it is open for the reason that is given. */
export const hideToken = (unless) => {
  if (unless === why) return;
  form.hidden = true;
  why = "";
  byId("token").value = "";
  problem.textContent = "";
};

/** Asks for a token: to `look`, to look `again`, or for the `admin`. Resolves when there is one that the server takes. */
export const askForToken = (reason) => {
  // Who may not even look needs any token first.
  if (why !== "look" && why !== "again") why = reason;
  setText(byId("token-why"), WHY[why]);
  byId("token-cancel").hidden = why !== "admin";
  form.hidden = false;
  form.scrollIntoView({ block: "nearest" });
  byId("token").focus();
  return new Promise((resolve) => waiting.push(resolve));
};

/** Tries a token before it is kept: one that the server does not know must not end the stream. */
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const token = byId("token").value.trim();
  try {
    const { rights } = await ask("v1/stats", { as: token });
    if (why === "admin" && !rights.admin) throw new Error("This is not the admin token. You can still look.");
    keepToken(token);
    hideToken();
    for (const resolve of waiting.splice(0)) resolve();
  } catch (failure) {
    problem.textContent = failure.status === 401 ? "Wrong token: the server does not know it." : failure.message;
  }
});
byId("token-cancel").addEventListener("click", () => hideToken());
