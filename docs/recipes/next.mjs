// app/api/search/route.js of Next.js, which runs on the server only: no browser gets the API key or the token.
// Beside it: curl -O https://tokens.example.com/musickit-token.js
// The client's settings: { id: "backend", apiKey: { sha256: "<from new-api-key>" } }
import { DeveloperTokens } from "./musickit-token.js";

// In development each change of a file runs it again; the global object keeps the token.
const tokens = globalThis.developerTokens ??= new DeveloperTokens({
  url: "https://tokens.example.com/token",
  headers: () => ({ Authorization: `Bearer ${process.env.MUSICKIT_API_KEY}` }),
});

export const dynamic = "force-dynamic";

export async function GET(request) {
  try {
    const query = new URLSearchParams({ term: new URL(request.url).searchParams.get("term") ?? "", types: "songs" });
    const found = await fetch(`https://api.music.apple.com/v1/catalog/us/search?${query}`, {
      headers: { Authorization: `Bearer ${await tokens.get()}` },
    });
    return Response.json(await found.json(), { status: found.status });
  } catch (error) {
    console.error(error.message);  // says what is wrong
    return Response.json({ error: "No music at present." }, { status: 502 });
  }
}
