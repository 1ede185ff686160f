// Requests to this server, and what went wrong in words. Nothing here is stored, and no token is in a URL.
import { h } from "./dom.js";

/**
 * @typedef {object} Result
 * @property {boolean} ok
 * @property {number} status 0 if there was no response
 * @property {Headers} fields
 * @property {string} text
 * @property {any} json undefined if the content is no JSON
 * @property {number} ms
 */

let credential = "";
let takesCredentials = false;

/** The page has a field for a credential. */
export function offerCredential() { takesCredentials = true; }

/** Sends this API key or JSON Web Token from now on; none if it is empty. @param {string} text */
export function useCredential(text) { credential = text.trim(); }

/** Whether there is a credential to send. */
export const hasCredential = () => credential !== "";

/**
 * Sends a request to this server.
 * @param {string} path
 * @param {{ method?: string, json?: any, fields?: Record<string, string>, isOwn?: boolean }} [options] `isOwn`: a
 *   request of the page itself, which needs no credential
 * @returns {Promise<Result>}
 */
export async function send(path, { method, json, fields = {}, isOwn = false } = {}) {
  // Without this field, "no-store" makes fetch() ask for no-cache, and no response comes from the server's cache.
  const headers = { "Cache-Control": "no-transform", ...fields };
  if (json !== undefined) headers["Content-Type"] = "application/json";
  if (credential && !isOwn) headers.Authorization = `Bearer ${credential}`;
  const start = performance.now();
  try {
    // Links in responses come from outside. None may take the credential to another server.
    if (new URL(path, location.origin).origin !== location.origin) throw new TypeError("Another server");
    const response = await fetch(path, {
      method: method ?? (json === undefined ? "GET" : "POST"), headers, credentials: "omit", cache: "no-store",
      body: json === undefined ? undefined : JSON.stringify(json), signal: AbortSignal.timeout(60000),
    });
    const text = await response.text();
    const ms = performance.now() - start;
    return { ok: response.ok, status: response.status, fields: response.headers, text, json: parsed(text), ms };
  } catch {
    return { ok: false, status: 0, fields: new Headers(), text: "", json: undefined, ms: performance.now() - start };
  }
}

/**
 * Requests a token. A browser sends no `Origin` with a `GET` to the page's own server, so the caller is then known by
 * its credential, as a program is. A page that is known by its origin needs `POST`.
 * @param {{ ttl?: number, origin?: string }} wish
 * @returns {Promise<Result>}
 */
export async function requestToken(wish) {
  const query = String(new URLSearchParams(Object.entries(wish).map(([name, value]) => [name, String(value)])));
  const result = await send(query ? `/token?${query}` : "/token");
  if (result.status !== 401 || credential) return result;
  const asPage = await send("/token", { json: wish });
  return asPage.ok ? asPage : result;
}

function parsed(text) {
  try { return JSON.parse(text); } catch { return undefined; }
}

/** What went wrong, for people. @param {Result} result */
export function problem(result) {
  if (result.status === 0) {
    return notice("The server does not respond", "It has stopped, or the network to it is interrupted.");
  }
  const error = result.json?.errors?.[0] ?? {};
  const wait = result.fields.get("Retry-After");
  const facts = [
    result.status, error.code, wait ? `try again in ${wait} s` : "",
    result.fields.get("Proxy-Status") ? "Proxy-Status: " + result.fields.get("Proxy-Status") : "",
    "request " + (result.fields.get("X-Request-ID") ?? "unknown"),
  ];
  const isUnknown = !credential && takesCredentials
    && ["missing_credentials", "origin_not_allowed"].includes(error.code);
  const title = titles[error.code] ?? error.title ?? `The server responded with ${result.status}`;
  const detail = isUnknown ? `${error.detail} Enter your API key or JSON Web Token above.` : error.detail ?? "";
  return notice(title, detail, facts.filter(Boolean).join(" · "), [429, 503].includes(result.status));
}

const titles = {
  missing_credentials: "This needs a credential",
  invalid_credentials: "The credential is not valid",
  rate_limited: "Too many requests",
  upstream_rate_limited: "Apple limits the requests of this team",
  upstream_error: "Apple Music cannot be reached",
  upstream_timeout: "Apple Music does not respond",
  developer_token_rejected: "Apple refuses this server’s tokens",
};

/** @param {string} title @param {string} detail @param {string} [facts] @param {boolean} [isForNow] */
export function notice(title, detail, facts = "", isForNow = false) {
  return h("div", { class: `problem ${isForNow ? "wait" : ""}` },
    h("strong", {}, title), detail && h("span", {}, detail), facts && h("small", {}, facts));
}

/** Indented JSON, or the text as it is, up to 40000 characters. @param {Result} result */
export function raw(result, most = 40000) {
  const text = (result.json === undefined ? result.text : JSON.stringify(result.json, null, 2)) || "(empty)";
  const rest = text.length > most ? `\n… and ${text.length - most} more characters` : "";
  return h("pre", { class: "raw", tabindex: 0, "aria-label": "Raw response" }, text.slice(0, most) + rest);
}
