// The server: what it is asked, with the token of this tab.

const STORED = "ratekeeper.token";
/** Without a message for so long, the connection is taken for lost. The server sends one a second. */
const SILENCE_MS = 6000;

// Kept for as long as the tab is open, and nowhere else.
let token = sessionStorage.getItem(STORED) ?? "";

export const hasToken = () => token !== "";

export const keepToken = (value) => {
  token = value;
  if (value) sessionStorage.setItem(STORED, value);
  else sessionStorage.removeItem(STORED);
};

/** What the server refused, or could not do. */
export class Problem extends Error {
  constructor(status, { code = "", title = "", detail = "" }, retryAfter) {
    super(detail || title || `the server answered ${status}`);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

/** Sends a request; `as` is a token that stands in for that of the tab. */
const send = async (path, { method = "GET", body, signal, as = token } = {}) => {
  const headers = {};
  if (as) headers.authorization = `Bearer ${as}`;
  if (body) headers["content-type"] = "application/json";
  const sent = fetch(path, { method, headers, signal, body: body && JSON.stringify(body), cache: "no-store" });
  const response = await sent.catch((failure) => {
    throw failure.name === "AbortError" ? failure : new Error("The server cannot be reached.");
  });
  if (response.ok) return response;
  const told = await response.json().catch(() => ({}));
  throw new Problem(response.status, told, Number(response.headers.get("retry-after")) || 0);
};

/** Asks for JSON. */
export const ask = async (path, options) => (await send(path, options)).json();

/**
 * Reads the stream of messages until it ends or `signal` aborts it. `EventSource` cannot send a token, so it is read by
 * hand.
 */
export const watch = async (onStats, signal) => {
  const ending = new AbortController();
  signal.addEventListener("abort", () => ending.abort(), { once: true });
  let timer;
  const wait = () => {
    clearTimeout(timer);
    timer = setTimeout(() => ending.abort(), SILENCE_MS);
  };
  try {
    wait();
    const response = await send("v1/stats/stream", { signal: ending.signal });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let unread = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      wait();
      const messages = (unread + value).split("\n\n");
      unread = messages.pop();
      for (const message of messages) {
        const data = message.split("\n").find((line) => line.startsWith("data: "));
        if (data) onStats(JSON.parse(data.slice(6)));
      }
    }
  } finally {
    clearTimeout(timer);
  }
};

/**
 * What stands for something else in a key as it is shown: `\xff` for a byte that is no text, `\u{202e}` for a character that
 * would not be seen, `\\` for one backslash. A key is typed in the same way.
 */
const ESCAPES = /(\\\\|\\x[0-9a-f]{2}|\\u\{[0-9a-f]{1,5}\})/i;

const unescaped = (escape) =>
  escape === "\\\\" ? "\\" : String.fromCodePoint(Number.parseInt(escape.slice(3, -1), 16));

const isByte = (part) => /^\\x[0-9a-f]{2}$/i.test(part);

/** The path of a key, with a query behind it. */
export const keyPath = (key, query = "") => {
  // Every second part is an escape.
  const parts = key.split(ESCAPES).map((part, index) => {
    if (index % 2 && isByte(part)) return `%${part.slice(2)}`;
    return encodeURIComponent((index % 2 ? unescaped(part) : part).toWellFormed());
  });
  const encoded = parts.join("");
  // A browser takes these for steps in a path, however they are encoded.
  const isStep = encoded === "." || encoded === "..";
  const fields = [isStep ? `key=${encoded}` : "", String(query)].filter(Boolean).join("&");
  return `v1/keys/${isStep ? "" : encoded}${fields && `?${fields}`}`;
};

/** The key as text, for a request in JSON; `null` if it has bytes that are none. */
export const keyText = (key) => {
  const parts = key.split(ESCAPES);
  if (parts.some((part, index) => index % 2 && isByte(part))) return null;
  return parts.map((part, index) => (index % 2 ? unescaped(part) : part)).join("");
};
