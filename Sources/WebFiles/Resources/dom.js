// Elements without markup in strings: all text from outside becomes text nodes.

/** @param {string} id @returns {any} */
export const $ = (id) => document.getElementById(id);

/**
 * Makes an element.
 * @param {string} tag
 * @param {Record<string, any>} [properties] `class`, attributes, and `on…` listeners
 * @param {...(Node | string | number | null | undefined | false)} children
 * @returns {any}
 */
export function h(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** Makes an element of SVG. @type {typeof h} */
export function svg(tag, properties = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) {
    if (child !== undefined && child !== null && child !== false) element.append(child);
  }
  return element;
}

/** What is there before anything else. @param {string} text */
export const empty = (text) => h("p", { class: "empty" }, text);

/** @param {string} text */
export const soft = (text) => h("p", { class: "soft" }, text);

/** A button in a form that it does not submit. @param {string} text @param {(event: any) => void} onclick */
export const button = (text, onclick, kind = undefined) => h("button", { type: "button", class: kind, onclick }, text);

/** A verdict, with the mark of `tick`. @param {string} title @param {string} detail */
export function headline(kind, meaning, title, detail) {
  return h("div", { class: "headline" }, tick(kind, meaning),
    h("div", {}, h("h2", {}, title), detail && h("p", {}, detail)));
}

/** The values that are there, as code. @param {[string, any][]} rows */
export const facts = (rows) => h("dl", { class: "facts" }, ...rows.flatMap(
  ([name, value]) => value ? [h("dt", {}, name), h("dd", {}, h("code", {}, value))] : []));

/** The fields that are there. @param {[string, any][]} rows */
export const fields = (rows) => h("dl", { class: "fields" }, ...rows.flatMap(
  ([name, value]) => value ? [h("div", {}, h("dt", {}, name), h("dd", {}, value))] : []));

/** @param {string} title */
export const group = (title, ...nodes) => h("div", { class: "group" }, h("h3", {}, title), ...nodes);

/** Says a sentence to screen readers. @param {string} text */
export function announce(text) {
  $("announcer").textContent = text;
}

/** Copies text and says so on the button. @param {HTMLElement} button @param {string} text */
export async function copy(button, text) {
  const label = button.dataset.label ??= button.textContent ?? "";
  let isCopied = true;
  try {
    if (navigator.clipboard) await navigator.clipboard.writeText(text);
    else isCopied = copyBySelection(text);
  } catch { isCopied = copyBySelection(text); }
  button.textContent = isCopied ? "Copied" : "Copy failed";
  announce(button.textContent);
  setTimeout(() => { button.textContent = label; }, 1500);
}

/** For pages over plain HTTP, which have no clipboard. */
function copyBySelection(text) {
  const area = h("textarea", { class: "visually-hidden" });
  area.value = text;
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  return isCopied;
}

/** A mark with its meaning for screen readers. @param {"good" | "bad" | "warn" | ""} kind @param {string} meaning */
export function tick(kind, meaning) {
  const sign = { good: "✓", bad: "✕", warn: "!", "": "?" }[kind];
  return h("span", { class: `tick ${kind}`, role: "img", "aria-label": meaning }, sign);
}

/** @param {number} seconds @returns {string} `12 h`, `3 days` */
export function span(seconds) {
  const whole = Math.abs(Math.round(seconds));
  if (whole < 120) return `${whole} s`;
  if (whole < 7200) return `${Math.round(whole / 60)} min`;
  if (whole < 172800) return `${Math.round(whole / 360) / 10} h`.replace(".0 ", " ");
  return `${Math.round(whole / 86400)} days`;
}

/** @param {number} seconds since 1970 */
export function moment(seconds) {
  const date = new Date(seconds * 1000);
  if (Number.isNaN(date.getTime())) return "never";
  return date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

/** @param {number} bytes */
export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1e6 ? `${(bytes / 1000).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
