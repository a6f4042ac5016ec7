// Where a key stands, and what an administrator can do about it.

import { byId, make, makeButton, several } from "./dom.js";
import { ask, keyPath, keyText } from "./server.js";
import { clock, count, span, visible } from "./text.js";

/** With more plans than that, those that the key is new to are put together. */
const MANY = 4;

const view = byId("key-view");
const problem = byId("key-problem");
const page = {};
/** The key that is looked at, as it was typed, and what was asked of it. */
let looked = null;

/** Takes how to find out whether there are buttons (`isAdmin`), and how to ask for a token (`askForToken`). */
export const setUpKeys = (given) => Object.assign(page, given);

const wait = ({ retry_after_ms: millis, allowed }) => {
  if (millis < 0) return allowed ? "now" : "never";
  return millis === 0 ? "now" : `in ${span(millis)}`;
};

const bar = ({ level, limit }) => {
  const share = limit > 0 ? Math.min(1, level / limit) : 0;
  const inner = make("span");
  inner.style.width = `${100 * share}%`;
  const state = share >= 1 ? ".full" : share >= 0.8 ? ".near" : "";
  const meter = { role: "meter", "aria-label": "used", "aria-valuemin": 0, "aria-valuemax": limit, "aria-valuenow": level };
  return make(`span.bar${state}`, meter, inner);
};

const ruleLine = (rule) => {
  const name = make("td.rule", make("b", rule.rule ?? "quota"), " ", make("span.dim", rule.quota));
  if (rule.shadow) name.append(" ", make("span.tag", "shadow"));
  if (rule.unit !== "requests") name.append(" ", make("span.tag", rule.unit));
  const isUsual = ["within_quota", "quota_exceeded"].includes(rule.reason);
  const cell = (label, text) => make("td.number", { "data-label": label }, text);
  return make(
    "tr",
    name,
    make("td.level", bar(rule)),
    cell("used", `${count(rule.level)} of ${count(rule.limit)}`),
    cell("left", count(rule.remaining)),
    cell("one more", wait(rule) + (isUsual ? "" : ` (${rule.reason.replaceAll("_", " ")})`)),
    cell("fresh", rule.reset_after_ms ? `in ${span(rule.reset_after_ms)}` : "now"),
  );
};

const ruleTable = (caption, rules) => {
  const titles = ["rule", "level", "used", "left", "one more", "fresh"];
  const head = make("tr", ...titles.map((title, index) => make(index > 1 ? "th.number" : "th", { scope: "col" }, title)));
  const body = make("tbody", ...rules.map(ruleLine));
  return make("table.rules", make("caption.unseen", caption), make("thead", head), body);
};

const holdLine = ({ id, held_ms: held, lease_ends_ms: left, estimates }) => {
  const sizes = estimates.map(({ rule, unit, amount }) => `${count(amount)} ${unit} of ${rule}`).join(", ");
  const name = make("code", { title: id }, `${id.slice(0, 8)}…`);
  return make("li", name, ` held for ${span(held)}, lease ends in ${span(left)}: ${sizes}`);
};

const planBlock = (plan) => {
  const head = make("div.head", make("h3", plan.plan));
  if (page.isAdmin() && !plan.error) head.append(...actions(plan.plan));
  const block = make("div.plan", head);
  block.append(plan.error ? make("p.dim", plan.error) : ruleTable(`Rules of ${plan.plan}`, plan.rules));
  if (plan.holds?.length) block.append(make("ul.holds", ...plan.holds.map(holdLine)));
  return block;
};

