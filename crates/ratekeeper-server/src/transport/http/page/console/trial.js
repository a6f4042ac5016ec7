// What a limit would have denied.

import { byId, make, several } from "./dom.js";
import { drawSmall, ink } from "./ink.js";
import { ask } from "./server.js";
import { clock, count, percent, span } from "./text.js";

/** As in the style sheet. */
const HIGH = 120;
const out = byId("tried");
let redraw = () => {};

/** Returns what was denied of all requests since `from`, in percent: those that were not recorded are counted as well. */
const deniedOfAll = async ({ plan, from }) => {
  const query = new URLSearchParams(plan ? { plans: plan } : {});
  const history = await ask(`v1/history?${query}`);
  const { allowed, denied } = plan ? history.plans[0] : history;
  const oldest = Math.max(0, history.points - Math.ceil((history.end - from) / 1000));
  const sum = (list) => list.slice(oldest).reduce((total, value) => total + value, 0);
  return percent(sum(denied), sum(allowed) + sum(denied));
};

/** What the figures are of, and how exact they are. */
const caveats = ({ sampled, from, until, step_s: step }, did, ofAll) => {
  const { keys_one_in: oneIn, resolution_ms: millis } = sampled;
  const keys =
    oneIn === 1
      ? "Every key was recorded."
      : `One key in ${count(oneIn)} was recorded, with all its requests: the counts are of those keys, the percentages ` +
        `are estimates of the whole. Of all requests ${ofAll} was denied, of those recorded ${did}: where that is far ` +
        "apart, keys that ask most are not in the sample, and the estimate is of the others.";
  return (
    `${keys} From ${clock(from)} to ${clock(until)}, exact to ${span(millis)}, in columns of ${span(1000 * step)}. ` +
    "Each key starts with its whole burst, so the beginning denies less than it would have."
  );
};

const render = (tried, ofAll) => {
  const under = tried.plan ? ` under ${tried.plan}` : "";
  if (!tried.requests) {
    out.replaceChildren(make("p.dim", `Nothing was asked${under} lately: there is nothing to try it on.`));
    return;
  }
  const [would, did] = [tried.denied, tried.was_denied].map((part) => percent(part, tried.requests));
  const chart = make("canvas.trial", { role: "img", "aria-label": `${would} would have been denied, ${did} was` });
  const swatches = [make("i"), make("i"), make("i.mark")];
  const allowed = tried.asked.map((asked, index) => Math.max(0, asked - tried.would_deny[index]));
  redraw = () => {
    if (!chart.isConnected) return;
    const lists = { slots: allowed.length, allowed, denied: tried.would_deny, mark: tried.was_deny };
    drawSmall(chart, chart.clientWidth, HIGH, lists);
    const { parts, text } = ink();
    [parts[0], parts[3], text].forEach((colour, index) => {
      swatches[index].style.background = colour;
    });
  };
  const names = ["would pass", "would have been denied", "was denied"];
  const told =
    `${count(tried.denied)} of ${several(tried.requests, "request", "requests")}, ` +
    `of ${count(tried.keys_denied)} of ${several(tried.keys, "key", "keys")}; ${count(tried.was_denied)} ` +
    `${tried.was_denied === 1 ? "was" : "were"}.`;
  const limit = make("code", tried.limit);
  out.replaceChildren(
    make("p.verdict", make("b", would), " would have been denied by ", limit, `${under}; `, make("b", did), " was denied."),
    make("p", told),
    chart,
    make("p.legend", ...names.map((name, index) => make("span", swatches[index], name))),
    make("p.dim", caveats(tried, did, ofAll)),
  );
  redraw();
};

byId("try-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const [limit, plan] = [byId("limit").value.trim(), byId("try-plan").value.trim()];
  const problem = byId("try-problem");
  out.setAttribute("aria-busy", "true");
  try {
    const tried = await ask("v1/try", { method: "POST", body: plan ? { limit, plan } : { limit } });
    // A plan that is one of the many others has no history of its own.
    render(tried, await deniedOfAll(tried).catch(() => "an unknown part"));
    problem.textContent = "";
  } catch (failure) {
    out.replaceChildren();
    problem.textContent = failure.message;
  } finally {
    out.removeAttribute("aria-busy");
  }
});
document.addEventListener("themechange", () => redraw());
new ResizeObserver(() => redraw()).observe(out);
