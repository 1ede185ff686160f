// The panel for operators: metrics as charts, clients, keys, and the last audit records.
import { $, h, moment, span, svg } from "./dom.js";
import { notice, send } from "./api.js";

/** Time between two looks, in ms, and how many the charts show: four minutes. */
const interval = 2000;
const shown = 120;
/** The looks for which a chart has room at first, so that its line is long enough to see. */
const fewest = 30;

/** @typedef {Map<string, { labels: Record<string, string>, value: number }[]>} Metrics */

/** @type {{ at: number, metrics: Metrics }[]} */
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
    const [metrics, audit] = await Promise.all(
      [send("/metrics", { isOwn: true }), send("/page/audit", { isOwn: true })],
    );
    if (metrics.ok) {
      looks.push({ at: performance.now(), metrics: parse(metrics.text) });
      if (looks.length > shown + 1) looks.shift();
      draw();
    }
    if (audit.ok) {
      records = audit.json.records;
      showRecords();
    }
    $("live-problem").replaceChildren(
      ...(metrics.ok ? [] : [notice("The admin listener does not respond", "The charts continue when it does.")]),
    );
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

const latest = () => looks[looks.length - 1].metrics;
const last = (list) => list[list.length - 1] ?? 0;
const number = (value) => value >= 100 ? String(Math.round(value)) : String(Math.round(value * 10) / 10);

const requests = (m) => sum(m, "musickit_http_requests_total");
const tokens = (m) => sum(m, "musickit_http_requests_total", ({ route, code }) => route === "/token" && code === "200");
const refusals = (m) => sum(m, "musickit_http_requests_total", ({ code }) => code === "429");
const hits = (m) => sum(m, "musickit_cache_hits_total") + sum(m, "musickit_cache_collapsed_total");
const misses = (m) => sum(m, "musickit_cache_misses_total");
const decisions = (word) => (m) => sum(m, "musickit_access_decisions_total", ({ outcome }) => outcome === word);
const attempts = (m) => sum(m, "musickit_upstream_attempts_total");

const waiting = (m) => sum(m, "musickit_upstream_requests_waiting");
const limited = (m) => sum(m, "musickit_upstream_rate_limited_total");

/** `lines` has the values to draw, the first of which is the number beside it; `also` is the sentence below. */
const charts = [
  {
    title: "Requests",
    unit: "a second",
    lines: () => [rates(requests)],
    also: () => `${requests(latest())} since the start`,
  },
  {
    title: "Tokens given",
    unit: "a second",
    lines: () => [rates(tokens)],
    also: () => `${tokens(latest())} since the start`,
  },
  {
    title: "Cache hits",
    unit: "%",
    lines: () => [ratios()],
    value: () => ratio(),
    top: 100,
    also: () => `${hits(latest())} of ${hits(latest()) + misses(latest())} requests`,
  },
  {
    title: "Requests to Apple",
    unit: "a second",
    lines: () => [rates(attempts), looks.slice(1).map(({ metrics }) => waiting(metrics))],
    also: () => `${waiting(latest())} wait · ${pace(sum(latest(), "musickit_upstream_rate"))}`,
  },
  {
    title: "429 responses",
    unit: "a second",
    lines: () => [rates(refusals), rates(limited)],
    also: () => `${refusals(latest())} to callers, ${limited(latest())} by Apple`,
  },
  {
    title: "Decisions",
    unit: "granted a second",
    lines: () => ["granted", "refused", "limited"].map((word) => rates(decisions(word))),
    also: () => ["granted", "refused", "limited"].map((word) => `${decisions(word)(latest())} ${word}`).join(", "),
  },
];

const pace = (rate) => (rate ? `pace ${number(rate)} a second` : "no limit known");

/** The part of hits in all, in percent, at each look since the first. */
function ratios() {
  return looks.map(({ metrics }) => {
    const all = hits(metrics) + misses(metrics);
    return all ? (100 * hits(metrics)) / all : 0;
  });
}

function ratio() {
  return hits(latest()) + misses(latest()) ? number(last(ratios())) : "–";
}

function frame({ title, unit }) {
  return h(
    "figure",
    { class: "card chart", "aria-label": title },
    h("figcaption", {}, h("h3", {}, title)),
    h("p", { class: "value" }, h("span", {}, "–"), " ", h("small", {}, unit)),
    svg("svg", { viewBox: `0 0 ${shown} 40`, preserveAspectRatio: "none", "aria-hidden": "true" }),
    h("p", { class: "also" }),
  );
}

function draw() {
  charts.forEach((chart, index) => {
    const element = $("charts").children[index];
    const lines = chart.lines();
    element.querySelector(".value span").textContent = chart.value?.() ?? number(last(lines[0]));
    element.querySelector(".also").textContent = chart.also();
    const width = Math.max(fewest, lines[0].length - 1);
    const top = chart.top ?? Math.max(1, ...lines.flat()) * 1.15;
    element.querySelector("svg").setAttribute("viewBox", `0 0 ${width} 40`);
    element.querySelector("svg").replaceChildren(...lines.flatMap((line, i) => {
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

function table(head, rows, kind = "") {
  return h(
    "table",
    {},
    h("thead", {}, h("tr", {}, ...head.map((name, i) => h("th", { scope: "col", class: i ? kind : "" }, name)))),
    h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((cell, i) => h("td", { class: i ? kind : "" }, cell))))),
  );
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
  const rows = [...counts].map(
    ([id, c]) => [
      h("div", {}, id === "-" ? "unknown" : id, mix([c.granted, c.refused, c.limited])),
      c.granted,
      c.refused,
      c.limited,
    ],
  );
  $("clients").replaceChildren(
    rows.length
      ? table(["Client", "Granted", "Refused", "Limited"], rows, "n")
      : h("p", { class: "empty" }, "No caller yet."),
  );
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
  const certificates = [
    ["musickit_tls_certificate_remaining_seconds", "Certificate"],
    ["musickit_tls_client_ca_remaining_seconds", "Client CAs"],
  ];
  for (const [name, title] of certificates) {
    for (const { labels, value } of m.get(name) ?? []) {
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
  if (rows.length === 0) {
    return $("audit").replaceChildren(
      h("p", { class: "empty" }, records.length ? "No record matches the filter." : "No record yet."),
    );
  }
  const head = ["Time", "Outcome", "Client", "Address", "Request", "More"];
  $("audit").replaceChildren(
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, ...head.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, ...rows.map(row)),
    ),
  );
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
  return h(
    "tr",
    {},
    h("td", {}, h("time", { datetime: r.time }, new Date(r.time).toLocaleTimeString())),
    h("td", {}, h("span", { class: `pill ${outcomes[outcome] ?? ""}` }, outcome)),
    h("td", {}, r["client.id"] === "-" ? "unknown" : r["client.id"]),
    h("td", {}, r["client.address"]),
    h("td", {}, h("code", {}, r["http.route"])),
    h("td", { class: "wide" }, more.filter(Boolean).join(" · ")),
  );
}
