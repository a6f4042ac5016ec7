// Plans, keys that are denied most, transports.

import { byId, make, makeButton, setCut, setText } from "./dom.js";
import { drawSmall } from "./ink.js";
import { ask } from "./server.js";
import { LiveTable } from "./table.js";
import { count, percent, short, visible } from "./text.js";

/** So many rows are shown until somebody asks for more. */
const FEW = 10;
/** With more plans than that, they can be filtered. */
const FILTERED = 8;
/** How many seconds a small chart has. */
const RECENT = 60;
/** How high it is, and how wide: as in the style sheet. */
const HIGH = 24;
const narrow = matchMedia("(max-width: 620px)");

const asked = ({ allowed, denied }) => allowed + denied;

/** Draws a small chart in a cell. */
const spark = (cell, lists) => {
  if (!cell.firstChild) cell.append(make("canvas.spark", { "aria-hidden": "true" }));
  drawSmall(cell.firstChild, narrow.matches ? 84 : 120, HIGH, { slots: RECENT, ...lists });
};

/** Writes a name that can be pressed. */
const nameButton = (cell, text, onClick) => {
  if (!cell.firstChild) cell.append(make("button.name.cut", { type: "button" }));
  cell.firstChild.onclick = onClick;
  setCut(cell.firstChild, text);
  return cell.firstChild;
};

const page = {};
let chosenPlan = null;
let filter = "";
let isWhole = false;
let latest = null;

/** Takes what is to be done when a plan (`onPlan`) or a key (`onKey`) is chosen. */
export const setUpPlans = (given) => Object.assign(page, given);

// The last minute of each plan: from the history at first, then a second at a time. The name of the others is empty.
const recent = new Map();

const remember = (name, time, counts) => {
  if (!recent.has(name)) recent.set(name, { time: 0, allowed: [], denied: [] });
  const kept = recent.get(name);
  if (kept.time === time) return;
  kept.time = time;
  for (const part of ["allowed", "denied"]) {
    kept[part].push(counts[part]);
    if (kept[part].length > RECENT) kept[part].shift();
  }
};

/** Takes the last second of each plan. */
export const takeSecond = ({ time, plans: rows, other_plans: others }) => {
  for (const { plan, second } of rows) remember(plan, time, second);
  if (others) remember("", time, others.second);
};

/** Takes what the server remembers of the last minute. */
export const takeHistory = ({ end, plans: rows, other_plans: others }) => {
  const keep = (name, { allowed, denied }) => recent.set(name, { time: end, allowed, denied });
  rows?.forEach((plan) => keep(plan.plan, plan));
  if (others) keep("", others);
};

const sortedBy = "in the last second; sorted by the last minute";
const plans = new LiveTable(byId("plans"), {
  caption: "Plans",
  isSortable: true,
  id: (plan) => plan.plan,
  columns: [
    {
      title: "plan",
      kind: "first",
      sort: (plan) => plan.plan ?? "",
      fill: (cell, { plan, plans: others }) => {
        if (plan === undefined) return `${count(others)} other plans`;
        const isChosen = chosenPlan === plan;
        const button = nameButton(cell, plan, () => choosePlan(isChosen ? null : plan));
        button.setAttribute("aria-pressed", String(isChosen));
      },
    },
    {
      title: "rules",
      kind: "number wide",
      sort: (plan) => plan.rules ?? 0,
      fill: (_, { rules }) => (rules === undefined ? "" : rules === null ? "gone" : count(rules)),
    },
    {
      title: "requests/s",
      kind: "number",
      hint: sortedBy,
      sort: ({ minute }) => asked(minute),
      fill: (_, { second }) => short(asked(second)),
    },
    {
      title: "denied/s",
      kind: "number wide",
      hint: sortedBy,
      sort: ({ minute }) => minute.denied,
      fill: (_, { second }) => short(second.denied),
    },
    {
      title: "denied %",
      kind: "number",
      hint: "of the last minute",
      sort: ({ minute }) => minute.denied / (asked(minute) || 1),
      fill: (_, { minute }) => percent(minute.denied, asked(minute)),
    },
    {
      title: "last minute",
      kind: "chart",
      hint: "all requests, and below them those that were denied, enlarged",
      fill: (cell, { plan }) => spark(cell, recent.get(plan ?? "") ?? { allowed: [], denied: [] }),
    },
  ],
});

