import JSON
import TestSupport
import Testing

@Suite("The explanation of a decision")
struct AccessExplanationTests {
  private static let page = "https://app.example.com"
  private static let studioPage = "https://studio.example.com"
  private static let provider = "jwt: { issuer: 'https://id.example.com/', audience: 'music'"

  private static func callers(_ provider: IdentityProvider) throws -> [DescribedCaller] {
    let jwt = try provider.mint()
    let tampered =
      String(try provider.mint(claims: "{\"sub\": \"other\"}").prefix { $0 != "." }) + jwt.drop { $0 != "." }
    return [
      .init("nothing"), .init("nothing, for the catalog", AccessGround.album), .init("a key", AccessGround.android),
      .init("a key by POST", AccessGround.android, method: "POST"),
      .init("a key by HEAD", AccessGround.android, method: "HEAD"),
      .init("a key by DELETE", AccessGround.android, method: "DELETE"),
      .init("a key on a foreign page", AccessGround.android, from: "https://evil.example"),
      .init("a key for its catalog", AccessGround.android, AccessGround.album),
      .init("a key for another storefront", AccessGround.android, "/v1/catalog/de/albums/1"),
      .init("a key for /v1/me", AccessGround.android, "/v1/me/library/songs"),
      .init("a key with a malformed query", AccessGround.android, "\(AccessGround.album)?a=%FF"),
      .init("a key for too long a life", AccessGround.android, "/token?ttl=7201"),
      .init("a key for an origin", AccessGround.android, "/token?origin=https://app.example.com"),
      .init("a key for an unknown path", AccessGround.android, "/v1/Catalog/us"),
      .init("a key for no path at all", AccessGround.android, "/nowhere"),
      .init("a key for the catalog by POST", AccessGround.android, AccessGround.album, method: "POST"),
      .init("an unknown key", "unknown"), .init("an unknown key for the catalog", "unknown", AccessGround.album),
      .init("an empty key", ""), .init("a mistyped key", "mkts_" + String(repeating: "a", count: 49)),
      .init("the digest of a key", String(repeating: "0", count: 64)),
      .init("a page", from: page), .init("a page by POST", from: page, method: "POST"),
      .init("a page for its catalog", from: page, AccessGround.album),
      .init("a page for /v1/me", from: page, "/v1/me/library/songs", method: "PUT"),
      .init("a page of the star", from: "https://x.preview.example.com"),
      .init("a foreign page", from: "https://evil.example"),
      .init("a foreign page for the catalog", from: "https://evil.example", AccessGround.album),
      .init("a page of another scheme", from: "http://app.example.com"),
      .init("a page without an origin", from: "null"), .init("an origin with a slash", from: "\(page)/"),
      .init("no origin at all", from: "nonsense"),
      .init("key and page", AccessGround.studio, from: studioPage, AccessGround.album),
      .init("key and page for a token", AccessGround.studio, from: studioPage),
      .init("the key without the page", AccessGround.studio), .init("the page without the key", from: studioPage),
      .init("the key on another page", AccessGround.studio, from: page),
      .init("a key for too short a life", AccessGround.android, "/token?ttl=1"),
      .init("a key with an unknown parameter", AccessGround.android, "/token?bogus=1"),
      .init("health", "unknown", "/healthz"),
      .init("a client with a key", AccessGround.android, as: "android"),
      .init(
        "a client with a key, for another storefront", AccessGround.android, "/v1/catalog/de/albums/1", as: "android"),
      .init("a client with key and page", AccessGround.studio, from: studioPage, AccessGround.album, as: "studio"),
      .init("a client with key and page, without the page", AccessGround.studio, as: "studio"),
      .init("a client with pages", from: page, as: "web"),
      .init("a client with pages, on another", from: "https://evil.example", as: "web"),
      .init("a JWT", jwt), .init("a changed JWT", tampered),
      .init("an expired JWT", try provider.mint(claims: "{\"exp\": 1000}")),
      .init("a JWT for others", try provider.mint(claims: "{\"aud\": \"films\"}")),
      .init("a JWT of others", try provider.mint(claims: "{\"iss\": \"https://other.example\"}")),
      .init("a JWT of an unknown key", try provider.mint("kid=other")),
      .init("a JWT with a wrong signature", try provider.mint("keys=unpublished&kid=es256-1")),
    ]
  }

