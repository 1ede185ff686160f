import JSON
import TestSupport
import Testing

/// The page of a server with clients, and in states of failure.
@Suite("The page of a server")
struct ServerPageTests {
  private static let pages = ["SERVER_PAGE": "true", "ADMIN_PAGE": "true"]

  private static func serve(_ more: String = "", _ settings: [String: String] = [:]) throws -> AccessGround {
    try AccessGround(more, pages.merging(settings) { $1 })
  }

  private static let enterKey = "await type('#credential', '\(AccessGround.android)');\n"

  @Test("asks for a credential, and has what its client may have")
  func credential() throws {
    let ground = try Self.serve()
    let view = try PageVisit.text(
      ground.server.url,
      """
      await click("#token-form button");
      await shows("#token-problem", "Enter your API key or JSON Web Token above.");
      await type("#pasted", "a.b.c");
      await until(() => find("#verdict .problem"));
      \(Self.enterKey)
      await click("#token-form button");
      await shows("#verdict", "A valid token of this server");
      const lifetime = find(".life .track").getAttribute("aria-label");
      await click("#tab-access");
      await click("#ask");
      await shows("#decision", "With your credential.");
      return lifetime + text("#decision") + text("#snippet");
      """)
    #expect(view?.contains("of 2 h") == true && view?.contains("Allowed") == true, "\(view ?? "")")
    #expect(view?.contains("musickit-token.js") == true && view?.contains(AccessGround.android) == false)
  }

  @Test("asks for no credential in vain: an invalid one is refused")
  func refused() throws {
    let ground = try Self.serve()
    let view = try PageVisit.text(
      ground.server.url,
      """
      await type("#credential", "wrong");
      await click("#token-form button");
      await shows("#token-problem", "The credential is not valid");
      return text("#token-problem");
      """)
    #expect(view?.contains("401") == true && view?.contains("invalid_credentials") == true)
  }

  @Test("says when the caller sends too many requests")
  func limited() throws {
    let key = "limited-key-of-the-test"
    let hash = try AccessGround.sha256(key)
    let more = "{ id: 'limited', apiKey: { sha256: '\(hash)' }, rateLimit: { perSecond: 0.01, burst: 1 } }"
    let ground = try Self.serve(more)
    let view = try PageVisit.text(
      ground.server.url,
      """
      await type("#credential", "\(key)");
      await click("#tab-access");
      await click("#ask");
      await shows("#decision", "Allowed");
      await click("#ask");
      await shows("#decision", "Too many requests");
      return text("#decision");
      """)
    #expect(view?.contains("429") == true && view?.contains("try again in") == true, "\(view ?? "")")
  }

  @Test("says that Apple cannot be reached")
  func noUpstream() throws {
    let ground = try Self.serve("", ["CATALOG_UPSTREAM": "http://127.0.0.1:1"])
    let view = try PageVisit.text(
      "\(ground.server.url)/#catalog",
      """
      \(Self.enterKey)
      await type("#term", "khalid");
      await press("Enter");
      await shows("#results", "Apple Music cannot be reached");
      await shows("#costs", "Failed");
      return text("#results");
      """)
    #expect(view?.contains("upstream_error") == true && view?.contains("Proxy-Status") == true, "\(view ?? "")")
  }

  @Test("says that the server does not respond, and goes on when it does")
  func noServer() throws {
    let ground = try Ground()
    let server = try ground.serve(Self.pages)
    let script = """
      await click("#token-form button");
      await shows("#verdict", "A valid token");
      await browser("Network.enable");
      await browser("Network.emulateNetworkConditions", { offline: true, latency: 0, downloadThroughput: -1, uploadThroughput: -1 });
      await click("#token-form button");
      await shows("#token-problem", "The server does not respond");
      await browser("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: -1 });
      await click("#token-form button");
      await until(() => text("#token-problem") === "");
      return "well";
      """
    #expect(try PageVisit.text(server.url, script) == "well")
  }

  @Test("loads MusicKit JS only after a click, and signs a user in")
  func musicKit() throws {
    let ground = try CatalogGround(CatalogGround.forEverybody.merging(Self.pages) { $1 })
    let page = "http://localhost:\(ground.server.port)"
    let view = try PageVisit.text(
      "\(page)/#user",
      """
      const before = document.querySelectorAll("script[src*='apple.com']").length;
      await click("#sign-in button");
      await shows("#sign-in", "MusicKit JS is ready");
      await click("#sign-in button");
      await shows("#sign-in", "Signed in");
      const masked = text("#sign-in code");
      await click("#me-send");
      await until(() => text("#me-result") !== "");
      return before + " " + masked + " " + violations.join() + " " + text("#me-result");
      """)
    // The emulator does not know this user. For this client the server makes no token for an origin.
    #expect(view?.hasPrefix("0 user-of…") == true, "\(view ?? "")")
    #expect(view?.contains("src") == false && view?.contains("request ") == true, "\(view ?? "")")
  }

  @Test("explains each client's access on the admin listener, with code for it")
  func explanations() throws {
    let ground = try Self.serve()
    let admin = try #require(ground.server.adminURL)
    let view = try PageVisit.run(
      "\(admin)/#access",
      """
      await shows("#decision", "Refused");
      await choose("#client", "web");
      await shows("#decision", "As client web.");
      const web = [find("#access-origin").value, text("#decision")];
      await choose("#client", "studio");
      await choose("#access-origin", "");
      await shows("#decision", "Refused");
      const studio = text("#decision");
      await choose("#client", "android");
      await shows("#decision", "As client android.");
      await type("#server", "https://tokens.example.com/");
      const app = find("#languages button:nth-child(2)");
      await click(app);
      await shows("#snippet", "https://tokens.example.com/token");
      const warning = text("#caution");
      await click("#languages button:last-child");
      await shows("#snippet", "curl");
      return [...web, studio, warning, text("#snippet")];
      """)
    let parts = view.strings ?? []
    #expect(parts.first == "https://app.example.com" && parts.count == 5, "\(view)")
    #expect(parts.dropFirst().first?.contains("Access-Control-Allow-Origin") == true)
    #expect(parts.last?.contains("'https://tokens.example.com/token'") == true)
    #expect(parts.last?.contains("Authorization: Bearer $MUSICKIT_API_KEY") == true, "\(parts)")
    #expect(parts.dropFirst(3).first?.contains("An app cannot keep an API key") == true, "\(parts)")
  }
}
