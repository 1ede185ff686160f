// The panel of tokens: request one, or paste any, and see what Apple would say.
import { $, announce, copy, empty, facts, h, headline, moment, span, tick } from "./dom.js";
import { problem, requestToken, send } from "./api.js";

const lifetimes = [300, 3600, 43200, 86400, 604800, 2592000];

let isDemo = false;

/** @param {import("./page.js").Facts} facts */
export function start({ demo, listener, lifetime }) {
  isDemo = demo;
  if (listener === "public") {
    offerLifetimes(lifetime);
    $("token-form").addEventListener("submit", (event) => { event.preventDefault(); request(); });
    // In the demo a token is there at once. Elsewhere each token is somebody's.
    if (isDemo) request();
  } else {
    // The admin listener makes no tokens.
    $("token-form").remove();
    $("pasted").placeholder = "Paste any developer token to check it.";
    document.querySelector("#token h1").textContent = "Check a developer token";
  }
  $("pasted").addEventListener("input", judge);
  $("copy-token").addEventListener("click", () => copy($("copy-token"), $("pasted").value.trim()));
  $("clear-token").addEventListener("click", () => {
    $("pasted").value = "";
    judge();
    $("pasted").focus();
  });
}

function offerLifetimes({ default: usual, maximum }) {
  const choices = lifetimes.filter((seconds) => seconds < maximum && seconds !== usual).concat(maximum);
  $("ttl").append(h("option", { value: "" }, `Default: ${span(usual)}`));
  for (const seconds of new Set(choices)) {
    if (seconds === usual) continue;
    $("ttl").append(h("option", { value: seconds }, span(seconds) + (seconds === maximum ? " (the most)" : "")));
  }
}

async function request() {
  const wish = {};
  if ($("ttl").value) wish.ttl = Number($("ttl").value);
  if ($("token-origin").value.trim()) wish.origin = $("token-origin").value.trim();
  const turn = ++latest;
  const result = await requestToken(wish);
  $("token-problem").replaceChildren(...result.ok ? [] : [problem(result)]);
  // What somebody has pasted meanwhile stays.
  if (turn !== latest) return;
  $("pasted").value = result.ok ? result.json.token : "";
  if (result.ok) announce("The server has made a token.");
  judge();
}

// The number of the last request for a token or a verdict.
let latest = 0;

/** Asks the server for its verdict on the token in the field. */
async function judge() {
  const token = $("pasted").value.trim();
  const turn = ++latest;
  for (const id of ["copy-token", "clear-token"]) $(id).disabled = token === "";
  if (token === "") return show(empty("No token yet."));
  const result = await send("/page/inspect", { json: { token, origin: location.origin } });
  if (turn !== latest) return;
  if (!result.ok) return show(problem(result));
  const { checks, origin = [] } = result.json;
  const here = checks.find(({ rule }) => rule === "claims.origin.match");
  const rules = checks.filter((check) => check !== here);
  const isBroken = rules.some(({ verdict }) => verdict === "fail");
  show(summary(result.json, rules), life(result.json), content(result.json), !isBroken && place(here, origin),
    ...list(rules));
}

function show(...nodes) {
  $("verdict").replaceChildren(...nodes.filter(Boolean));
}

function summary({ kid }, rules) {
  const failures = rules.filter(({ verdict }) => verdict === "fail").length;
  if (failures > 0) {
    const count = failures === 1 ? "It breaks one rule." : `It breaks ${failures} rules.`;
    return headline("bad", "Invalid", "Apple would refuse this token", count);
  }
  if (rules.find(({ rule }) => rule === "signature")?.verdict === "pass") {
    return headline("good", "Valid", "A valid token of this server",
      isDemo ? "Apple refuses it all the same: it does not know the demo’s key."
        : "Only Apple knows whether it accepts this key and team.");
  }
  return headline("warn", "Not sure", "Well-formed, signature not checked",
    kid ? `Key ${kid} is not a key of this server.` : "");
}

function life({ iat, exp }) {
  if (iat === undefined || exp === undefined || exp <= iat) return null;
  const now = Date.now() / 1000;
  const share = Math.min(1, Math.max(0, (now - iat) / (exp - iat)));
  const left = exp - now;
  const words = left > 0 ? `${span(left)} left of ${span(exp - iat)}` : `Expired ${span(left)} ago`;
  const used = h("div", { class: "used" });
  used.style.width = `${share * 100}%`;
  return h("div", { class: `life ${left > 0 ? "" : "over"}` }, h("h3", {}, "Life"),
    h("div", { class: "track", role: "img", "aria-label": words }, used),
    h("div", { class: "ends" }, h("span", {}, moment(iat)), h("span", {}, words), h("span", {}, moment(exp))));
}

function content({ alg, kid, iss, origin }) {
  if (!alg && !kid && !iss) return null;
  return facts([["Algorithm", alg], ["Key", kid], ["Team", iss], ["Origins", origin?.join(", ") ?? "any"]]);
}

/** Whether the token's origins fit this page, whatever else Apple says of the token. */
function place(check, origins) {
  const page = h("strong", {}, location.origin);
  const isHere = !check || check.verdict === "pass";
  return h("div", { class: "here" }, tick(isHere ? "good" : "warn", isHere ? "For this page" : "Not for this page"),
    !check ? h("span", {}, "It is for every web page, ", page, " included.")
    : isHere ? h("span", {}, "It is for this page’s origin, ", page, ".")
    : h("span", {}, `It is for ${origins.join(", ") || "no page"}, and not for this page, `, page, "."));
}

const kinds = {
  pass: ["good", "Kept"], fail: ["bad", "Broken"], warning: ["warn", "Unusual"], unknown: ["", "Unknown"],
};

/** The rules that need attention, the worst first, and the others behind a summary. */
function list(rules) {
  const kept = rules.filter(({ verdict }) => verdict === "pass");
  const order = { fail: 0, warning: 1, unknown: 2 };
  const others = rules.filter((rule) => !kept.includes(rule)).toSorted((a, b) => order[a.verdict] - order[b.verdict]);
  const items = (part) => h("ul", { class: "rules" }, ...part.map(({ rule, verdict, explanation }) => h("li", {},
    tick(...kinds[verdict]), h("span", {}, inWords(rule, explanation)))));
  return [
    others.length > 0 && items(others),
    kept.length > 0 && h("details", { class: "rest" },
      h("summary", {}, `${kept.length} of ${rules.length} rules hold`), items(kept)),
  ];
}

/** The sentence of `inspect`, with times and names as people say them. */
function inWords(rule, explanation) {
  return explanation.replace(/([Tt])he given key/g, "$1his server’s key")
    .replace(/\b(\d{3,}) s\b/g, (_, seconds) => span(Number(seconds)))
    .replace("No member is", `No member of the ${rule.split(".")[0]} is`);
}
