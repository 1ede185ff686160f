// Begins the page: asks the listener what it offers, and shows those panels.
import { $, h } from "./dom.js";
import { offerCredential, problem, send, useCredential } from "./api.js";
import * as token from "./token.js";
import * as access from "./access.js";
import * as catalog from "./catalog.js";
import * as user from "./user.js";
import * as live from "./live.js";

/**
 * What the listener offers.
 * @typedef {object} Facts
 * @property {"public" | "admin"} listener
 * @property {boolean} demo
 * @property {boolean} catalog
 * @property {boolean} me
 * @property {boolean} explains
 * @property {boolean} anonymous whether some callers need no credential
 * @property {string[]} credentials
 * @property {{ default: number, maximum: number }} lifetime
 * @property {{ id: string, kind: string, origins: string[] }[]} [clients]
 * @property {string} [publicURL] of the public listener, for pages of the admin listener
 * @property {boolean} live whether the listener has metrics and audit records
 */

async function begin() {
  const result = await send("/page/facts", { isOwn: true });
  if (!result.ok) return $("failure").replaceChildren(problem(result));
  /** @type {Facts} */
  const facts = result.json;
  const isPublic = facts.listener === "public";
  $("address").textContent = location.host;
  $("badge").textContent = facts.demo ? "Demo" : isPublic ? "" : "Admin";
  $("badge").hidden = $("badge").textContent === "";
  offer("catalog", isPublic && facts.catalog);
  offer("user", isPublic && facts.me);
  offer("live", facts.live);
  $("story").hidden = $("emulated").hidden = !facts.demo;
  if (isPublic && facts.credentials.some((kind) => kind === "apiKey" || kind === "jwt")) {
    $("credential-bar").hidden = false;
    offerCredential();
    $("credential").addEventListener("input", () => useCredential($("credential").value));
    $("credential-form").addEventListener("submit", (event) => event.preventDefault());
  }
  offerOrigins(facts);
  for (const part of [token, access, catalog, user]) part.start(facts);
  if (facts.live) live.start();
  home = isPublic ? "token" : "live";
  show();
  document.body.dataset.ready = "true";
}

const offer = (name, isOffered) => { $(`tab-${name}`).hidden = !isOffered; };

function offerOrigins({ clients = [] }) {
  const known = clients.flatMap(({ origins }) => origins ?? []).filter(
    (origin) => origin.includes("://") && !origin.includes("*"),
  );
  for (const origin of new Set([location.origin, ...known])) $("origins").append(h("option", { value: origin }));
}

/** @returns {HTMLElement[]} */
const tabs = () => [...document.querySelectorAll("[role=tab]:not([hidden])")];

/** The view without a fragment. */
let home = "token";

/** Shows the view that the address names: `#live`, or one of the catalog such as `#catalog/album/us/1200868601`. */
function show(movesFocus = false) {
  const [wanted, ...rest] = location.hash.slice(1).split("/");
  const name = tabs().some((tab) => tab.id === `tab-${wanted}`) ? wanted : home;
  // The pattern "tabs" of ARIA.
  for (const tab of tabs()) {
    const isChosen = tab.id === `tab-${name}`;
    tab.setAttribute("aria-selected", String(isChosen));
    tab.tabIndex = isChosen ? 0 : -1;
    $(tab.getAttribute("aria-controls")).hidden = !isChosen;
    if (isChosen && movesFocus) tab.focus();
  }
  addresses.set(name, location.hash || `#${name}`);
  document.title = `${$(`tab-${name}`).textContent} – MusicKit token server`;
  live.watch(name === "live");
  if (name === "access") access.shown();
  if (name === "catalog") catalog.shown(rest);
}

/** The last address of each view, such as that of an album. */
const addresses = new Map();

/** Goes to a view, with an entry in the history. */
function select(name, movesFocus) {
  const address = addresses.get(name) ?? `#${name}`;
  if (location.hash !== address) history.pushState(null, "", address);
  show(movesFocus);
}

function move(event) {
  const all = tabs();
  const now = all.findIndex((tab) => tab.getAttribute("aria-selected") === "true");
  const target = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: all.length - 1 }[event.key];
  if (target === undefined) return;
  event.preventDefault();
  select(all[(target + all.length) % all.length].id.slice(4), true);
}

document.querySelector("[role=tablist]").addEventListener("click", (event) => {
  const tab = event.target.closest("[role=tab]");
  if (tab) select(tab.id.slice(4), false);
});
document.querySelector("[role=tablist]").addEventListener("keydown", move);
// Links, the back button, and addresses that a person types.
addEventListener("popstate", () => show());
begin();
