// Code for a client: the recipes of docs/clients.md, with this server's address and what the client's credential needs.
import { send } from "./api.js";

/** @typedef {{ kind: string, base: string, path: string, origin: string, demo: boolean }} Case */

const app = "An app cannot keep an API key: a person can read it in the app. "
  + "Give the app a client with jwt, for Firebase App Check or for your users’ sign-in; this code sends such a token.";
const appOrigin = "This client is for web pages, and an app sends no Origin. "
  + "Give the app a client with jwt, for Firebase App Check or for your users’ sign-in; this code sends such a token.";
const serverOrigin = "This client is for web pages, and any program can send its Origin. Give a program an API key.";

/** Each recipe: its name, its file, what it is, and a warning for each kind of credential that does not fit. */
const recipes = [
  { name: "Web page", file: "page.html", cautions: {
    apiKey: "Everybody who opens a page can read its API key. Give pages a client with origins: this code needs no key.",
    certificate: "A page cannot choose a client certificate. Give pages a client with origins: this code needs no more.",
  } },
  { name: "iOS", file: "recipe.swift", cautions: { apiKey: app, origin: appOrigin } },
  { name: "MusicKit for Swift", file: "musickit.swift", cautions: { apiKey: app, origin: appOrigin } },
  { name: "Android", file: "recipe.kt", cautions: { apiKey: app, origin: appOrigin } },
  ...[
    ["Node", "node.mjs"], ["Next.js", "next.mjs"], ["Go", "recipe.go"], ["PHP", "recipe.php"], ["Python", "recipe.py"],
    ["Shell", "recipe.sh"],
  ].map(([name, file]) => ({ name, file, isServer: true, cautions: { origin: serverOrigin } })),
  { name: "This request", isServer: true, cautions: { origin: serverOrigin } },
];

/** The names, in the order of the buttons. */
export const languages = recipes.map(({ name }) => name);

const of = (language) => recipes.find(({ name }) => name === language);

/** Where the recipe is a file; undefined if it is none. @param {string} language */
export const address = (language) => of(language).file && `/page/recipes/${of(language).file}`;

/**
 * The code, or undefined if the server does not respond.
 * @param {string} language
 * @param {Case} c
 * @returns {Promise<string | undefined>}
 */
export async function code(language, c) {
  const from = address(language);
  if (!from) return curl(c);
  const result = await send(from, { isOwn: true });
  if (!result.ok) return undefined;
  const text = result.text.replaceAll("https://tokens.example.com", c.base).trimEnd();
  if (language !== "Web page" || c.kind !== "jwt") return text;
  return text.replace("DeveloperTokens()", "DeveloperTokens({\n    "
    + "headers: async () => ({ Authorization: `Bearer ${await tokenOfTheUser()}` }),  // of your sign-in\n  })");
}

/**
 * What a client must know, or nothing.
 * @param {string} language
 * @param {Case} c
 */
export function caution(language, c) {
  const { isServer, cautions } = of(language);
  if (cautions[c.kind]) return cautions[c.kind];
  if (c.kind === "certificate" && language !== "This request") {
    return "The program also has to present its client certificate, in place of the Authorization field.";
  }
  if (!isServer) return "";
  if (c.demo) return "The demo needs no credential, and ignores the one in this code: MUSICKIT_API_KEY may be any word.";
  if (c.kind === "anonymous") return "This server also serves callers without a credential, by its access.anonymous.";
  return c.kind === "jwt" ? "Send the JWT of your identity provider in place of the API key." : "";
}

/** The chosen request, for a shell. */
function curl(c) {
  const fields = [
    { apiKey: "Authorization: Bearer $MUSICKIT_API_KEY", jwt: "Authorization: Bearer $ID_TOKEN" }[c.kind],
    c.path.startsWith("/v1/me") && "Music-User-Token: $MUSIC_USER_TOKEN",
    c.origin && c.kind === "origin" && `Origin: ${c.origin}`,
  ].filter(Boolean);
  const certificate = c.kind === "certificate" ? " --cert client.pem --key client.key" : "";
  return `curl --fail-with-body -sS${certificate}${fields.map((field) => ` \\\n  -H "${field}"`).join("")} \\
  '${c.base}${c.path.replaceAll("'", "%27")}'`;
}
