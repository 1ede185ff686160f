// The panel for operators: metrics as charts, clients, keys, and the last audit records.
import { $, empty, h, moment, span, svg } from "./dom.js";
import { notice, send } from "./api.js";

/** Time between two looks, in ms, and how many the charts show: four minutes. */
const interval = 2000;
const shown = 120;
/** The looks for which a chart has room at first, so that its line is long enough to see. */
const fewest = 30;

/** @typedef {Map<string, { labels: Record<string, string>, value: number }[]>} Metrics */

/** @type {{ at: number, wall: number, metrics: Metrics }[]} */
const looks = [];
let timer = 0;
let records = [];
let isPaused = false;

export function start() {
  $("pause").addEventListener("click", () => {
    isPaused = !isPaused;
    $("pause").setAttribute("aria-pressed", String(isPaused));
    $("pause").textContent = isPaused ? "Continue" : "Pause";
  });
  $("audit-filter").addEventListener("input", showRecords);
  for (const chart of charts) $("charts").append(frame(chart));
}

/** Looks at the server while the panel is visible. @param {boolean} isVisible */
export function watch(isVisible) {
  clearTimeout(timer);
  if (isVisible) look();
}

async function look() {
  if (!isPaused && !document.hidden) {
    const [metrics, audit] = await Promise.all(["/metrics", "/page/audit"].map((path) => send(path, { isOwn: true })));
    if (metrics.ok) {
      looks.push({ at: performance.now(), wall: Date.now(), metrics: parse(metrics.text) });
      if (looks.length > shown + 1) looks.shift();
      draw();
    }
    if (audit.ok) {
      records = audit.json.records;
      showRecords();
    }
    $("live-problem").replaceChildren(
      ...(metrics.ok ? [] : [notice("The server does not respond", "The charts continue when it does.")]));
  }
  clearTimeout(timer);
  if (!$("live").hidden) timer = setTimeout(look, interval);
}

/** Parses the text format of Prometheus. @param {string} text @returns {Metrics} */
export function parse(text) {
  const metrics = new Map();
  for (const line of text.split("\n")) {
    const match = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!match) continue;
    const labels = {};
    for (const [, name, value] of (match[2] ?? "").matchAll(/([a-z0-9_]+)="((?:[^"\\]|\\.)*)"/g)) {
      labels[name] = value.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c));
    }
    if (!metrics.has(match[1])) metrics.set(match[1], []);
    metrics.get(match[1]).push({ labels, value: Number(match[3]) });
  }
  return metrics;
}

/** The sum of a metric's values. @param {Metrics} metrics @param {(labels: any) => boolean} [filter] */
function sum(metrics, name, filter = () => true) {
  return (metrics.get(name) ?? []).filter(({ labels }) => filter(labels)).reduce((all, { value }) => all + value, 0);
}

/** What happened each second between two looks, for each pair of them. @param {(m: Metrics) => number} count */
function rates(count) {
  return looks.slice(1).map(
    (look, i) => Math.max(0, count(look.metrics) - count(looks[i].metrics)) / ((look.at - looks[i].at) / 1000),
  );
}

const latest = () => looks.at(-1).metrics;
const number = (value) => value >= 100 ? String(Math.round(value)) : String(Math.round(value * 10) / 10);
const duration = (seconds) => seconds >= 1 ? `${number(seconds)} s` : `${number(seconds * 1000)} ms`;

/** Whether a route is one of callers, and not of this page. */
const isOfCallers = ({ route }) => route !== "/metrics" && route !== "/" && !route.startsWith("/page/");

