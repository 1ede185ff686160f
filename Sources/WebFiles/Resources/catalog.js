// The panel of the catalog: search, albums, and what each request cost.
import { $, announce, button, empty, fields, h, size, span } from "./dom.js";
import { problem, raw, send } from "./api.js";

/** The requests that the list keeps. */
const mostCosts = 12;
const page = 12;

/** Searches that find something: in Apple's catalog, and in the emulator's. */
const suggestions = ["Khalid", "Jazz", "Love", "Summer"];
const emulated = ["Khalid", "Horizon", "Mutex Marlene", "Satellite"];

/** The views of this visit by their addresses, with what to focus on return, so that going back costs no request. */
const views = new Map();
const mostViews = 20;
let current = "";

/** What the server gets the catalog from. */
let source = "Apple";
const within = () => source.replace("The", "the");

/** @param {import("./page.js").Facts} facts */
export function start(facts) {
  if (facts.demo) source = "The emulator";
  $("search").addEventListener("submit", (event) => {
    event.preventDefault();
    const term = $("term").value.trim();
    if (term) go(address("search", storefront(), term));
  });
  for (const term of facts.demo ? emulated : suggestions) {
    $("chips").append(button(term, () => go(address("search", storefront(), term))));
  }
}

const address = (kind, ...parts) => `#catalog/${kind}/${parts.map(encodeURIComponent).join("/")}`;

/** Goes to a view. A search that is there already is sent again, as the person wants. */
function go(to) {
  if (to !== location.hash) history.pushState(null, "", to);
  views.delete(to);
  open(to);
}

/** Shows the view of an address, which has these parts after `#catalog`. @param {string[]} parts */
export function shown(parts) {
  if (parts.length > 0) return open(location.hash);
  if (current === "") return;
  current = "";
  show(empty("Search for an artist, an album or a song."));
}

async function open(to) {
  if (to === current && views.has(to)) return;
  const leaving = views.get(current);
  if (leaving) Object.assign(leaving, { nodes: [...$("results").childNodes], focus: document.activeElement });
  current = to;
  const [, kind, place = "", ...rest] = to.split("/").map(readable);
  if (kind === "search") $("term").value = rest.join("/");
  if (/^[a-z]{2}$/i.test(place)) $("storefront").value = place;
  const known = views.get(to);
  if (known) {
    show(...known.nodes);
    known.focus?.focus();
    return;
  }
  const nodes = kind === "album" ? await album(place, rest.join("/")) : await search(rest.join("/"));
  if (current !== to) return;
  show(...nodes);
  if (kind === "album") $("results").querySelector("h2")?.focus();
  views.set(to, { nodes });
  if (views.size > mostViews) views.delete(views.keys().next().value);
}

const storefront = () => $("storefront").value.trim().toLowerCase();

/** Sends a request, and lists what it cost. */
async function get(path) {
  $("results").setAttribute("aria-busy", "true");
  const result = await send(path);
  $("results").removeAttribute("aria-busy");
  addCost(path, result);
  return result;
}

async function search(term) {
  const query = new URLSearchParams({ term, types: "albums,songs", limit: String(page) });
  const result = await get(`/v1/catalog/${storefront()}/search?${query}`);
  if (!result.ok) return [problem(result)];
  const { albums, songs } = result.json?.results ?? {};
  if (!albums && !songs) {
    announce("Nothing found.");
    return [empty(`Nothing matches “${term}”. Try one of the suggestions above.`)];
  }
  announce(`${albums?.data.length ?? 0} albums, ${songs?.data.length ?? 0} songs.`);
  return [section("Albums", albums, "albums", h("ul", { class: "grid" }), albumItem),
    section("Songs", songs, "songs", h("ol", { class: "songs" }), songItem)];
}

function show(...nodes) {
  $("results").replaceChildren(...nodes.filter(Boolean));
}

/** A list with a button for its next page, if Apple says that there is one. */
function section(title, found, type, list, item) {
  if (!found || found.data.length === 0) return null;
  let next;
  const add = (part) => {
    list.append(...part.data.map(item));
    next = part.next;
    more.hidden = !next;
  };
  const more = button(`More ${title.toLowerCase()}`, async () => {
    more.disabled = true;
    const result = await get(next);
    more.disabled = false;
    if (!result.ok) return more.before(problem(result));
    const first = list.children.length;
    add(result.json.results?.[type] ?? result.json);
    (list.children[first]?.querySelector("a") ?? list).focus?.();
  });
  add(found);
  return h("section", { class: "stack", "aria-label": title }, h("h2", {}, title), list, h("div", {}, more));
}

const text = (kind, content) => h("span", { class: kind }, content);

function albumItem({ attributes: a, id }) {
  return h("li", {}, h("a", { href: address("album", storefront(), id) },
    artwork(a, 300), text("name", a.name), text("by", a.artistName)));
}