  @Test("agrees with what the public listener does: status, code, detail, reason, client and CORS fields")
  func agreement() throws {
    let provider = try IdentityProvider()
    let ground = try AccessGround(provider.client())
    let callers = try Self.callers(provider)
    for caller in callers {
      let url = "\(ground.server.url)\(caller.path)"
      let response = try ParsedResponse(curl: caller.options + [url])
      let preflight = try ParsedResponse(curl: caller.preflightOptions + [url])
      let explanation = try ground.server.explain(caller.json)
      #expect(explanation.status == 200, "\(caller.testDescription): \(explanation.text)")
      caller.expect(explanation.json, agreesWith: response, preflight)
      if let credential = caller.credential, credential.count > 8 { #expect(!explanation.text.contains(credential)) }
    }
    #expect(ground.server.stop() == 0)
    // Each explanation has a record, with the reason and the client of the decision before it.
    let lines = ground.auditLines
    let explained = lines.indices.filter { lines[$0].outcome == "explained" }
    #expect(explained.count == callers.count)
    let reasons = Set(lines.compactMap { $0.outcome == "refused" ? "\($0.client) \($0.reason ?? "")" : nil })
    let told = Set(explained.compactMap { index in lines[index].reason.map { "\(lines[index].client) \($0)" } })
    #expect(
      told.subtracting(reasons) == ["- invalid_request"] && reasons.subtracting(told).isEmpty, "\(told) \(reasons)")
    for secret in [AccessGround.android, AccessGround.studio, "mkts_", "eyJ", "user-1"] {
      #expect(!ground.server.log.contains(secret), "\(secret)")
    }
  }

  @Test("agrees for client certificates, by their names")
  func certificates() throws {
    let key = "key-of-the-explanation"
    let ground = try CertifiedGround([
      "ACCESS_CLIENTS": """
      [{ id: 'partner', clientCertificate: { san: 'spiffe://example.com/partner' }, origins: ['\(Self.page)'] },
        { id: 'hosts', clientCertificate: { san: ['host.example.com', 'other.example.com'] } },
        { id: 'key', apiKey: { sha256: '\(try AccessGround.sha256(key))' } }]
      """
    ])
    let partner = ["spiffe://example.com/partner"]
    for (index, caller) in [
      DescribedCaller("none"), .init("a URI with its page", from: Self.page, names: partner),
      .init("a URI alone", names: partner), .init("a DNS name", names: ["HOST.example.com"]),
      .init("an unknown name", names: ["x.example.com"]), .init("a certificate and a key", key, names: partner),
      .init("names of two clients", names: partner + ["other.example.com"]), .init("a key alone", key),
      .init("a star", names: ["*.example.com"]), .init("32 names", names: partner + Self.hosts(31)),
      .init("33 names", names: partner + Self.hosts(32)), .init("300 names", names: partner + Self.hosts(299)),
      .init("a space", names: partner + ["a b"]), .init("a space alone", names: ["a b"]),
    ].enumerated() {
      if !caller.names.isEmpty {
        try ground.issue("\(index)", caller.names.map { ($0.contains("://") ? "URI:" : "DNS:") + $0 })
      }
      let file = caller.names.isEmpty ? nil : "\(index)"
      let response = try ground.request("/token", as: file, caller.options)
      let preflight = try ground.request("/token", as: file, caller.preflightOptions)
      caller.expect(try ground.server.explain(caller.json).json, agreesWith: response, preflight)
    }
    try ground.issue("none", [])
    let response = try ground.request("/token", as: "none")
    #expect(response.errorCode == "invalid_credentials")
    for names in ["", "\"\"", "\"host.example.com\",\"a\\u0000b\"", "\"ä\""] {
      let explanation = try ground.server.explain("{\"certificateNames\":[\(names)]}")
      DescribedCaller(names).expect(explanation.json, agreesWith: response, response)
      #expect(explanation.text.contains("uses no name of the certificate"), "\(explanation.text)")
    }
  }

