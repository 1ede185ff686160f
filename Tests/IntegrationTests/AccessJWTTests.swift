import Glibc
import JSON
import TestSupport
import Testing

@Suite("A JWT of an identity provider")
struct AccessJWTTests {
  @Test("grants tokens and catalog access with every supported algorithm")
  func algorithms() throws {
    let provider = try IdentityProvider()
    let ground = try AccessGround(provider.client())
    for algorithm in ["ES256", "RS256", "PS256", "EdDSA"] {
      let token = try provider.mint("alg=\(algorithm)")
      #expect(try ground.request("/token", key: token).status == 200, "\(algorithm)")
      #expect(try ground.request(AccessGround.album, key: token).status == 200, "\(algorithm)")
      #expect(try ground.request("/token", key: token, "-d", "{\"ttl\": 600}").status == 200, "\(algorithm)")
    }
    ground.server.stop()
    #expect(ground.auditLines.allSatisfy { $0.client == "members" && $0.outcome == "granted" })
    #expect(!ground.server.log.contains("user-1"), "a user is nobody's business")
  }

  @Test("has a specific reason in the audit log if it is refused")
  func refused() throws {
    let provider = try IdentityProvider()
    let ground = try AccessGround(provider.client())
    let refusals = [
      ("keys=unpublished", "{}", "jwt_unknown_key"),
      ("keys=unpublished&kid=es256-1", "{}", "jwt_bad_signature"),
      ("kid=nobodys", "{}", "jwt_unknown_key"),
      ("", "{\"exp\": 1000}", "jwt_expired"),
      ("", "{\"exp\": null}", "jwt_no_expiry"),
      ("", "{\"nbf\": 4000000000}", "jwt_not_yet_valid"),
      ("", "{\"iss\": \"https://id.example.com\"}", "jwt_unknown_issuer"),
      ("", "{\"aud\": \"films\"}", "jwt_wrong_audience"),
      ("", "{\"aud\": []}", "jwt_wrong_audience"),
    ]
    for (query, claims, reason) in refusals {
      let response = try ground.request("/token", key: try provider.mint(query, claims: claims))
      #expect(response.status == 401, "\(reason)")
      #expect(response.errorCode == "invalid_credentials", "\(reason)")
      #expect(response["WWW-Authenticate"]?.contains("invalid_token") == true, "\(reason)")
    }
    ground.server.stop()
    #expect(ground.auditLines.map(\.reason) == refusals.map(\.2))
  }

  @Test("the log names jwt.caFile if the certificate of a provider is untrusted")
  func untrustedProvider() throws {
    let provider = try IdentityProvider()
    let jwt = "jwt: { issuer: \"https://id.example.com/\", audience: \"music\", jwksURL: \"\(provider.url)\" }"
    let ground = try AccessGround("{ id: \"members\", \(jwt) }")
    try ground.server.process.waitForErrors("name it in jwt.caFile")
    #expect(!ground.server.log.contains("catalog.caFile"))
  }

  @Test("selects its client by audience and required claims")
  func clients() throws {
    let provider = try IdentityProvider()
    let source = "jwksURL: \"\(provider.url)\", caFile: \"\(provider.certificateFile)\""
    let issuer = "issuer: \"https://id.example.com/\""
    let ground = try AccessGround(
      """
      { id: "films", jwt: { \(issuer), audience: "films", \(source) }, ttl: "10m" },
      { id: "staff", jwt: { \(issuer), audience: "music", \(source), requiredClaims: { role: "staff" } }, ttl: "20m" },
      { id: "users", jwt: { \(issuer), audience: "music", \(source), requiredClaims: { role: "user" } }, ttl: "30m" },
      """)
    for (claims, life) in [
      ("{\"aud\": \"films\"}", 600), ("{\"role\": \"staff\"}", 1200), ("{\"role\": [\"x\", \"user\"]}", 1800),
    ] {
      #expect(try ground.request("/token", key: try provider.mint(claims: claims)).lifetime == life)
    }
    #expect(try ground.request("/token", key: try provider.mint(claims: "{\"role\": \"guest\"}")).status == 401)
    #expect(try ground.request("/token", key: try provider.mint()).status == 401)
  }