function songItem({ attributes: a }) {
  return h("li", {}, artwork(a, 96, "small"),
    h("span", { class: "grow" }, text("name", a.name), text("by", `${a.artistName} · ${a.albumName}`)),
    text("time", minutes(a.durationInMillis)));
}

/** A picture in the colour that Apple names for it, also while it loads. If it cannot load, the name's first letter. */
function artwork({ artwork, name }, width, kind = "") {
  const frame = h("span", { class: `art ${kind}`, "data-letter": [...(name ?? "")][0] ?? "" });
  if (!artwork?.url) return frame;
  if (/^[0-9a-f]{6}$/i.test(artwork.bgColor ?? "")) frame.style.background = `#${artwork.bgColor}`;
  const url = artwork.url.replace("{w}", width).replace("{h}", width).replace("{f}", "jpg").replace("{c}", "bb");
  frame.append(h("img", { src: url, alt: "", loading: "lazy", onerror: (event) => event.target.remove() }));
  return frame;
}

function minutes(ms) {
  if (!Number.isFinite(ms)) return "";
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

async function album(place, id) {
  const result = await get(`/v1/catalog/${encodeURIComponent(place)}/albums/${encodeURIComponent(id)}`);
  // Without an earlier view of this visit, such as after a reload, there is nothing to go back to but the search.
  const goBack = () => {
    if (views.size > 1) history.back();
    else location.hash = "catalog";
  };
  const back = h("div", {}, button("← Back to the results", goBack));
  if (!result.ok) return [back, problem(result)];
  const { attributes: a, relationships } = result.json.data[0];
  const tracks = relationships?.tracks?.data ?? [];
  const count = a.trackCount === 1 ? "1 track" : `${a.trackCount} tracks`;
  const facts = [a.releaseDate?.slice(0, 4), a.genreNames?.[0], count].filter(Boolean).join(" · ");
  announce(`${a.name}, ${tracks.length} tracks.`);
  return [
    back,
    h("div", { class: "album" }, artwork(a, 400),
      h("div", {}, h("h2", { tabindex: -1 }, a.name), h("p", {}, a.artistName), h("p", { class: "soft" }, facts))),
    h("ol", { class: "songs" }, ...tracks.map(({ attributes: t }) => h("li", {},
      text("number", t.trackNumber), text("grow name", t.name), text("time", minutes(t.durationInMillis))))),
  ];
}

function readable(path) {
  try { return decodeURIComponent(path); } catch { return path; }
}

function addCost(path, result) {
  const list = $("costs");
  list.querySelector(".empty")?.remove();
  const { word, kind, sentence } = cacheWords(result);
  const names = ["Cache-Status", "Proxy-Status", "X-Request-ID"];
  list.prepend(h("details", {},
    h("summary", {}, text(`pill ${kind}`, word),
      text("cost", `${Math.max(1, Math.round(result.ms))} ms · ${size(result.text.length)}`),
      text("what", readable(path)), text("words", sentence)),
    h("div", { class: "body" },
      fields([["Status", result.status || "none"], ...names.map((name) => [name, result.fields.get(name)])]),
      raw(result))));
  while (list.children.length > mostCosts) list.lastChild.remove();
}

/**
 * `Cache-Status` (RFC 9211) in words.
 * @param {import("./api.js").Result} result
 * @returns {{ word: string, kind: string, sentence: string }}
 */
export function cacheWords(result) {
  const words = (word, kind, sentence) => ({ word, kind, sentence });
  const failed = () => words("Failed", "bad",
    result.status ? `The response is ${result.status}.` : "There was no response.");
  const field = result.fields.get("Cache-Status") ?? "";
  if (!field) return result.ok ? words("Direct", "", "The cache did not handle this request.") : failed();
  const ttl = Number(/ttl=(-?\d+)/.exec(field)?.[1] ?? NaN);
  const life = ttl > 0 ? ` It stays fresh for ${span(ttl)}.` : "";
  const detail = /detail="([^"]*)"/.exec(field)?.[1] ?? "";
  const reason = { "stale-if-error": "failed", "stale-after": "was slow" }[detail];
  if (reason) {
    return words("Stale", "warn", `${source} ${reason}, so the server sent a response that is ${span(ttl)} too old.`);
  }
  if (field.includes("; collapsed")) {
    return words("Collapsed", "good", "It shared the response to another caller’s request.");
  }
  if (field.includes("; hit")) {
    return ttl < 0 ? words("Stale", "warn", "From memory, while the server fetches a new response.")
      : words("Hit", "good", `From memory, without a request to ${within()}.${life}`);
  }
  if (field.includes("fwd-status=304")) {
    return words("Valid", "good", `${source} says that the response in memory is still right.${life}`);
  }
  if (!result.ok) return failed();
  const stored = field.includes("; stored") ? " The server keeps it." : "";
  return words("Miss", "", `From ${within()}, at the cost of one request.${stored}${life}`);
}