const requests = (m) => sum(m, "musickit_http_requests_total", isOfCallers);
const tokens = (m) => sum(m, "musickit_http_requests_total", ({ route, code }) => route === "/token" && code === "200");
const refusals = (m) => sum(m, "musickit_http_requests_total", ({ code }) => code === "429");
const hits = (m) => sum(m, "musickit_cache_hits_total") + sum(m, "musickit_cache_collapsed_total");
const misses = (m) => sum(m, "musickit_cache_misses_total");
const decisions = (word) => (m) => sum(m, "musickit_access_decisions_total", ({ outcome }) => outcome === word);
const attempts = (m) => sum(m, "musickit_upstream_attempts_total");
const waiting = (m) => sum(m, "musickit_upstream_requests_waiting");
const limited = (m) => sum(m, "musickit_upstream_rate_limited_total");

/**
 * The time within which a part of the requests between two looks got their responses, in seconds; undefined without a
 * request. As Prometheus does, it assumes that times within a bucket of the histogram are spread evenly.
 */
function quantile(part, name, filter, from, to) {
  const counts = new Map();
  for (const [metrics, sign] of [[to, 1], [from, -1]]) {
    for (const { labels, value } of metrics?.get(`${name}_bucket`) ?? []) {
      if (!filter(labels)) continue;
      const bound = labels.le === "+Inf" ? Infinity : Number(labels.le);
      counts.set(bound, (counts.get(bound) ?? 0) + sign * value);
    }
  }
  const buckets = [...counts].sort(([one], [other]) => one - other);
  const rank = part * (buckets.at(-1)?.[1] ?? 0);
  if (!(rank > 0)) return undefined;
  let [lower, below] = [0, 0];
  for (const [bound, count] of buckets) {
    if (count >= rank) return bound === Infinity ? lower : lower + (bound - lower) * ((rank - below) / (count - below));
    [lower, below] = [bound, count];
  }
  return undefined;
}

const responseTimes = "musickit_http_request_duration_seconds";
const byClient = "musickit_client_request_duration_seconds";

/** The quantile over the last looks, up to ten of them, at each look. Without a request the time before counts on. */
function times(part) {
  let before = 0;
  return looks.slice(1).map(({ metrics }, i) =>
    (before = quantile(part, responseTimes, isOfCallers, looks[Math.max(0, i - 9)].metrics, metrics) ?? before));
}

/**
 * `lines` has the values to draw, each with its name. The first one is the number beside it, unless `value` says another.
 * `count` grows with the traffic of the chart, and `also` is the sentence below.
 */
const charts = [
  {
    title: "Requests", unit: "a second", count: requests,
    lines: () => [["requests", rates(requests)]],
    also: () => `${requests(latest())} since the start`,
  },
  {
    title: "Response time", unit: "", count: requests, write: duration,
    lines: () => [["half of the requests", times(0.5)], ["99 %", times(0.99)]],
    also: () => "up to this time, without the requests of this page",
  },
  {
    title: "Tokens given", unit: "a second", count: tokens,
    lines: () => [["tokens", rates(tokens)]],
    also: () => `${tokens(latest())} since the start`,
  },
  {
    title: "Cache hits", unit: "%", top: 100, count: (m) => hits(m) + misses(m),
    lines: () => [["hits since the start", ratios()]],
    also: () => `${hits(latest())} of ${hits(latest()) + misses(latest())} requests`,
  },
  {
    title: "Requests to Apple", unit: "a second", count: attempts,
    lines: () => [["sent", rates(attempts)], ["waiting", looks.slice(1).map(({ metrics }) => waiting(metrics))]],
    also: () => `${attempts(latest())} since the start · ${pace(sum(latest(), "musickit_upstream_rate"))}`,
  },
  {
    title: "Refusals", unit: "a second", none: "None", count: (m) => decisions("refused")(m) + refusals(m) + limited(m),
    lines: () => [
      ["refused", rates(decisions("refused"))], ["429 to callers", rates(refusals)], ["429 of Apple", rates(limited)],
    ],
    also: () => `${decisions("refused")(latest())} refused, ${refusals(latest())} and ${limited(latest())} times 429`,
  },
];

const pace = (rate) => (rate ? `pace ${number(rate)} a second` : "no limit known");

