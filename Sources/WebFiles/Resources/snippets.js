// Code for a client, with this server's address.

/** @typedef {{ kind: string, base: string, path: string, origin: string }} Case */

/** The names of the credentials in the code. */
const secrets = { apiKey: "API_KEY", jwt: "ID_TOKEN" };

/** The snippets, each by its language. @type {Record<string, (c: Case) => string>} */
export const languages = {
  "JavaScript": (c) => (c.path === "/token" ? page(c) : script(c)),

  "Swift": (c) => `import Foundation

var request = URLRequest(url: URL(string: "${c.base}${c.path}")!)${
    fields(c, (name, value) => `\nrequest.setValue("${named(value, "\\($1)")}", forHTTPHeaderField: "${name}")`)}
let (data, response) = try await URLSession.shared.data(for: request)
guard (response as? HTTPURLResponse)?.statusCode == 200 else {
  throw URLError(.badServerResponse, userInfo: ["body": String(decoding: data, as: UTF8.self)])
}${isToken(c, `
struct Token: Decodable { let token: String; let refreshAfter: Int }
let token = try JSONDecoder().decode(Token.self, from: data)`)}`,

  "Kotlin": (c) => `import java.net.HttpURLConnection
import java.net.URL

val connection = URL("${c.base}${c.path}").openConnection() as HttpURLConnection${
    fields(c, (name, value) => `\nconnection.setRequestProperty("${name}", "${named(value, "$$$1")}")`)}
check(connection.responseCode == 200) { connection.errorStream?.bufferedReader()?.readText().orEmpty() }
val json = connection.inputStream.bufferedReader().readText()${isToken(c, `
val token = org.json.JSONObject(json).getString("token")`)}`,

  "Python": (c) => `import json
import urllib.request

request = urllib.request.Request("${c.base}${c.path}")${
    fields(c, (name, value) => `\nrequest.add_header("${name}", ${value.includes("{") ? "f" : ""}"${value}")`)}
with urllib.request.urlopen(request) as response:
    ${c.path === "/token" ? `token = json.load(response)["token"]` : "document = json.load(response)"}`,

  "curl": (c) => `curl --fail-with-body -sS${c.kind === "certificate" ? " --cert client.pem --key client.key" : ""}${
    fields(c, (name, value) => ` \\\n  -H "${name}: ${named(value, "$$$1")}"`)} \\
  '${c.base}${c.path}'`,
};

const page = (c) => `<script src="https://js-cdn.music.apple.com/musickit/v3/musickit.js" async></script>
<script>
  document.addEventListener("musickitloaded", async () => {
    const response = await fetch("${c.base}/token"${options(c)});
    if (!response.ok) throw new Error(await response.text());
    const { token } = await response.json();
    await MusicKit.configure({ developerToken: token, app: { name: "My App", build: "1.0" } });
  });
</script>`;

const script = (c) => `const response = await fetch("${c.base}${c.path}"${options(c)});
if (!response.ok) throw new Error(await response.text());
const document = await response.json();`;

const isToken = (c, code) => (c.path === "/token" ? code : "");

/** The second argument of fetch(). A browser writes the origin itself. */
function options(c) {
  const lines = [];
  fields({ ...c, kind: c.kind === "origin" ? "" : c.kind }, (name, value) => {
    lines.push(`${JSON.stringify(name)}: \`${named(value, "$${$1}")}\``);
    return "";
  });
  return lines.length ? `, { headers: { ${lines.join(", ")} } }` : "";
}

/** The code for each field of the request. In a value, a name in braces stands for a secret. */
function fields(c, line) {
  const all = [];
  if (secrets[c.kind]) all.push(line("Authorization", `Bearer {${secrets[c.kind]}}`));
  if (c.path.startsWith("/v1/me")) all.push(line("Music-User-Token", "{MUSIC_USER_TOKEN}"));
  if (c.origin && c.kind === "origin") all.push(line("Origin", c.origin));
  return all.join("");
}

/** Writes the names in braces as a language does. */
const named = (value, form) => value.replace(/\{(.*)\}/, form);

/**
 * A sentence about what a client must know, or nothing.
 * @param {string} language
 * @param {Case} c
 */
export function caution(language, c) {
  if (c.kind === "origin" && language !== "JavaScript") {
    return "This client is known by the origin of its pages. Programs can send any Origin, so give them an API key.";
  }
  if (language === "JavaScript" && c.kind === "apiKey") return "Everybody who opens the page can read its API key.";
  if (c.kind === "certificate" && language !== "curl") return "The program also has to present its client certificate.";
  return "";
}
