// The panel of access: what the policy decides, and code for a client.
import { $, button, copy, facts as factList, fields as fieldList, group, h, headline, soft, tick } from "./dom.js";
import { hasCredential, problem, requestToken, send } from "./api.js";
import { address, caution, code, languages } from "./snippets.js";

/** @type {import("./page.js").Facts} */
let facts;
let language = languages[0];

const credentials = {
  anonymous: "no credential", origin: "its origin", apiKey: "an API key", jwt: "a JSON Web Token",
  certificate: "a client certificate",
};

/** @param {import("./page.js").Facts} given */
export function start(given) {
  facts = given;
  offerRoutes();
  offerClients();
  for (const name of languages) $("languages").append(button(name, () => choose(name)));
  $("copy-snippet").addEventListener("click", () => copy($("copy-snippet"), $("snippet").textContent));
  $("access-form").addEventListener("submit", (event) => { event.preventDefault(); decide(); });
  $("access-form").addEventListener("change", changed);
  $("server-label").hidden = facts.publicURL === undefined;
  $("server").value = facts.publicURL ?? location.origin;
  $("server").addEventListener("input", showSnippet);
  choose(language);
  $("credential").addEventListener("input", () => {
    const kind = facts.credentials.find((kind) => kind !== "certificate");
    if (hasCredential() && $("client").value === "anonymous" && kind) $("client").value = kind;
    showSnippet();
  });
}

function choose(name) {
  language = name;
  for (const each of $("languages").children) each.setAttribute("aria-pressed", String(each.textContent === name));
  showSnippet();
}

/** Shows the first decision when the panel is first visible, because each explanation is an audit record. */
export function shown() {
  if (facts.explains && latest === 0) decide();
}

function offerRoutes() {
  const routes = [["/token", "A developer token"]];
  if (facts.catalog) routes.push(["/v1/catalog/us/search?term=khalid&types=albums", "A search of the catalog"]);
  if (facts.me) routes.push(["/v1/me/library/playlists", "The user’s playlists"]);
  for (const [path, name] of routes) $("route").append(h("option", { value: path }, name));
  $("route").append(h("option", { value: "" }, "Another path"));
}

/** With explanations, each client of the settings; else the kinds of credentials that the server accepts. */
function offerClients() {
  if (facts.explains) {
    $("client").append(h("option", { value: "" }, "No credential"));
    for (const { id, kind } of facts.clients) {
      if (kind !== "anonymous") $("client").append(h("option", { value: id }, `${id}: ${credentials[kind]}`));
    }
    $("ask").hidden = true;
    $("client-label").hidden = $("client").options.length === 1;
  } else {
    $("client-label").firstChild.textContent = "Credential ";
    const kinds = [...(facts.anonymous ? ["anonymous"] : []), ...facts.credentials];
    for (const kind of kinds) {
      const name = credentials[kind];
      $("client").append(h("option", { value: kind }, name[0].toUpperCase() + name.slice(1)));
    }
    $("access-origin-label").hidden = true;
    document.querySelector("#access h1").textContent = "Your access";
  }
}

function changed() {
  $("path-label").hidden = $("route").value !== "";
  const client = chosen();
  const first = client?.origins?.[0];
  // A client that is known by its origin has no other credential.
  const isPlain = first && !first.includes("*");
  if (client?.kind === "origin" && isPlain && !$("access-origin").value) $("access-origin").value = first;
  showSnippet();
  if (facts.explains) decide();
}

const chosen = () => facts.clients?.find(({ id }) => id === $("client").value);
const path = () => $("route").value || $("path").value.trim();

let latest = 0;

async function decide() {
  const turn = ++latest;
  const result = facts.explains ? await explain() : await trial();
  if (turn === latest) $("decision").replaceChildren(...result);
}

/** Asks for the policy's decision, by the code that decides about callers. */
async function explain() {
  const origin = $("access-origin").value.trim();
  const described = { path: path() };
  if (origin) described.origin = origin;
  // An origin is a credential by itself, so the server finds this client by it.
  if (chosen() && chosen().kind !== "origin") described.client = chosen().id;
  const result = await send("/access/explain", { json: described, isOwn: true });
  if (!result.ok) return [problem(result)];
  return explained(result.json, origin);
}

function explained({ allowed, client, status, code, reason, detail, evidence, fix, cors }, origin) {
  const title = allowed ? "Allowed" : `Refused with ${status}`;
  const nodes = [
    verdict(allowed, title, allowed ? (client ? `As client ${client}.` : "") : detail),
    factList([["Client", client], ["Code", code], ["Reason", reason === code ? "" : reason]]),
  ];
  if (evidence.length > 0) {
    nodes.push(
      group("What the server knows", h("ul", { class: "sentences" }, ...evidence.map((text) => h("li", {}, text)))));
  }
  // The demo has no settings to change.
  const advice = facts.demo && code === "origin_not_allowed"
    ? "The demo serves pages of this machine, such as http://localhost:3000. A server of yours has your origins in its "
      + "settings: access.clients, origins."
    : fix;
  if (advice) nodes.push(group("What you can do", h("p", {}, advice)));
  if (cors) {
    const mark = cors.allowed ? tick("good", "Readable") : tick("bad", "Not readable");
    nodes.push(
      h("div", { class: "here" }, mark, h("span", {}, cors.detail)),
      fields("CORS fields of the preflight response", Object.entries(cors.preflight)),
      fields("CORS fields of the response", Object.entries(cors.response)),
    );
  } else if (!origin) {
    nodes.push(soft("Without an origin, the response has no CORS fields."));
  }
  return nodes;
}

/** Sends the request itself, with the credential that the caller has entered. */
async function trial() {
  const result = path() === "/token" ? await requestToken({}) : await send(path());
  const as = hasCredential() ? "With your credential." : "Without a credential.";
  if (!result.ok) return [verdict(false, `Refused with ${result.status || "no response"}`, as), problem(result)];
  const names = ["Cache-Status", "RateLimit", "RateLimit-Policy", "Access-Control-Allow-Origin", "X-Request-ID"];
  const seen = names.filter((name) => result.fields.has(name)).map((name) => [name, result.fields.get(name)]);
  return [verdict(true, "Allowed", as), fields("Fields of the response", seen)];
}

const verdict = (isGood, title, detail) =>
  headline(isGood ? "good" : "bad", isGood ? "Allowed" : "Refused", title, detail);

const fields = (title, rows) => group(title, rows.length > 0 ? fieldList(rows) : soft("None"));

let shownCode = 0;

async function showSnippet() {
  const kind = facts.explains ? chosen()?.kind ?? "anonymous" : $("client").value;
  const given = {
    kind,
    base: $("server").value.trim().replace(/\/+$/, ""),
    path: path(),
    origin: $("access-origin").value.trim(),
    demo: facts.demo,
  };
  const turn = ++shownCode;
  const text = await code(language, given);
  if (turn !== shownCode) return;
  $("snippet").textContent = text ?? "The server does not respond.";
  $("caution").textContent = caution(language, given);
  $("caution").hidden = $("caution").textContent === "";
  $("about-recipe").hidden = address(language) === undefined;
  $("recipe").href = address(language) ?? "";
}