  private static func hosts(_ count: Int) -> [String] { (0..<count).map { "h\($0).example.com" } }

  @Test("has what the operator needs to know beyond the caller's error, and the fix")
  func evidence() throws {
    let provider = try IdentityProvider()
    let ground = try AccessGround(provider.client())
    let digest = try AccessGround.sha256("unknown").prefix(8)
    let now = "\"nbf\": 4000000000"
    for (description, words, fix) in [
      (DescribedCaller("a key", "unknown"), ["Its SHA-256 begins with \(digest)"], "add the SHA-256"),
      (.init("a mistyped key", "mkts_x"), [], "Copy the whole key"),
      (.init("a genuine key", try Self.newKey()), ["so it is not mistyped"], "add the SHA-256"),
      (
        .init("another scheme", from: "http://app.example.com"),
        [
          "differs from https://app.example.com of client web",
          "Client studio has the origin “https://studio.example.com”",
        ],
        "Add the origin"
      ),
      (
        .init("a slash", from: "\(Self.page)/"), ["Browsers write this origin as \(Self.page)."], "as browsers write it"
      ),
      (
        .init("an expired JWT", try provider.mint(claims: "{\"exp\": 1000}")),
        ["1970-01-01T00:16:40Z", "Client members: The JWT expired"], "renew"
      ),
      (
        .init("an early JWT", try provider.mint(claims: "{\(now)}")),
        ["Client members: The JWT is not valid for another"], "clocks"
      ),
      (
        .init("another aud", try provider.mint(claims: "{\"aud\": \"films\"}")),
        ["the aud “films”", "It accepts the aud “music”."],
        "jwt.audience"
      ),
      (
        .init("another iss", try provider.mint(claims: "{\"iss\": \"https://other.example\"}")),
        ["the iss “https://other.example”", "The clients accept the iss “https://id.example.com/”."], "byte by byte"
      ),
      (
        .init("another kid", try provider.mint("kid=other")), ["the kid “other”", "Its key set has the kids “"],
        "jwt.jwksURL"
      ),
      (
        .init("a bad signature", try provider.mint("keys=unpublished&kid=es256-1")),
        ["did not make the JWT's signature"], "Copy the whole token"
      ),
    ] as [(DescribedCaller, [String], String)] {
      let explanation = try ground.server.explain(description.json)
      let evidence = explanation.json?["evidence"]?.strings?.joined(separator: " ") ?? ""
      for word in words { #expect(evidence.contains(word), "\(description.testDescription): \(evidence)") }
      #expect(
        explanation.json?["fix"]?.string?.contains(fix) == true, "\(description.testDescription): \(explanation.text)")
    }
    #expect(try ground.server.explain("{\"path\":\"/healthz\"}").text.contains("Every caller may request this path"))
    let open = try Ground().serve()
    #expect(try open.explain("{\"credential\":\"x\"}").text.contains("it ignores every credential"))
  }

  private static func newKey() throws -> String {
    String(try Program.run(["new-api-key"]).stdout.split(separator: "\n")[0])
  }