const top = new LiveTable(byId("top"), {
  caption: "Keys denied most",
  id: (row) => `${row.key}\n${row.plan}`,
  columns: [
    {
      title: "key",
      kind: "first",
      fill: (cell, { key }) => void nameButton(cell, visible(key), () => page.onKey(visible(key))),
    },
    { title: "plan", kind: "cut wide", fill: (cell, { plan }) => setCut(cell, plan ?? "a quota of requests") },
    { title: "denied/s", kind: "number", fill: (_, row) => short(row.second) },
    { title: "since start", kind: "number wide", fill: (_, row) => short(row.denied) },
    { title: "last minute", kind: "chart", fill: (cell, row) => spark(cell, { denied: row.recent }) },
  ],
});

const sinceStart = "since the start";
const transports = new LiveTable(byId("transports"), {
  caption: "Transports",
  id: (row) => row.transport,
  columns: [
    { title: "transport", kind: "first", fill: (_, row) => row.transport },
    { title: "requests/s", kind: "number", fill: (_, row) => short(asked(row.second)) },
    { title: "errors/s", kind: "number wide", fill: (_, row) => short(row.second.errors) },
    { title: "connections", kind: "number", fill: (_, row) => count(row.connections) },
    { title: "refused", kind: "number", hint: sinceStart, fill: (_, row) => short(row.refused_connections) },
    { title: "bad tokens", kind: "number wide", hint: sinceStart, fill: (_, row) => short(row.auth_failures) },
  ],
});

/** Shows a message. */
export const showTables = (stats) => {
  latest = stats;
  showPlans();
  showTop(stats);
  transports.show(stats.transports);
};

const showPlans = () => {
  const found = latest.plans.filter(({ plan }) => plan.toLowerCase().includes(filter));
  const rows = latest.other_plans && !filter ? [...found, latest.other_plans] : found;
  plans.most = isWhole ? Infinity : FEW;
  plans.show(rows);
  byId("plan-filter-label").hidden = latest.plans.length <= FILTERED;
  const more = byId("plans-more");
  more.hidden = rows.length <= FEW;
  more.setAttribute("aria-expanded", String(isWhole));
  setText(more, isWhole ? "show fewer" : `show ${count(rows.length - FEW)} more`);
  const empty = byId("plans-empty");
  empty.hidden = rows.length > 0;
  setText(empty, filter ? "No plan has this in its name." : "No plans. Requests bring their own quotas.");
  const names = byId("plan-names");
  if (names.children.length === latest.plans.length) return;
  names.replaceChildren(...latest.plans.map(({ plan }) => make("option", { value: plan })));
};

const showTop = ({ top_denied: keys, rights }) => {
  if (keys) top.show(keys);
  byId("top").hidden = !keys?.length;
  byId("top-empty").hidden = Boolean(keys?.length);
  byId("top-token").hidden = rights.admin;
  const without = rights.admin
    ? "Not counted. Start the server with --top-denied 100: it then keeps the names of the keys that are denied most."
    : "Names of keys are for the administrator, and counted when the server runs with --top-denied 100.";
  setText(byId("top-empty"), keys ? "No key has been denied." : without);
};

/** Shows one plan in the large chart, and its rules; `null` for all. */
export const choosePlan = (plan) => {
  chosenPlan = plan;
  if (latest) showPlans();
  showRules().catch(() => {});
  page.onPlan(plan);
};

/** Shows the rules of the plan that was chosen, with what each has decided. */
const showRules = async () => {
  const panel = byId("rules");
  const name = chosenPlan;
  panel.hidden = true;
  if (name === null) return;
  const plan = (await ask("v1/plans")).plans.find((one) => one.name === name);
  if (chosenPlan !== name || !plan) return;
  const line = (rule) => {
    const denied = rule.shadow ? rule.would_deny : rule.denied;
    return make(
      "tr",
      make("td.first.cut", rule.shadow ? `${rule.name} (shadow)` : rule.name),
      make("td.cut", { title: rule.quota }, rule.quota),
      make("td.number", rule.shadow ? `${short(denied)} would be` : short(denied)),
      make("td.number", percent(denied, asked(plan))),
    );
  };
  const titles = [["first", "rule"], ["cut", "quota"], ["number", "denied"], ["number", "of all"]];
  const heads = titles.map(([kind, title]) => make(`th.${kind}`, { scope: "col" }, title));
  const about = `since the start · if the store fails: ${plan.on_store_error}`;
  const close = makeButton("button.quiet", "all plans", () => choosePlan(null));
  panel.replaceChildren(
    make("div.head", make("h3", `Rules of ${name}`), make("p.dim", about), close),
    make("table", make("thead", make("tr", ...heads)), make("tbody", ...plan.rules.map(line))),
  );
  panel.hidden = false;
};

byId("plan-filter").addEventListener("input", (event) => {
  filter = event.target.value.trim().toLowerCase();
  plans.sortedAt = -Infinity;
  if (latest) showPlans();
});
byId("plans-more").addEventListener("click", () => {
  isWhole = !isWhole;
  showPlans();
});