  @Test("has a rate limit per user, whatever the address")
  func rate() throws {
    let provider = try IdentityProvider()
    let ground = try AccessGround(provider.client("members", "rateLimit: { perSecond: 0.01, burst: 1 }"))
    let one = try provider.mint(claims: "{\"sub\": \"one\"}")
    let other = try provider.mint(claims: "{\"sub\": \"other\"}")
    #expect(try ground.request("/token", key: one).status == 200)
    #expect(try ground.request("/token", key: one, "--interface", "127.0.0.2").status == 429)
    #expect(try ground.request("/token", key: other).status == 200)
  }

  @Test("has a rate limit per address if the client's settings say so")
  func rateOfAddresses() throws {
    let provider = try IdentityProvider()
    let ground = try AccessGround(
      provider.client("members", "rateLimit: { perSecond: 0.01, burst: 1, per: \"address\" }"))
    let token = try provider.mint(claims: "{\"sub\": \"1:123456789012:android:0a1b2c\"}")
    for address in ["127.0.0.2", "127.0.0.3"] {
      #expect(try ground.request("/token", key: token, "--interface", address).status == 200)
      #expect(try ground.request("/token", key: token, "--interface", address).status == 429)
    }
  }

  @Test("is accepted right after a key rotation, and refused after the removal of its key")
  func rotation() throws {
    let provider = try IdentityProvider()
    let ground = try AccessGround(provider.client())
    #expect(try ground.request("/token", key: try provider.mint()).status == 200)
    try provider.rotate()
    let before = try provider.mint("keys=old")
    #expect(try ground.request("/token", key: try provider.mint()).status == 200)
    #expect(try ground.request("/token", key: before).status == 401)
  }

  @Test("stays valid during an outage of its provider, also after a reload")
  func down() throws {
    let provider = try IdentityProvider()
    let ground = try AccessGround(provider.client())
    let token = try provider.mint()
    #expect(try ground.request("/token", key: token).status == 200)
    try provider.behave("down")
    #expect(try ground.request("/token", key: token).status == 200)
    ground.server.process.signal(SIGHUP)
    try ground.server.process.waitForErrors("Configuration reloaded")
    #expect(try ground.request("/token", key: token).status == 200)
    // A token with an unknown key, meanwhile.
    #expect(try ground.request("/token", key: try provider.mint("kid=other")).status == 401)
    #expect(try ground.request("/token").status == 200)
  }

  @Test(
    "gets 503 until the first keys arrive, and the server starts without keys")
  func never() throws {
    let provider = try IdentityProvider()
    try provider.behave("down")
    let ground = try AccessGround(provider.client())
    let token = try provider.mint()
    for method in ["GET", "POST"] {
      let response = try ground.request("/token", key: token, "-X", method)
      #expect(response.status == 503)
      #expect(response.errorCode == "overloaded")
      #expect(response["Retry-After"] != nil)
    }
    #expect(try ground.request(AccessGround.album, key: token).status == 503)
    #expect(try ground.request("/token").status == 200)
    try provider.behave("ok")
    try eventually("the keys have come") { try ground.request("/token", key: token).status == 200 }
  }

  @Test("waits for the keys, and its request keeps its content")
  func content() throws {
    let provider = try IdentityProvider()
    try provider.behave("hold")
    let ground = try AccessGround(provider.client())
    let token = try provider.mint()
    let connection = try ground.server.connect()
    let content = "{\"ttl\": 777}"
    let request = "POST /token HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(token)\r\n"
    connection.send("\(request)Content-Length: \(content.utf8.count)\r\n\r\n\(content)")
    // A second request on the same connection: its response is in order and depends on its own content.
    connection.send("\(request)Content-Length: 12\r\nConnection: close\r\n\r\n{\"ttl\": 888}")
    try provider.waitUntilHolding()
    try provider.behave("ok")
    try provider.release()
    let responses = try connection.receiveAll()
    #expect(responses.split(separator: "HTTP/1.1 200 OK").count == 2, "\(responses)")
    #expect(responses.contains("\"expiresIn\":777") && responses.contains("\"expiresIn\":888"))
  }

