// A server with Express. Beside this file: curl -O https://tokens.example.com/musickit-token.js; npm install express
// The client's settings: { id: "backend", apiKey: { sha256: "<from new-api-key>" } }
import express from "express";
import { DeveloperTokens } from "./musickit-token.js";

const tokens = new DeveloperTokens({
  url: "https://tokens.example.com/token",
  headers: () => ({ Authorization: `Bearer ${process.env.MUSICKIT_API_KEY}` }),
});

const app = express();
app.get("/search", async (request, response) => {
  try {
    const query = new URLSearchParams({ term: request.query.term ?? "", types: "songs" });
    const found = await fetch(`https://api.music.apple.com/v1/catalog/us/search?${query}`, {
      headers: { Authorization: `Bearer ${await tokens.get()}` },
    });
    response.status(found.status).json(await found.json());
  } catch (error) {
    console.error(error.message);  // says what is wrong
    response.status(502).json({ error: "No music at present." });
  }
});
app.listen(process.env.PORT ?? 3000);
