import JSON
import TestSupport
import Testing

/// Providers as they are: without `aud`, with replaced keys, with a discovery document.
@Suite("An identity provider")
struct IdentityProviderTests {
  // MARK: Tokens without aud

  @Test("whose access tokens have no aud is usable if a claim names the application")
  func withoutAudience() throws {
    let provider = try IdentityProvider()
    let source = "jwksURL: '\(provider.url)', caFile: '\(provider.certificateFile)'"
    let ground = try AccessGround(
      """
      { id: "app", jwt: { issuer: "https://id.example.com/", \(source), requiredClaims: { azp: "https://app.example" } } },
      """)
    for (label, claims, status, words) in [
      ("the application's", #"{"aud": null, "azp": "https://app.example"}"#, 200, ""),
      ("the application's, with an aud", #"{"aud": "x", "azp": "https://app.example"}"#, 200, ""),
      ("another application's", #"{"aud": null, "azp": "https://other.example"}"#, 401, "A claim of the JWT"),
      ("without the claim", #"{"aud": null}"#, 401, "A claim of the JWT"),
      (
        "with a slash", #"{"aud": null, "azp": "https://app.example/"}"#, 401,
        "azp differs from an accepted one only by a slash"
      ),
      ("aud is a number", #"{"aud": 1, "azp": "https://app.example"}"#, 401, "aud does not have the type"),
    ] {
      let response = try ground.request("/token", key: try provider.mint(claims: claims))
      #expect(response.status == status && response.text.contains(words), "\(label): \(response.text)")
    }
  }

  @Test("whose token differs by a slash, by case or by http learns it in words")
  func differences() throws {
    let provider = try IdentityProvider()
    let ground = try AccessGround(provider.client())
    for (claims, words) in [
      (#"{"iss": "https://id.example.com"}"#, "only by a slash at the end"),
      (#"{"iss": "http://id.example.com/"}"#, "only by http:// in place of https://"),
      (#"{"iss": "id.example.com/"}"#, "only by https:// at the beginning"),
      (#"{"iss": "https://ID.example.com/"}"#, "only by upper and lower case"),
      (
        #"{"aud": "Music"}"#,
        "aud does not name the server. It differs from an accepted one only by upper and lower case"
      ),
      (#"{"aud": null}"#, "The JWT has no aud"), (#"{"aud": "films"}"#, "aud does not name the server."),
    ] {
      let response = try ground.request("/token", key: try provider.mint(claims: claims))
      #expect(response.status == 401 && response.text.contains(words), "\(claims): \(response.text)")
    }
    #expect(
      try !ground.request("/token", key: try provider.mint(claims: #"{"iss": "https://x/"}"#)).text.contains("only"))
  }

  // MARK: Replaced keys

  @Test("that replaces a key under the same kid is trusted after one fetch, and forgeries cost one")
  func replaced() throws {
    let provider = try IdentityProvider()
    try provider.behave("max-age-86400")
    let ground = try AccessGround(provider.client())
    #expect(try ground.request("/token", key: try provider.mint()).status == 200)
    let before = try provider.mint("alg=EdDSA")
    try provider.rotate(keepsNames: true)
    let requests = try provider.requests()
    for algorithm in ["ES256", "RS256", "EdDSA"] {
      #expect(try ground.request("/token", key: try provider.mint("alg=\(algorithm)")).status == 200)
    }
    #expect(try ground.request("/token", key: before).status == 401)
    for _ in 0..<30 {
      let forged = try provider.mint("keys=unpublished&kid=es256-1")
      #expect(try ground.request("/token", key: forged).status == 401)
    }
    #expect(try provider.requests() == requests + 1)
  }

  // MARK: Discovery

  @Test("is found by its issuer alone, and doctor shows where its keys are", arguments: ["/", "/realms/music"])
  func discovered(_ path: String) throws {
    let provider = try IdentityProvider()
    let issuer = provider.origin + path
    let ground = try AccessGround(provider.discoveringClient(issuer))
    #expect(try ground.request("/token", key: try provider.mint(claims: "{\"iss\": \"\(issuer)\"}")).status == 200)
    let settings = ["ACCESS_CLIENTS": "[\(provider.discoveringClient(issuer))]", "CATALOG_ENABLED": "false"]
    let report = try DoctorReport(try Ground(), settings)
    #expect(report.status == 0 && report.passed.contains("identity-providers"), "\(report.text)")
    #expect(report.text.contains("Client members: 4 usable keys at \(provider.url)."), "\(report.text)")
    #expect(try Ground().run(["check-config"], settings).status == 0)
  }

  @Test("whose document is another issuer's gives 503, and log, readiness and doctor say why")
  func otherIssuer() throws {
    let provider = try IdentityProvider()
    let client = provider.discoveringClient(provider.origin)
    let ground = try AccessGround(client)
    let token = try provider.mint(claims: "{\"iss\": \"\(provider.origin)\"}")
    #expect(try ground.request("/token", key: token).status == 503)
    try ground.server.process.waitForErrors("which differs only by a slash at the end")
    let report = try DoctorReport(try Ground(), ["ACCESS_CLIENTS": "[\(client)]", "CATALOG_ENABLED": "false"])
    #expect(report.status == 1 && report.failed == ["identity-providers"], "\(report.text)")
    #expect(report.text.contains("differs only by a slash at the end"), "\(report.text)")
  }

  // MARK: Forged tokens

  @Test("a forged JWT of an address with many failures is not judged, and a JWT that was valid lately is")
  func postponed() throws {
    let provider = try IdentityProvider()
    let ground = try AccessGround(provider.client())
    let known = try provider.mint(claims: #"{"sub": "known"}"#)
    #expect(try ground.request("/token", key: known).status == 200)
    let forged = try provider.mint("keys=unpublished&kid=es256-1")
    // The only fetch that it may cause: a connection without more to send would not wait for it.
    #expect(try ground.request("/token", key: forged).status == 401)
    let fresh = try (0..<10).map { try provider.mint(claims: #"{"sub": "fresh\#($0)"}"#) }
    let connection = try ground.server.connect()
    func request(_ credential: String) -> String { "GET /token HTTP/1.1\r\nHost: x\r\n\(credential)\r\n" }
    func bearer(_ token: String) -> String { request("Authorization: Bearer \(token)\r\n") }
    let key = "X-API-Key: \(AccessGround.android)\r\n"
    let began = ContinuousClock.now
    // Each fresh JWT follows a forgery that takes what a second has given back, so a busy machine lets pass only some.
    connection.send(
      String(repeating: bearer(forged), count: 150) + bearer(known) + request(key)
        + fresh.map { bearer(forged) + bearer($0) }.joined())
    let forgeries = try (0..<150).map { _ in try connection.response() }
    // One more attempt for each second.
    let attempts = 100 + Int((ContinuousClock.now - began).components.seconds) + 1
    #expect((99...attempts).contains(forgeries.count { $0.status == 401 }))
    #expect(forgeries.contains { $0.text.contains("The server has not judged this one.") })
    #expect(try connection.response().status == 200)
    #expect(try connection.response().status == 200)
    let responses = try fresh.map { _ in try (connection.response(), connection.response()).1 }
    let late = try #require(responses.firstIndex { $0.status == 429 })
    #expect(responses[late]["Retry-After"] == "1", "\(responses[late].text)")
    #expect(try ground.request("/token", key: fresh[late], "--interface", "127.0.0.2").status == 200)
    // Now it was valid lately, whatever the address.
    #expect(try ground.request("/token", key: fresh[late]).status == 200)
  }

  @Test("a forged JWT counts as one failure for each signature, so two keys without kid do not double the work")
  func twoKeys() throws {
    let provider = try IdentityProvider()
    var keys = try provider.keySet().dropLast("]}".count)
    try provider.rotate()
    keys += try ", " + provider.keySet().dropFirst("{\"keys\": [".count)
    let directory = try TemporaryDirectory()
    let file = try directory.write(String(keys).replacing(#/"kid": "[^"]*", /#, with: ""), to: "jwks.json")
    let ground = try AccessGround(
      "{ id: 'members', jwt: { issuer: 'https://id.example.com/', audience: 'music', jwksFile: '\(file)' } }")
    for keys in ["old", "present"] {
      #expect(try ground.request("/token", key: try provider.mint("keys=\(keys)&kid=")).status == 200, "\(keys)")
    }
    let forged = try provider.mint("keys=unpublished&kid=")
    let connection = try ground.server.connect()
    let request = "GET /token HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(forged)\r\n\r\n"
    connection.send(String(repeating: request, count: 80))
    connection.finishSending()
    let responses = try connection.receiveAll()
    #expect((49...56).contains(responses.split(separator: "HTTP/1.1 401 ").count - 1), "\(responses.prefix(500))")
  }
}