  @Test("is verified with a key file, and the server notices a new key file")
  func file() throws {
    let provider = try IdentityProvider()
    let directory = try TemporaryDirectory()
    let file = try directory.write(try provider.keySet(), to: "jwks.json")
    let ground = try AccessGround(
      "{ id: 'members', jwt: { issuer: 'https://id.example.com/', audience: 'music', jwksFile: '\(file)' } }")
    #expect(try ground.request("/token", key: try provider.mint()).status == 200)
    try provider.rotate()
    #expect(try ground.request("/token", key: try provider.mint()).status == 401)
    _ = try directory.write(try provider.keySet(), to: "jwks.json")
    // No signal: the server watches the file.
    try ground.server.process.waitForErrors("Configuration reloaded")
    #expect(try ground.request("/token", key: try provider.mint()).status == 200)
  }

  @Test("cannot be verified with a file without keys, and the start fails")
  func faultyFile() throws {
    let directory = try TemporaryDirectory()
    let file = try directory.write("{\"keys\": []}", to: "jwks.json")
    let clients = "[{ id: 'a', jwt: { issuer: 'i', audience: 'a', jwksFile: '\(file)' } }]"
    for command in ["serve", "check-config"] {
      let result = try Ground().run([command], ["ACCESS_CLIENTS": clients])
      #expect(result.status == 78)
      #expect(result.stderr.contains(file))
    }
  }

  @Test(
    "gets 503 while the keys of its possible clients are missing")
  func severalWithoutKeys() throws {
    let provider = try IdentityProvider()
    try provider.behave("down")
    let source =
      "issuer: \"https://id.example.com/\", jwksURL: \"\(provider.url)\", caFile: \"\(provider.certificateFile)\""
    let ground = try AccessGround(
      "{ id: 'one', jwt: { \(source), audience: 'one' } }, { id: 'two', jwt: { \(source), audience: 'two' } },")
    for audience in ["one", "two"] {
      let response = try ground.request("/token", key: try provider.mint(claims: "{\"aud\": \"\(audience)\"}"))
      #expect(response.status == 503, "\(audience): \(response.text)")
    }
    #expect(
      try ground.request("/token", key: try provider.mint(claims: "{\"exp\": 1000, \"aud\": \"two\"}")).status == 401)
    ground.server.stop()
    #expect(ground.auditLines.map(\.reason) == ["jwt_no_keys", "jwt_no_keys", "jwt_expired"])
  }

  @Test("that matches two clients is refused")
  func ambiguous() throws {
    let provider = try IdentityProvider()
    let source =
      "issuer: \"https://id.example.com/\", jwksURL: \"\(provider.url)\", caFile: \"\(provider.certificateFile)\""
    let ground = try AccessGround(
      "{ id: 'one', jwt: { \(source), audience: 'one' } }, { id: 'two', jwt: { \(source), audience: 'two' } },")
    #expect(try ground.request("/token", key: try provider.mint(claims: "{\"aud\": \"two\"}")).status == 200)
    let both = try provider.mint(claims: "{\"aud\": [\"two\", \"one\"]}")
    #expect(try ground.request("/token", key: both).status == 401)
    // With a forged signature the reason is the signature.
    let forged = try provider.mint("keys=unpublished&kid=es256-1", claims: "{\"aud\": [\"two\", \"one\"]}")
    #expect(try ground.request("/token", key: forged).status == 401)
    ground.server.stop()
    #expect(ground.auditLines.map(\.reason) == [nil, "jwt_ambiguous_client", "jwt_bad_signature"])
  }

  @Test("that has expired gets 401 for every repetition and never 429")
  func expired() throws {
    let provider = try IdentityProvider()
    let ground = try AccessGround(provider.client())
    let token = try provider.mint(claims: "{\"exp\": 1000}")
    let connection = try ground.server.connect()
    let request = "GET /token HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(token)\r\n\r\n"
    connection.send(String(repeating: request, count: 150))
    connection.finishSending()
    #expect(try connection.receiveAll().split(separator: "HTTP/1.1 401 ").count == 150)
  }

  @Test("of a disconnected client does not block the server during the key fetch")
  func gone() throws {
    let provider = try IdentityProvider()
    try provider.behave("hold")
    let ground = try AccessGround(provider.client())
    let token = try provider.mint()
    for _ in 0..<3 {
      let connection = try ground.server.connect()
      connection.send("GET /token HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(token)\r\n\r\n")
      connection.finishSending()
      _ = try connection.receiveAll()
    }
    // The provider still holds its response.
    try ground.server.process.waitForErrors("\"http.status\":499", count: 3)
    #expect(try ground.server.request("/healthz").status == 200)
  }
}