const actions = (plan) => {
  const label = `How much to refund under ${plan}`;
  const amount = make("input", { type: "number", min: 1, step: 1, value: 1, "aria-label": label });
  const refund = () => {
    const [key, cost] = [keyText(looked.key), Number(amount.value)];
    if (key === null) return tell(new Error("Bytes that are no text cannot be named in JSON: refund this key over RESP."));
    if (!(cost >= 1)) return tell(new Error(`refund: ${amount.value || "nothing"}; at least 1`));
    return act("v1/refund", { method: "POST", body: { key, plan, cost } }, () => `Refunded ${count(cost)} under ${plan}.`);
  };
  const reset = () => {
    const path = keyPath(looked.key, `plan=${encodeURIComponent(plan)}`);
    return act(path, { method: "DELETE" }, () => `Reset under ${plan}.`);
  };
  return [
    make("span.fields", amount, makeButton("button", "refund", refund, `Gives this many requests back under ${plan}`)),
    makeButton("button", "reset", reset, `Forgets this key under ${plan}: its next request is its first`),
  ];
};

/** Does something as an administrator, looks again, and tells what came of it. */
const act = async (path, options, told) => {
  try {
    const answer = await ask(path, options);
    await look(told(answer));
  } catch (failure) {
    tell(failure);
  }
};

const tell = (failure) => {
  problem.textContent = failure.message;
  if (["admin_required", "unauthorized"].includes(failure.code)) page.askForToken("admin");
};

/** What can be done about the key under all plans. */
const wholeAction = () => {
  if (!page.isAdmin()) {
    return makeButton("button.quiet", "enter the admin token to reset or refund", () => page.askForToken("admin"));
  }
  const told = ({ forgotten }) => `Reset: ${several(forgotten, "state", "states")} forgotten.`;
  const reset = () => act(keyPath(looked.key), { method: "DELETE" }, told);
  const title = "Forgets this key under all plans, and its quotas of requests";
  const made = makeButton("button", "reset under all plans", reset, title);
  made.id = "reset";
  return made;
};

const render = (answer, done = "") => {
  const key = visible(answer.key);
  const isFresh = (plan) => !plan.error && !plan.holds?.length && plan.rules.every(({ level }) => level === 0);
  const used = answer.plans.length > MANY ? answer.plans.filter((plan) => !isFresh(plan)) : answer.plans;
  const fresh = answer.plans.filter((plan) => !used.includes(plan)).map(({ plan }) => plan);
  const blocks = used.map(planBlock);
  if (answer.quota) {
    blocks.push(make("div.plan", make("div.head", make("h3", "Quota of requests")), ruleTable("Quota", [answer.quota])));
  }
  if (fresh.length) {
    const title = `Fresh under ${used.length ? "" : "all "}${several(fresh.length, "plan", "plans")}`;
    blocks.push(make("details", make("summary", title), make("p.dim", fresh.join(", "))));
  }
  if (answer.plans_left_out) {
    blocks.push(make("p.dim", `${count(answer.plans_left_out)} more plans were not looked at. Name one to see it.`));
  }
  if (!blocks.length) blocks.push(make("p.dim", "The server has no plans. Give the quota that requests bring for this key."));
  view.replaceChildren(
    make("p.looked", make("b.cut.key", { title: key }, key), make("span.dim", `as of ${clock(Date.now())}`), wholeAction()),
    make("p.done", { role: "status" }, done),
    ...blocks,
  );
};

/** Looks at the key that was asked for last. */
const look = async (done) => {
  const asked = looked;
  const query = new URLSearchParams();
  if (asked.plan) query.set("plan", asked.plan);
  if (asked.quota) query.set("quota", asked.quota);
  const answer = await ask(keyPath(asked.key, query));
  if (asked !== looked) return;
  problem.textContent = "";
  render(answer, done);
};

const submit = async () => {
  const field = (id) => byId(id).value.trim();
  looked = { key: byId("key").value, plan: field("key-plan"), quota: field("key-quota") };
  try {
    await look();
  } catch (failure) {
    view.replaceChildren();
    tell(failure);
  }
};

/** Looks at a key that was clicked. */
export const lookAt = (key) => {
  byId("key").value = key;
  byId("key-plan").value = "";
  byId("key-quota").value = "";
  byId("key-title").scrollIntoView();
  return submit();
};

/** Shows or hides the buttons, when the right to press them has come or gone. */
export const rightsChanged = () => {
  if (looked && view.firstChild) look().catch(tell);
};

byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