/** The part of hits in all, in percent, at each look but the first. */
function ratios() {
  return looks.slice(1).map(({ metrics }) => {
    const all = hits(metrics) + misses(metrics);
    return all ? (100 * hits(metrics)) / all : 0;
  });
}

function frame({ title }) {
  return h("figure", { class: "card chart", "aria-label": title },
    h("figcaption", {}, h("h3", {}, title)), h("p", { class: "value" }),
    h("div", { class: "plot", "aria-hidden": "true" },
      h("span", { class: "most" }), svg("svg", { preserveAspectRatio: "none" }),
      h("span", { class: "begin" }), h("span", { class: "end" }, "now")),
    h("ul", { class: "legend" }), h("p", { class: "also" }));
}

/** Since when a count has not grown, as a time; undefined if it grew between the last two looks. */
function quietSince(count) {
  const now = count(latest());
  if (now === 0) return "the start";
  let index = looks.length - 1;
  while (index > 0 && count(looks[index - 1].metrics) === now) index -= 1;
  return index === looks.length - 1 ? undefined : new Date(looks[index].wall).toLocaleTimeString();
}

/** The last value of a chart, or since when there was nothing to count: a percentage stands still without traffic. */
function value({ unit, none = "No traffic", count, write = number }, line) {
  const quiet = quietSince(count);
  if (quiet === "the start" || (quiet && unit !== "%")) return [h("small", {}, `${none} since ${quiet}`)];
  return [write(line.at(-1) ?? 0), " ", h("small", {}, unit)];
}

function draw() {
  charts.forEach((chart, index) => {
    const part = (name) => $("charts").children[index].querySelector(name);
    const named = chart.lines();
    const lines = named.map(([, line]) => line);
    part(".value").replaceChildren(...value(chart, lines[0]));
    part(".also").textContent = chart.also();
    const width = Math.max(fewest, lines[0].length - 1);
    const top = chart.top ?? Math.max(chart.write ? 0.001 : 1, ...lines.flat()) * 1.15;
    part(".most").textContent = chart.top ? "100 %" : (chart.write ?? number)(top);
    part(".begin").textContent = `${span(width * interval / 1000)} ago`;
    const keys = named.map(([name], i) => h("li", { class: `key${i}` }, name));
    if (keys.length > 1) part(".legend").replaceChildren(...keys);
    part("svg").setAttribute("viewBox", `0 0 ${width} 40`);
    part("svg").replaceChildren(...lines.flatMap((line, i) => {
      const begin = width - line.length + 1;
      const height = (value) => (39 - 38 * Math.min(1, value / top)).toFixed(2);
      const d = line.map((value, x) => `${x ? "L" : "M"}${begin + x} ${height(value)}`).join("");
      const isFilled = i === 0 && line.length > 1;
      const area = isFilled ? [svg("path", { class: "area", d: `${d}L${width} 40L${begin} 40Z` })] : [];
      return [...area, svg("path", { class: `line${i}`, d })];
    }));
  });
  showClients();
  showKeys();
}

/** A table. On a narrow screen each row is a block of lines with these names (page.css), so the roles are explicit. */
function table(head, rows, kind = "") {
  const cell = (content, i) =>
    h("td", { role: "cell", class: i ? kind : "", "data-name": i ? head[i] : "" }, content);
  return h("table", { role: "table" },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" },
      ...head.map((name, i) => h("th", { role: "columnheader", scope: "col", class: i ? kind : "" }, name)))),
    h("tbody", { role: "rowgroup" }, ...rows.map((row) => h("tr", { role: "row" }, ...row.map(cell)))));
}

/** A bar with the parts of the outcomes; the numbers beside it say the same. */
function mix(counts) {
  const all = Math.max(1, counts.reduce((sum, count) => sum + count, 0));
  const bar = h("div", { class: "mix", "aria-hidden": "true" });
  ["good", "bad", "warn"].forEach((kind, i) => {
    const part = h("span", { class: kind });
    part.style.width = `${100 * counts[i] / all}%`;
    if (counts[i]) bar.append(part);
  });
  return bar;
}