  @Test("counts against no limit and in no metric, makes no token and sends Apple nothing")
  func noEffect() throws {
    let ground = try AccessGround(
      "{ id: 'slow', apiKey: { sha256: '\(try AccessGround.sha256("slow-key"))' }, catalog: true, rateLimit: { perSecond: 0.01, burst: 1 } }"
    )
    // Otherwise the server tries its key by itself, some seconds after its start.
    #expect(try ground.request(AccessGround.album).status == 200)
    let tokens = try MetricsPage(of: ground.server)["musickit_token_signatures_total"]
    for _ in 0..<3 {
      for caller in [DescribedCaller("token", "slow-key"), .init("catalog", "slow-key", AccessGround.album)] {
        #expect(try ground.server.explain(caller.json).json?["allowed"] == .bool(true))
      }
    }
    for _ in 0..<41 { #expect(try ground.server.explain("{\"credential\":\"wrong\"}").status == 200) }
    let page = try MetricsPage(of: ground.server)
    #expect(!page.values(of: "outcome").contains("explained") && !page.values(of: "reason").contains("unknown_api_key"))
    #expect(tokens != nil && page["musickit_token_signatures_total"] == tokens)
    #expect(try ground.catalog.emulator.count() == 1)
    // An address may fail a hundred times. With the explanations, these would be more.
    let connection = try ground.server.connect()
    for _ in 0..<90 {
      connection.send("GET /token HTTP/1.1\r\nHost: a\r\nX-API-Key: wrong\r\n\r\n")
      #expect(try connection.response().status == 401)
    }
    #expect(try ground.request("/token", key: "slow-key").status == 200)
    #expect(try ground.request("/token", key: "slow-key").status == 429)
  }

  // MARK: Who may ask

  @Test("exists on the admin listener only, and only as POST")
  func placement() throws {
    let ground = try Ground()
    for settings in [[:], ["ADMIN_ENABLED": "false"]] {
      let server = try ground.serve(settings)
      for method in ["POST", "GET", "OPTIONS"] {
        let response = try server.request(
          "/access/explain", "-X", method, "-H", "Content-Type: application/json", "-d", "{}")
        #expect(response.status == 404 && response.errorCode == "not_found", "\(method)")
      }
    }
    #expect(try ground.serve().admin("/access/explain").status == 405)
  }

  @Test("is for no page of another origin, and gives none a CORS field")
  func pages() throws {
    let ground = try Ground()
    let server = try ground.serve()
    let own = try #require(server.adminURL)
    for (options, status) in [
      (["-H", "Origin: https://evil.example"], 403), (["-H", "Origin: null"], 403),
      (["-H", "Origin: http://localhost:1"], 403), (["-H", "Origin: \(own)", "-H", "Origin: \(own)"], 403),
      (["-H", "Origin: \(own)"], 200), (["-H", "Sec-Fetch-Site: cross-site"], 403),
      (["-H", "Sec-Fetch-Site: same-site"], 403), (["-H", "Sec-Fetch-Site: same-origin", "-H", "Origin: \(own)"], 200),
      (["-H", "Sec-Fetch-Site: none"], 200), (["-H", "Content-Type:"], 400), (["-H", "Content-Type: text/plain"], 400),
      (["-H", "Content-Type: application/x-www-form-urlencoded"], 400),
      (["-H", "Content-Type: application/json; charset=utf-8"], 200),
      (["-H", "Content-Type: Application/JSON ;a"], 200),
      (["-H", "Content-Type: application/json, text/plain"], 400), (["-H", "Content-Type: application/jsonx"], 400),
      (["-H", "Content-Type: text/plain; application/json"], 400), (["-H", "Content-Type: ;application/json"], 400),
      (["-H", "Content-Type: text/plain;application/json"], 400), (["-H", "Host: evil.example"], 421),
    ] {
      let type = options[1].hasPrefix("Content-Type") ? [] : ["-H", "Content-Type: application/json"]
      let response = try ParsedResponse(curl: type + options + ["-d", "{}", "\(own)/access/explain"])
      #expect(response.status == status, "\(options): \(response.text)")
      #expect(!response.fields.contains { $0.name.lowercased().hasPrefix("access-control") })
    }
    let preflight = try server.admin(
      "/access/explain", "-X", "OPTIONS", "-H", "Origin: https://evil.example", "-H",
      "Access-Control-Request-Method: POST", "-H", "Access-Control-Request-Headers: content-type")
    #expect(preflight.status == 204 && !preflight.fields.contains { $0.name.lowercased().hasPrefix("access-control") })
    // A listener for every host name cannot know its own origin; others refuse the name before.
    for (arguments, status) in [([], 421), (["--unsafe-allow-anonymous"], 403)] {
      let other = try ground.serve(["ADMIN_HOST": "0.0.0.0"], arguments)
      let port = try #require(other.adminURL?.split(separator: ":").last)
      let response = try ParsedResponse(
        curl: [
          "-H", "Content-Type: application/json", "-H", "Host: evil.example:\(port)", "-H",
          "Origin: http://evil.example:\(port)", "-d", "{}", "http://127.0.0.1:\(port)/access/explain",
        ])
      #expect(response.status == status, "\(response.text)")
    }
  }

  @Test("has a limit for the length of a description and for their number in a second")
  func limits() throws {
    let ground = try Ground()
    let server = try ground.serve()
    let file = try ground.directory.write("{\"credential\":\"\(String(repeating: "x", count: 41_000))\"}", to: "long")
    #expect(try server.explain("@\(file)").status == 413)
    let fitting = try ground.directory.write(
      "{\"credential\":\"\(String(repeating: "x", count: 40_000))\"}", to: "fits")
    #expect(try server.explain("@\(fitting)").json?["code"]?.string == "header_fields_too_large")
    let port = try #require(server.adminURL?.split(separator: ":").last.flatMap { UInt16($0) })
    let client = try RawClient(port: port)
    let request = "POST /access/explain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    // All at once, because a slow machine would send them no faster than they may come.
    try client.send(String(repeating: request + "Content-Length: 2\r\n\r\n{}", count: 80))
    let responses = try (0..<80).map { _ in try #require(try client.response()) }
    let refused = responses.first { $0.status != 200 }
    #expect(refused?.status == 429 && refused?.text.contains("rate_limited") == true)
    #expect(refused?["retry-after"] == "1")
    // Others of the listener, and callers, have no part in it.
    #expect(try server.admin("/readyz").status == 200)
    #expect(try server.request("/token").status == 200)
  }

  @Test("refuses a description that is malformed, and quotes nothing of it")
  func malformed() throws {
    let server = try Ground().serve()
    for (description, code) in [
      ("", "malformed_request"), ("[]", "malformed_request"), ("{", "malformed_request"),
      ("{\"credential\":\"canary\",\"credential\":\"canary\"}", "invalid_parameter"),
      ("{\"credential\":1}", "invalid_parameter"), ("{\"credential\":null}", "invalid_parameter"),
      ("{\"credential\":\"canary\\r\\nX-API-Key: a\"}", "invalid_parameter"),
      ("{\"origin\":\"canary\\u0000\"}", "invalid_parameter"), ("{\"origin\":[\"canary\"]}", "invalid_parameter"),
      ("{\"path\":\"canary\"}", "invalid_parameter"), ("{\"path\":\"/canary HTTP/1.0\"}", "invalid_parameter"),
      ("{\"method\":\"CANARY\"}", "invalid_parameter"), ("{\"method\":\"OPTIONS\"}", "invalid_parameter"),
      ("{\"certificateNames\":\"canary\"}", "invalid_parameter"),
      ("{\"certificateNames\":[1]}", "invalid_parameter"),
      ("{\"credentials\":\"canary\"}", "invalid_parameter"), ("{\"client\":\"canary\"}", "invalid_parameter"),
      ("{\"client\":\"anonymous\",\"credential\":\"canary\"}", "invalid_parameter"),
      (
        "{\"certificateNames\":[\(Array(repeating: "\"canary\"", count: 999).joined(separator: ","))]}",
        "malformed_request"
      ),
    ] {
      let response = try server.explain(description)
      #expect(response.status == 400 && response.errorCode == code, "\(description): \(response.text)")
      #expect(!response.text.lowercased().contains("canary"))
    }
    #expect(server.stop() == 0)
    #expect(!server.log.lowercased().contains("canary") && server.auditLines.isEmpty)
  }
}
