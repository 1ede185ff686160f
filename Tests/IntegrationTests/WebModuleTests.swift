import TestSupport
import Testing

/// The module of `WebModule`, as a server gives it to a page, with tokens of this server.
@Suite("The module for web apps, from a server,")
struct WebModuleTests {
  private static let app = "https://app.example.com"
  private static let page = ["SERVER_PAGE": "true"]

  /// The settings of a server whose only client is the app, with more members.
  private static func client(_ more: String) -> [String: String] {
    page.merging(["ACCESS_CLIENTS": "[{ id: 'web', origins: ['\(app)']\(more) }]"]) { $1 }
  }

  @Test(
    "is the same for all origins, and exists with server.page or server.module only",
    arguments: ["musickit-token.js", "musickit-token.d.ts"])
  func file(name: String) throws {
    let server = try AccessGround("", ["SERVER_MODULE": "true"]).server
    #expect(try server.request("/").status == 404 && server.request("/page/page.js").status == 404)
    #expect(try AccessGround("", Self.page).server.request("/\(name)").status == 200)
    let content = Array(try TextFile.read("\(Repository.path)/Sources/WebFiles/Module/\(name)").utf8)
    let type = name.hasSuffix(".js") ? "text/javascript; charset=utf-8" : "text/plain; charset=utf-8"
    for origin in [nil, Self.app, "https://evil.example", "null"] {
      let response = try server.request("/\(name)", "--compressed", "-H", "Origin:\(origin.map { " \($0)" } ?? "")")
      #expect(response.status == 200 && response.body == content && response["Content-Type"] == type)
      #expect(response["Access-Control-Allow-Origin"] == "*" && response["Vary"] == "Accept-Encoding")
      #expect(
        response["Cross-Origin-Resource-Policy"] == "cross-origin" && response["X-Content-Type-Options"] == "nosniff")
      #expect(response["Content-Encoding"] == "gzip" && response["Set-Cookie"] == nil)
    }
    #expect(try server.admin("/\(name)").status == 404)
    #expect(try AccessGround().server.request("/\(name)").status == 404)
  }

  @Test("has an address that caches may keep, for this version only")
  func versions() throws {
    let server = try AccessGround("", Self.page).server
    let version = try Program.run(["--version"]).stdout.split(separator: " ")[0]
    let current = try server.request("/musickit-token.js")
    #expect(String(decoding: current.body, as: UTF8.self).contains("export const version = \"\(version)\";"))
    #expect(current["Cache-Control"] == "no-cache")
    let versioned = try server.request("/musickit-token.js?v=\(version)")
    #expect(versioned["Cache-Control"] == "public, max-age=31536000, immutable")
    #expect(versioned.body == current.body && versioned["ETag"] == current["ETag"])
    for query in ["", "v=", "v=0.0.1", "v=\(version)x", "v=\(version)&x=1", "w=\(version)"] {
      #expect(try server.request("/musickit-token.js?\(query)")["Cache-Control"] == "no-cache", "\(query)")
    }
    let tag = try #require(current["ETag"])
    for target in ["/musickit-token.js", "/musickit-token.js?v=\(version)"] {
      let again = try server.request(target, "-H", "If-None-Match: \(tag)", "-H", "Origin: \(Self.app)")
      #expect(again.status == 304 && again["Access-Control-Allow-Origin"] == "*", "\(target)")
    }
  }

  @Test("gets a page of a listed origin one token for all callers, for MusicKit JS too")
  func token() throws {
    let ground = try AccessGround("", Self.page)
    try WebModule.run(
      from: ground.server.url,
      """
      const tokens = new DeveloperTokens();
      const [one, other] = await Promise.all([tokens.get(), tokens.get()]);
      const claims = JSON.parse(atob(one.split(".")[1].replaceAll("-", "+").replaceAll("_", "/")));
      same([claims.origin, one === other], [["\(Self.app)"], true]);
      window.MusicKit = { configure: async (configuration) => Object.assign(new EventTarget(), configuration) };
      const music = await tokens.configureMusicKit({ app: { name: "My App", build: "1.0" } });
      same([music.developerToken === one, said], [true, []]);
      """)
    ground.server.stop()
    #expect(ground.auditLines.count { $0.client == "web" } == 1)
  }

  @Test("leaves no token in storage, address, console, or any public member of its objects")
  func secrecy() throws {
    let ground = try AccessGround("", Self.page)
    try WebModule.run(
      from: ground.server.url,
      """
      indexedDB.open = caches.open = () => said.push("stored");
      const tokens = new DeveloperTokens();
      let told;
      tokens.subscribe((token) => { told = token; });
      const token = await tokens.get();
      await tokens.refresh();
      const addresses = performance.getEntriesByType("resource").map(({ name }) => name);
      same(addresses.filter((name) => name.endsWith("/token")).length, 2);
      const places = [
        ...addresses, location.href, document.cookie, document.documentElement.outerHTML, ...said.map(String),
        ...Object.values(localStorage), ...Object.values(sessionStorage), JSON.stringify(tokens),
        ...Object.keys(window).map((name) => String(window[name])),
      ];
      same([told === token, places.filter((place) => place.includes(token.split(".")[2]))], [true, []]);
      same([localStorage.length, sessionStorage.length, said], [0, 0, []]);
      """)
  }

  @Test("uses POST on the server's own origin")
  func sameOrigin() throws {
    let port = UpstreamGround.fixedPort
    let origin = "http://localhost:\(port)"
    let settings = [
      "ACCESS_CLIENTS": "[{ id: 'own', origins: ['\(origin)'] }]", "ACCESS_ANONYMOUS": "", "SERVER_PORT": "\(port)",
    ]
    let server = try Ground().serve(settings.merging(Self.page) { $1 })
    try WebModule.run(
      at: "\(origin)/healthz", from: origin,
      "same((await new DeveloperTokens().get()).split(\".\").length, 3);")
    server.stop()
    #expect(server.auditLines.map(\.client) == ["own"])
  }

  @Test("says in plain words that a credential is wrong, and sends no second request by itself")
  func wrongCredential() throws {
    let ground = try AccessGround("", Self.page)
    try WebModule.run(
      from: ground.server.url,
      """
      const tokens = new DeveloperTokens({ headers: { Authorization: "Bearer wrong" } });
      const error = await failure(tokens.get());
      same([error.name, error.status, error.code, error.final], ["TokenError", 401, "invalid_credentials", true]);
      same([error.requestId.length > 0, error.message.includes(error.detail)], [true, true]);
      same(error.message.endsWith(`(401 invalid_credentials, request ${error.requestId})`), true);
      same(await failure(tokens.get()) === error, true);
      """)
    ground.server.stop()
    #expect(ground.auditLines.filter { $0.reason != nil }.count == 1)
  }

  @Test("can be loaded by a page of any origin, which gets no token and learns the possible reasons")
  func foreign() throws {
    let ground = try AccessGround("", Self.page)
    try WebModule.run(
      at: "https://evil.example", from: ground.server.url,
      """
      const error = await failure(new DeveloperTokens().get());
      const place = "\(ground.server.url)/token";
      same(error.message, `${place} cannot be reached, or does not allow pages of https://evil.example.`);
      same([error.status, error.final, said], [undefined, false, []]);
      """)
  }

  @Test("obeys Retry-After of a rate limit, and keeps its token meanwhile")
  func rateLimit() throws {
    let ground = try AccessGround("", Self.client(", rateLimit: { perSecond: 0.01, burst: 1 }"))
    try WebModule.run(
      from: ground.server.url,
      """
      const tokens = new DeveloperTokens();
      const token = await tokens.get();
      const error = await failure(tokens.refresh());
      same([error.status, error.code, error.retryAfter > 1, error.final], [429, "rate_limited", true, false]);
      same(await failure(tokens.refresh()) === error, true);
      same([await tokens.get() === token, said], [true, []]);
      """)
    ground.server.stop()
    #expect(ground.auditLines.map(\.reason) == [nil, "caller_rate"])
  }

  @Test("keeps its token while the server is down, and gets a new one from the restarted server")
  func restart() throws {
    let ground = try Ground()
    let settings = Self.client("").merging(
      ["ACCESS_ANONYMOUS": "", "SERVER_PORT": "\(UpstreamGround.fixedPort)"]) { $1 }
    var server = try ground.serve(settings)
    // The page tells the test what to do by requests to this server.
    let control = try Ground().serve(["LOG_FORMAT": "json"])
    let script = """
      const tell = (path) => fetch("\(control.url)" + path, { mode: "no-cors" });
      const reaches = () => fetch("\(server.url)/healthz").then(() => true, () => false);
      const wall = Date.now;
      const tokens = new DeveloperTokens();
      const token = await tokens.get();
      await tell("/healthz");
      await until(async () => !await reaches(), "the server stops");
      const failed = new Promise((resolve) => tokens.subscribe(undefined, resolve));
      // Eight hours of sleep: the token is due after six to seven and a half.
      Date.now = () => wall() + 8 * 3_600_000;
      same(await tokens.get() === token, true);
      const error = await failed;
      same([error.status, error.final, await tokens.get() === token], [undefined, false, true]);
      const renewed = new Promise((resolve) => tokens.subscribe(resolve));
      await tell("/readyz");
      await until(reaches, "the server starts");
      dispatchEvent(new Event("online"));
      const next = await renewed;
      same([next !== token, await tokens.get() === next, said], [true, true, []]);
      """
    try WebModule.run(from: server.url, script) {
      try control.process.waitForErrors("\"http.route\":\"/healthz\"")
      server.stop()
      try control.process.waitForErrors("\"http.route\":\"/readyz\"")
      server = try ground.serve(settings)
    }
  }
}
