// Code for a client, with this server's address.

/** @typedef {{ kind: string, base: string, path: string, origin: string }} Case */

const header = { apiKey: "Authorization", jwt: "Authorization" };
const secret = { apiKey: "API_KEY", jwt: "ID_TOKEN" };

/** The snippets, each by its language. @type {Record<string, (c: Case) => string>} */
export const languages = {
  "JavaScript": (c) => c.path === "/token"
    ? `<script src="https://js-cdn.music.apple.com/musickit/v3/musickit.js" async></script>
<script>
  document.addEventListener("musickitloaded", async () => {
    const response = await fetch("${c.base}/token"${options(c)});
    if (!response.ok) throw new Error(await response.text());
    const { token } = await response.json();
    await MusicKit.configure({ developerToken: token, app: { name: "My App", build: "1.0" } });
  });
</script>`
    : `const response = await fetch("${c.base}${c.path}"${options(c)});
if (!response.ok) throw new Error(await response.text());
const document = await response.json();`,

  "Swift": (c) => `import Foundation

var request = URLRequest(url: URL(string: "${c.base}${c.path}")!)${field(c, (n, v) => `\nrequest.setValue("${v.replace(/\{(.*)\}/, "\\($1)")}", forHTTPHeaderField: "${n}")`)}
let (data, response) = try await URLSession.shared.data(for: request)
guard (response as? HTTPURLResponse)?.statusCode == 200 else {
  throw URLError(.badServerResponse, userInfo: ["body": String(decoding: data, as: UTF8.self)])
}${c.path === "/token" ? `
struct Token: Decodable { let token: String; let refreshAfter: Int }
let token = try JSONDecoder().decode(Token.self, from: data)` : ""}`,

  "Kotlin": (c) => `import java.net.HttpURLConnection
import java.net.URL

val connection = URL("${c.base}${c.path}").openConnection() as HttpURLConnection${field(c, (n, v) => `\nconnection.setRequestProperty("${n}", "${v.replace(/\{(.*)\}/, "$$$1")}")`)}
check(connection.responseCode == 200) { connection.errorStream?.bufferedReader()?.readText().orEmpty() }
val json = connection.inputStream.bufferedReader().readText()${c.path === "/token" ? `
val token = org.json.JSONObject(json).getString("token")` : ""}`,

  "Python": (c) => `import json
import urllib.request

request = urllib.request.Request("${c.base}${c.path}")${field(c, (n, v) => `\nrequest.add_header("${n}", ${v.includes("{") ? "f" : ""}"${v}")`)}
with urllib.request.urlopen(request) as response:
    ${c.path === "/token" ? `token = json.load(response)["token"]` : `document = json.load(response)`}`,

  "curl": (c) => `curl --fail-with-body -sS${c.kind === "certificate" ? " --cert client.pem --key client.key" : ""}${field(c, (n, v) => ` \\\n  -H "${n}: ${v.replace(/\{(.*)\}/, "$$$1")}"`)} \\\n  '${c.base}${c.path}'`,
};

function options(c) {
  const name = secret[c.kind];
  return name ? `, { headers: { Authorization: \`Bearer \${${name}}\` } }` : "";
}

/** The line of code for the credential; for a client that its origin identifies, the field that a browser sends. */
function field(c, line) {
  const parts = [];
  if (header[c.kind]) parts.push(line("Authorization", `Bearer {${secret[c.kind]}}`));
  if (c.path.startsWith("/v1/me")) parts.push(line("Music-User-Token", "{MUSIC_USER_TOKEN}"));
  if (c.origin && c.kind === "origin") parts.push(line("Origin", c.origin));
  return parts.join("");
}

/** A sentence about what a language cannot do for the client; nothing if it can. @param {string} language @param {Case} c */
export function caution(language, c) {
  if (c.kind === "origin" && language !== "JavaScript") {
    return "This client is known by the origin of its pages. Programs can send any Origin, so give them an API key.";
  }
  if (language === "JavaScript" && c.kind === "apiKey") return "Everybody who opens the page can read its API key.";
  if (c.kind === "certificate" && language !== "curl") return "The program also has to present its client certificate.";
  return "";
}
