// The panel of the user: a music user token, and requests with it.
import { $, announce, button, copy, empty, group, h, soft } from "./dom.js";
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

/** Shows a step of the sign-in. */
function step(title, ...nodes) {
  $("sign-in").replaceChildren(h("h2", {}, title), ...nodes);
}

function offerEmulated() {
  step("Sign in", soft("The emulator has one user. With a real key, people sign in at Apple here."),
    h("div", {}, button("Use the emulator’s user", () => signedIn(emulated, offerEmulated), "primary")));
}

function offerMusicKit() {
  step("Sign in with Apple Music",
    soft("This loads a script of Apple from js-cdn.music.apple.com. It keeps your sign-in in this browser."),
    h("div", {}, button("Load MusicKit JS from Apple", load, "primary")), failures());
}

const failures = () => h("div", { id: "sign-in-problem", role: "alert" });

function failed(title, error) {
  $("sign-in-problem").replaceChildren(notice(title, String(error?.message ?? error)));
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
    failed("MusicKit JS does not work here", error);
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
    catch (error) { failed("Apple has not signed you in", error); }
  };
  step("MusicKit JS is ready", soft("Apple opens a window of its own."),
    h("div", {}, button("Sign in at Apple", authorize, "primary")), failures());
  announce("MusicKit JS is ready.");
}

function signedIn(token, signOut) {
  userToken = token;
  const copier = button("Copy", () => copy(copier, userToken));
  const out = button("Sign out", () => {
    userToken = "";
    $("me-send").disabled = true;
    $("me-result").replaceChildren(empty("Sign in first."));
    signOut();
  });
  step("Signed in",
    group("Music user token", h("div", { class: "secret" }, h("code", {}, masked(token)), copier)), h("div", {}, out));
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
  $("me-result").replaceChildren(h("div", { class: "stack" },
    soft(`${result.status} in ${Math.max(1, Math.round(result.ms))} ms`), names(result.json),
    h("details", {}, h("summary", {}, "Raw response"), raw(result))));
}

function names(json) {
  const data = json?.data ?? [];
  if (data.length === 0) return empty("The list is empty.");
  return h("ol", { class: "songs" }, ...data.map(({ attributes, type }) => h("li", {},
    h("span", { class: "grow" }, h("span", { class: "name" }, attributes?.name ?? "Without a name"),
      h("span", { class: "by" }, attributes?.artistName ?? type)))));
}
