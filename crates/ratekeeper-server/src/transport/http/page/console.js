"use strict";

// Keys and names are only ever set as text: nothing of them is markup.
const byId = (id) => document.getElementById(id);
const element = (name, text) => {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  return made;
};
const row = (cells) => {
  const made = element("tr");
  made.replaceChildren(...cells.map((cell) => element("td", cell)));
  return made;
};
const number = (value) => value.toLocaleString("en");

// Kept for as long as the tab is open, and nowhere else.
let token = sessionStorage.getItem("token") || "";
let isAdmin = false;
let lastEvent = 0;
let ended = null;

const fetchFrom = (path, options = {}) => {
  const headers = new Headers(options.headers);
  if (token) headers.set("authorization", `Bearer ${token}`);
  if (options.body) headers.set("content-type", "application/json");
  return fetch(path, { ...options, headers, cache: "no-store" });
};

const ask = async (path, options) => {
  const response = await fetchFrom(path, options);
  const body = await response.json();
  if (response.ok) {
    byId("problem").textContent = "";
    return body;
  }
  byId("token-form").hidden = response.status !== 401 && body.code !== "admin_required";
  throw new Error(`${body.title}: ${body.detail}`);
};

const tell = (problem) => {
  byId("problem").textContent = problem.message;
};

const show = (stats) => {
  isAdmin = stats.rights.admin;
  const { server, store, second } = stats;
  const latency = store.latency_ms === null ? "" : ` ${store.latency_ms} ms`;
  byId("server").textContent =
    `${server.name} · up ${server.uptime_s} s · store ${store.kind} ${store.status}${latency} · ${server.version}`;
  const facts = [
    ["decided/s", number(second.allowed + second.denied)],
    ["allowed/s", number(second.allowed)],
    ["denied/s", number(second.denied)],
    ["errors/s", number(second.errors)],
    ["p99", second.p99_us === null ? "–" : `${second.p99_us} µs`],
  ];
  if (store.keys !== null) facts.push(["keys", `${number(store.keys)} of ${number(store.max_keys)}`]);
  byId("now").replaceChildren(
    ...facts.map(([name, value]) => {
      const fact = element("div");
      fact.append(element("dt", name), element("dd", value));
      return fact;
    }),
  );
  const planRow = (name, counts) =>
    row([
      name,
      number(counts.second.allowed + counts.second.denied),
      number(counts.second.denied),
      number(counts.minute.denied),
    ]);
  const rows = stats.plans.map((plan) => planRow(plan.plan, plan));
  if (stats.other_plans) rows.push(planRow(`${stats.other_plans.plans} others`, stats.other_plans));
  byId("plans").replaceChildren(...rows);
  if (stats.last_event !== lastEvent) showEvents(stats.last_event).catch(tell);
};

const showEvents = async (last) => {
  lastEvent = last;
  const { events } = await ask("v1/events");
  const line = (event) => element("li", `${new Date(event.time).toLocaleTimeString()} ${event.kind}: ${event.text}`);
  byId("events").replaceChildren(...events.reverse().slice(0, 20).map(line));
};

// EventSource cannot send a token, so the stream is read by hand.
const watch = async () => {
  const controller = new AbortController();
  ended = () => controller.abort();
  const response = await fetchFrom("v1/stats/stream", { signal: controller.signal });
  if (!response.ok) {
    const problem = await response.json();
    byId("token-form").hidden = response.status !== 401;
    throw new Error(`${problem.title}: ${problem.detail}`);
  }
  byId("problem").textContent = "";
  byId("token-form").hidden = true;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let unread = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    unread += value;
    const messages = unread.split("\n\n");
    unread = messages.pop();
    for (const message of messages) {
      const data = message.split("\n").find((line) => line.startsWith("data: "));
      if (data) show(JSON.parse(data.slice(6)));
    }
  }
};

const watchForEver = async () => {
  for (;;) {
    try {
      await watch();
      byId("server").textContent = "the server has ended the stream; connecting again";
    } catch (problem) {
      if (problem.name !== "AbortError") tell(problem);
    }
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
};

const look = async () => {
  const view = await ask(`v1/keys/${encodeURIComponent(byId("key").value)}`);
  const rows = view.plans.flatMap((plan) =>
    plan.rules.map((rule) =>
      row([
        plan.plan,
        rule.rule,
        number(rule.level),
        number(rule.limit),
        rule.retry_after_ms < 0 ? "never" : `${rule.retry_after_ms} ms`,
      ]),
    ),
  );
  byId("rules").replaceChildren(...rows);
  byId("reset").hidden = !isAdmin;
};

byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  look().catch(tell);
});
byId("reset").addEventListener("click", () => {
  const path = `v1/keys/${encodeURIComponent(byId("key").value)}`;
  ask(path, { method: "DELETE" }).then(look).catch(tell);
});
byId("try-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const body = JSON.stringify({ limit: byId("limit").value });
  const told = (tried) => {
    const sample = tried.sampled.keys_one_in > 1 ? `, of one key in ${tried.sampled.keys_one_in}` : "";
    byId("tried").textContent =
      `would have denied ${number(tried.denied)} of ${number(tried.requests)} requests${sample}; ` +
      `${number(tried.was_denied)} were denied`;
  };
  ask("v1/try", { method: "POST", body }).then(told).catch(tell);
});
byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value;
  sessionStorage.setItem("token", token);
  if (ended) ended();
});
watchForEver();