function showClients() {
  const counts = new Map();
  for (const { labels, value } of latest().get("musickit_access_decisions_total") ?? []) {
    const row = counts.get(labels.client) ?? { granted: 0, refused: 0, limited: 0 };
    row[labels.outcome] = (row[labels.outcome] ?? 0) + value;
    counts.set(labels.client, row);
  }
  const sent = new Map((latest().get("musickit_upstream_client_attempts_total") ?? []).map(
    ({ labels, value }) => [labels.client, value]));
  const rows = [...counts].map(([id, c]) => {
    const slowest = quantile(0.99, byClient, ({ client }) => client === id, undefined, latest());
    return [
      h("div", {}, id === "-" ? "unknown" : id, mix([c.granted, c.refused, c.limited])),
      c.granted, c.refused, c.limited, sent.get(id) ?? 0, slowest === undefined ? "–" : duration(slowest),
    ];
  });
  $("clients").replaceChildren(rows.length === 0 ? empty("No caller yet.")
    : table(["Client", "Granted", "Refused", "Limited", "Sent to Apple", "99 % within"], rows, "n"));
}

const states = { signing: "good", proved: "good", refused: "bad", unproved: "warn", replaced: "", retired: "" };

function showKeys() {
  const m = latest();
  const of = (name, key) => (m.get(name) ?? []).find(({ labels }) => labels.key === key)?.value ?? 0;
  const present = (m.get("musickit_signing_key_state") ?? []).filter(({ value }) => value === 1);
  const rows = present.map(({ labels: { key, state } }) => {
    const end = of("musickit_signing_key_tokens_expire_timestamp_seconds", key);
    const proof = of("musickit_signing_key_last_proof_timestamp_seconds", key);
    return [
      h("code", {}, key),
      h("span", { class: `pill ${states[state]}` }, state),
      end ? `tokens until ${moment(end)}` : proof ? `proved ${moment(proof)}` : "not proved",
    ];
  });
  for (const [name, title] of [["certificate", "Certificate"], ["client_ca", "Client CAs"]]) {
    for (const { labels, value } of m.get(`musickit_tls_${name}_remaining_seconds`) ?? []) {
      const kind = value <= 0 ? "bad" : value < 14 * 86400 ? "warn" : "good";
      rows.push([
        `${title} ${labels.certificate ?? ""}`,
        h("span", { class: `pill ${kind}` }, value > 0 ? "valid" : "expired"),
        value > 0 ? `ends in ${span(value)}` : `ended ${span(value)} ago`,
      ]);
    }
  }
  $("keys").replaceChildren(table(["Name", "State", "Last proof, or end"], rows));
}

const outcomes = { granted: "good", refused: "bad", limited: "warn", explained: "" };

function showRecords() {
  const words = $("audit-filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = records.filter((record) => {
    const text = JSON.stringify(record).toLowerCase();
    return words.every((word) => text.includes(word));
  });
  $("audit").replaceChildren(rows.length === 0
    ? empty(records.length ? "No record matches the filter." : "No record yet.")
    : table(["Time", "Outcome", "Client", "Address", "Request", "More"], rows.map(row)));
}

function row(r) {
  const outcome = r["audit.outcome"] ?? r["audit.event"];
  const token = r["token.sha256"];
  const more = [
    r["audit.reason"],
    r["request.origin"],
    token && `token ${token.slice(0, 12)}… for ${r["token.origins"]?.join(", ") || "any origin"}`,
    r["key.id"] && `key ${r["key.id"]}`,
  ];
  return [
    h("time", { datetime: r.time }, new Date(r.time).toLocaleTimeString()),
    h("span", { class: `pill ${outcomes[outcome] ?? ""}` }, outcome),
    r["client.id"] === "-" ? "unknown" : r["client.id"],
    r["client.address"],
    h("code", {}, r["http.route"]),
    h("span", { class: "wide" }, more.filter(Boolean).join(" · ")),
  ];
}
