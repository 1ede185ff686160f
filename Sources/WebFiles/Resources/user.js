// The panel of the user: a music user token, and requests with it.
import { $, announce, copy, h } from "./dom.js";
import { notice, problem, raw, requestToken, send } from "./api.js";

/** The user that the demo's emulator knows. */
const emulated = "sandbox-user-token";
const musicKit = "https://js-cdn.music.apple.com/musickit/v3/musickit.js";

/** How long the script may take after its load, in ms. */
const patience = 5000;

/** It stays here and nowhere else. */
let userToken = "";

/** @param {import("./page.js").Facts} facts */
export function start(facts) {
  $("me-form").addEventListener("submit", (event) => { event.preventDefault(); ask(); });
  if (facts.demo) offerEmulated();
  else offerMusicKit();
}

function offerEmulated() {
  const button = h(
    "button",
    { type: "button", class: "primary", onclick: () => signedIn(emulated, () => offerEmulated()) },
    "Use the emulator’s user",
  );
  $("sign-in").replaceChildren(
    h("h2", {}, "Sign in"),
    h("p", { class: "soft" }, "The emulator has one user. With a real key, people sign in at Apple here."),
    h("div", {}, button),
  );
}

function offerMusicKit() {
  const button = h("button", { type: "button", class: "primary", onclick: load }, "Load MusicKit JS from Apple");
  $("sign-in").replaceChildren(
    h("h2", {}, "Sign in with Apple Music"),
    h(
      "p",
      { class: "soft" },
      "This loads a script of Apple from js-cdn.music.apple.com. It keeps your sign-in in this browser.",
    ),
    h("div", {}, button),
    h("div", { id: "sign-in-problem", role: "alert" }),
  );
}

function failed(title, detail) {
  $("sign-in-problem").replaceChildren(notice(title, detail));
}

/** Loads Apple's script, and configures it with a token of this server for this page. */
async function load(event) {
  event.target.disabled = true;
  $("sign-in-problem").replaceChildren();
  try {
    const bound = await requestToken({ origin: location.origin });
    // A client without origins gets only tokens that work everywhere.
    const result = bound.ok ? bound : await requestToken({});
    if (!result.ok) return $("sign-in-problem").replaceChildren(problem(result));
    await script();
    const music = await globalThis.MusicKit.configure(
      { developerToken: result.json.token, app: { name: "MusicKit token server", build: "1" } },
    );
    offerAuthorization(music);
  } catch (error) {
    failed("MusicKit JS does not work here", String(error?.message ?? error));
  } finally {
    event.target.disabled = false;
  }
}

function script() {
  if (globalThis.MusicKit) return Promise.resolve();
  return new Promise((resolve, reject) => {
    const refuse = () => reject(new Error("The browser could not load it from Apple."));
    // Apple's script says that it is ready by an event, which may come after its load.
    const loaded = () => globalThis.MusicKit ? resolve(undefined) : setTimeout(refuse, patience);
    document.addEventListener("musickitloaded", () => resolve(undefined), { once: true });
    document.head.append(h("script", { src: musicKit, onload: loaded, onerror: refuse }));
  });
}

function offerAuthorization(music) {
  const authorize = async () => {
    try { signedIn(await music.authorize(), async () => { await music.unauthorize(); offerAuthorization(music); }); }
    catch (error) { failed("Apple has not signed you in", String(error?.message ?? error)); }
  };
  $("sign-in").replaceChildren(
    h("h2", {}, "MusicKit JS is ready"),
    h("p", { class: "soft" }, "Apple opens a window of its own."),
    h("div", {}, h("button", { type: "button", class: "primary", onclick: authorize }, "Sign in at Apple")),
    h("div", { id: "sign-in-problem", role: "alert" }),
  );
  announce("MusicKit JS is ready.");
}

function signedIn(token, signOut) {
  userToken = token;
  const copier = h("button", { type: "button", onclick: () => copy(copier, userToken) }, "Copy");
  const out = h("button", { type: "button", onclick: () => {
    userToken = "";
    $("me-send").disabled = true;
    $("me-result").replaceChildren(h("p", { class: "empty" }, "Sign in first."));
    signOut();
  } }, "Sign out");
  $("sign-in").replaceChildren(
    h("h2", {}, "Signed in"),
    h(
      "div",
      { class: "group" },
      h("h3", {}, "Music user token"),
      h("div", { class: "secret" }, h("code", {}, masked(token)), copier),
    ),
    h("div", {}, out),
  );
  $("me-send").disabled = false;
  $("me-result").replaceChildren();
  announce("Signed in.");
}

/** Enough to tell two tokens apart, and too little to use. */
function masked(token) {
  return token.length > 40 ? `${token.slice(0, 6)}…${token.slice(-4)}` : `${token.slice(0, 7)}…`;
}

async function ask() {
  const result = await send($("me-path").value, { fields: { "Music-User-Token": userToken } });
  if (!result.ok) return $("me-result").replaceChildren(problem(result));
  $("me-result").replaceChildren(
    h(
      "div",
      { class: "stack" },
      h("p", { class: "soft" }, `${result.status} in ${Math.max(1, Math.round(result.ms))} ms`),
      names(result.json),
      h(
        "details",
        {},
        h("summary", {}, "Raw response"),
        h("pre", { class: "raw", tabindex: 0, "aria-label": "Raw response" }, raw(result)),
      ),
    ),
  );
}

function names(json) {
  const data = json?.data ?? [];
  if (data.length === 0) return h("p", { class: "empty" }, "The list is empty.");
  return h(
    "ol",
    { class: "songs" },
    ...data.map(
      ({ attributes, type }) => h(
        "li",
        {},
        h(
          "span",
          { class: "grow" },
          h("span", { class: "name" }, attributes?.name ?? "Without a name"),
          h("span", { class: "by" }, attributes?.artistName ?? type),
        ),
      ),
    ),
  );
}
