// The console: connects to the server, and shows what it says once a second.

import { drawChart, setSeries } from "./console/chart.js";
import { byId, setText } from "./console/dom.js";
import { showEvents } from "./console/events.js";
import { lookAt, rightsChanged, setUpKeys } from "./console/key.js";
import { showNotices } from "./console/notices.js";
import { showAbout, showNumbers } from "./console/numbers.js";
import { choosePlan, setUpPlans, showTables, takeHistory, takeSecond } from "./console/plans.js";
import { Series } from "./console/series.js";
import { Problem, ask, hasToken, watch } from "./console/server.js";
import { clock, visible } from "./console/text.js";
import { askForToken, hideToken } from "./console/token.js";
import "./console/trial.js";

/** Between two attempts to connect. */
const RETRY_MS = 2000;
/** A tab that nobody looks at gives its stream back after so long. */
const HIDDEN_MS = 30000;

const newSeries = () => ({ "1s": new Series(1, 900), "1m": new Series(60, 1440) });
/** All answers, and those of the plan that was chosen. */
const all = newSeries();
let ofPlan = null;
let plan = null;
let resolution = "1s";
/** The last message, and when it came in by the clock of this machine: the server's may stand elsewhere. */
let stats = null;
let heardAt = 0;
/** Why there are no messages; empty while there are. */
let lost = "";
let connection = null;

/** The state of the connection, in a word beside the name. */
const setState = (state, word) => {
  byId("live").dataset.state = state;
  setText(byId("live"), word);
  document.title = `${state === "live" ? "" : `(${word}) `}${stats ? `${visible(stats.server.name)} · ` : ""}ratekeeper`;
};

// Drawing: once for each message, or once a second while there is none, and never for nobody.
let isDrawing = false;
const draw = () => {
  if (isDrawing || document.hidden) return;
  isDrawing = true;
  requestAnimationFrame(() => {
    isDrawing = false;
    showNotices(stats, lost);
    if (stats) show();
  });
};

const show = () => {
  byId("content").hidden = false;
  byId("content").classList.toggle("stale", lost !== "");
  showAbout(stats);
  showNumbers(stats);
  showTables(stats);
  // While nothing is heard, time goes on: the gap grows as it is looked at.
  const now = stats.time + (lost ? performance.now() - heardAt : 0);
  setSeries((ofPlan ?? all)[resolution], ofPlan !== null);
  drawChart(Math.max(all[resolution].newest, all[resolution].slotOf(now)));
};

const onStats = (message) => {
  const wasAdmin = stats?.rights.admin ?? message.rights.admin;
  stats = message;
  heardAt = performance.now();
  lost = "";
  all["1s"].push(message.time, message.second);
  const row = message.plans.find((one) => one.plan === plan);
  if (row) ofPlan?.["1s"].push(message.time, row.second);
  takeSecond(message);
  setState("live", message.server.draining ? "draining" : "live");
  showEvents(message).catch(() => {});
  if (wasAdmin !== message.rights.admin) rightsChanged();
  draw();
};

/** Asks for what the server remembers: of everything, or of one plan. */
const loadHistory = async (into, step, last, name = null) => {
  const query = new URLSearchParams({ resolution: step, last, ...(name && { plans: name }) });
  const history = await ask(`v1/history?${query}`);
  const lists = name ? history.plans.find((one) => one.plan === name) : history;
  into[step].anchorAt(step === "1s" && stats ? stats.time : history.end);
  if (lists) into[step].merge(history, lists);
};

const loadAll = async () => {
  const recent = ask("v1/history?last=60&plans=all").then(takeHistory);
  await Promise.all([loadHistory(all, "1s", 900), loadHistory(all, "1m", 1440), recent, plan && loadPlan()]);
  draw();
};

const loadPlan = () => Promise.all([loadHistory(ofPlan, "1s", 900, plan), loadHistory(ofPlan, "1m", 1440, plan)]);

const loadMinutes = () => Promise.all([loadHistory(all, "1m", 3), plan && loadHistory(ofPlan, "1m", 3, plan)]);

/** Watches until the stream ends. */
const connect = async () => {
  connection = new AbortController();
  let minutes = null;
  const onMessage = (message) => {
    if (minutes === null) {
      hideToken("admin");
      minutes = setInterval(() => loadMinutes().catch(() => {}), 60000);
      for (const series of [all, ofPlan]) series?.["1s"].anchorAt(message.time);
      onStats(message);
      loadAll().catch(() => {});
    } else onStats(message);
  };
  try {
    await watch(onMessage, connection.signal);
  } finally {
    clearInterval(minutes);
  }
};

const lose = (why, pause) => {
  const since = stats ? ` What is shown is of ${clock(stats.time)}.` : "";
  lost = `${why} Trying again every ${pause / 1000} s.${since}`;
  setState("lost", "not connected");
  draw();
};

/** Says what became of a connection; returns how long to wait for the next. */
const afterwards = async (failure) => {
  if (connection.signal.aborted) return 0;
  if (failure instanceof Problem && failure.status === 401) {
    lost = "";
    setState("locked", "token wanted");
    draw();
    await askForToken(hasToken() ? "again" : "look");
    return 0;
  }
  let [why, pause] = [stats ? "The connection is lost." : "The server cannot be reached.", RETRY_MS];
  if (failure instanceof Problem) {
    why = `The server refuses: ${failure.message}.`;
    pause = 1000 * failure.retryAfter || RETRY_MS;
  }
  if (failure?.code === "too_many_streams") why = "As many consoles are open as this server serves. Close another one.";
  lose(why, pause);
  return pause;
};

const connectForEver = async () => {
  for (;;) {
    const failure = await connect().catch((thrown) => thrown);
    const pause = await afterwards(failure);
    if (connection.signal.aborted) await untilSeen();
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
};

/** Waits until the tab is looked at. */
const untilSeen = async () => {
  while (document.hidden) {
    await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
  }
};

let hiding = null;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (document.hidden) hiding = setTimeout(() => connection?.abort(), HIDDEN_MS);
  else draw();
});
setInterval(() => lost && draw(), 1000);

/** As an administrator, one sees more: the stream begins anew with the token. */
const becomeAdmin = async () => {
  await askForToken("admin");
  connection?.abort();
};

const showPlan = async (name) => {
  plan = name;
  setText(byId("chart-scope"), name === null ? "" : `only plan ${name}`);
  ofPlan = name === null ? null : newSeries();
  if (stats) ofPlan?.["1s"].anchorAt(stats.time);
  draw();
  if (name !== null) await loadPlan().catch(() => choosePlan(null));
  draw();
};

const setResolution = (step) => {
  resolution = step;
  byId("by-second").setAttribute("aria-pressed", String(step === "1s"));
  byId("by-minute").setAttribute("aria-pressed", String(step === "1m"));
  setText(byId("chart-title"), step === "1s" ? "Last 15 minutes" : "Last 24 hours");
  draw();
};

byId("by-second").addEventListener("click", () => setResolution("1s"));
byId("by-minute").addEventListener("click", () => setResolution("1m"));
byId("top-token").addEventListener("click", becomeAdmin);
setUpPlans({ onPlan: showPlan, onKey: lookAt });
setUpKeys({ isAdmin: () => Boolean(stats?.rights.admin), askForToken: becomeAdmin });
connectForEver();
