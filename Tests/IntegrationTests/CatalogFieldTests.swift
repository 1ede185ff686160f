import TestSupport
import Testing

@Suite("A request field")
struct CatalogFieldTests {
  /// The only fields that may reach Apple with a catalog request.
  private static let sent = ["accept", "accept-encoding", "authorization", "traceparent", "user-agent", "via"]

  private static let foreign = [
    "Authorization: Bearer mine", "Proxy-Authorization: Basic eA==", "Cookie: a=b", "X-API-Key: mine",
    "Forwarded: for=1.2.3.4;host=evil.example", "X-Forwarded-For: 1.2.3.4", "X-Forwarded-Host: evil.example",
    "X-Forwarded-Proto: http", "X-Real-IP: 1.2.3.4", "Referer: https://evil.example/page", "Range: bytes=0-9",
    "If-Range: \"x\"", "If-Match: \"x\"", "If-None-Match: \"x\"", "If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT",
    "Accept: text/html", "Accept-Language: de", "Accept-Charset: latin1", "User-Agent: evil", "Via: 1.0 evil",
    "X-Sandbox-Fault: status=503", "Music-User-Token: sandbox-user-token", "X-HTTP-Method-Override: POST",
    "X-Original-URL: /v1/me/library", "X-Rewrite-URL: /v1/me/library", "TE: trailers", "Upgrade: h2c", "DNT: 1",
    "Keep-Alive: timeout=99", "Proxy-Connection: keep-alive", "Connection: x-mine, upgrade", "X-Mine: 1", "Expect:",
    "Max-Forwards: 0", "Pragma: x", "Cache-Control: max-stale", "Priority: u=0", "Sec-Fetch-Mode: cors",
    "Content-Type: text/plain", "Traceparent: 00-1-1-00", "Apple-Id: x", "Host: evil.example",
  ]

  @Test(
    "of the client never reaches Apple with a catalog request, and the required fields are present",
    arguments: [false, true])
  func catalog(_ isSecure: Bool) throws {
    let ground = try CatalogGround(CatalogGround.forEverybody, isSecure: isSecure)
    let response = try ParsedResponse(
      curl: Self.foreign.flatMap { ["-H", $0] } + ["\(ground.server.url)\(CatalogGround.album)"])
    #expect(response.status == 200)
    #expect(response.body == (try ground.original(CatalogGround.album).body))
    let request = try #require(try ground.emulator.requests().first)
    #expect(request.names == Self.sent)
    #expect(request["accept"] == "application/json")
    #expect(request["user-agent"] == "musickit-token-server")
    #expect(request["via"] == "1.1 musickit-token-server")
    #expect(request.developerToken.hasPrefix("accepted"))
  }

  @Test("Accept-Encoding becomes gzip or identity")
  func codings() throws {
    let ground = try CatalogGround()
    for (index, (coding, sent)) in [
      ("gzip", "gzip"), ("br, zstd, gzip", "gzip"), ("br", "identity"), ("*", "gzip"), ("gzip;q=0", "identity"),
      ("GZIP", "gzip"), ("identity", "identity"), ("gzip;q=banana", "identity"), ("compress, deflate", "identity"),
    ].enumerated() {
      _ = try ground.request("\(CatalogGround.album)?x=\(index)", "-H", "Accept-Encoding: \(coding)")
      #expect(try ground.emulator.requests().last?["accept-encoding"] == sent, "\(coding)")
    }
  }

  @Test("of a request to /v1/me reaches Apple only if it describes the content or a condition")
  func user() throws {
    let ground = try CatalogGround(CatalogGround.forEverybody)
    let mine = ["If-Match: \"1\"", "Content-Type: application/json", "Content-Language: de"]
    let foreign = Self.foreign.filter { !$0.hasPrefix("If-") && !$0.hasPrefix("Content-") }
    let response = try ParsedResponse(
      curl: (foreign + mine).flatMap { ["-H", $0] } + ["-d", "{}", "\(ground.server.url)/v1/me/library/nothing"])
    #expect(response["Via"] != nil)
    let request = try #require(try ground.emulator.requests().first)
    #expect(
      request.names.filter { $0 != "content-length" }
        == (Self.sent + ["content-language", "content-type", "if-match", "music-user-token"]).sorted())
    #expect(request["music-user-token"] == "good")
    #expect(request["content-type"] == "application/json")
  }

  @Test("named by Connection is not forwarded")
  func connection() throws {
    let ground = try CatalogGround(CatalogGround.forEverybody)
    let response = try ground.request(
      "/v1/me/library/songs", "-H", "Music-User-Token: sandbox-user-token", "-H", "If-Match: \"x\"", "-H",
      "Connection: close, if-match, MUSIC-user-token")
    #expect(response.status == 403)
    let request = try #require(try ground.emulator.requests().first)
    #expect(request.names == Self.sent)
  }

  @Test(
    "that is duplicated or malformed causes 400, and Apple gets no request",
    arguments: [
      ["Music-User-Token: sandbox-user-token", "Music-User-Token: other"], ["If-Match: \"1\"", "If-Match: \"2\""],
      ["Music-User-Token: sandbox-user-token, other"], ["Music-User-Token: a b"], ["Content-Range: bytes 0-1/2"],
      ["Music-User-Token: \(String(repeating: "a", count: 4097))"],
    ])
  func ambiguous(_ fields: [String]) throws {
    let ground = try CatalogGround(CatalogGround.forEverybody)
    let response = try ParsedResponse(
      curl: fields.flatMap { ["-H", $0] } + ["-X", "PUT", "-d", "{}", "\(ground.server.url)/v1/me/library/songs"])
    #expect(response.status == 400)
    #expect(response.errorCode == "malformed_request")
    #expect(!response.text.contains("sandbox-user-token"))
    #expect(try ground.emulator.count() == 0)
  }

  @Test("X-Request-ID is neither used nor forwarded")
  func requestID() throws {
    let ground = try CatalogGround()
    let response = try ground.request(CatalogGround.album, "-H", "X-Request-ID: mine")
    #expect(response["X-Request-ID"] != "mine")
    #expect(try ground.emulator.requests().map(\.names) == [Self.sent])
  }
}

@Suite("A response field")
struct CatalogResponseFieldTests {
  private static let foreign = [
    "Set-Cookie", "Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Access-Control-Expose-Headers",
    "Proxy-Authenticate", "Strict-Transport-Security", "Alt-Svc", "Server", "Keep-Alive", "Transfer-Encoding",
  ]

  @Test("X-Content-Type-Options is nosniff in every response, and content of Apple's, or in its place, runs nothing")
  func nosniff() throws {
    let ground = try CatalogGround(CatalogGround.forEverybody)
    let tag = try #require(try ground.request(CatalogGround.album)["ETag"])
    let hit = try ground.request(CatalogGround.album)
    #expect(hit.isHit)
    let responses = [
      hit, try ground.request(CatalogGround.album, "-I"),
      try ground.request(CatalogGround.album, "-H", "If-None-Match: \(tag)"),
      try ground.request(CatalogGround.album, "-H", "Accept-Encoding: gzip"),
      try ground.request("/v1/catalog/us/songs/1"), try ground.request("/v1/test"),
      try ground.request("/v1/me/library/playlists", "-H", "Music-User-Token: sandbox-user-token"),
      try ground.request("/v1/storefronts?sandbox[fault]=status=503"), try ground.request("/v1/nothing"),
      try ground.request("/v1/storefronts?sandbox[fault]=huge=2000000", "-o", "/dev/null", "-D", "-"),
      try ground.request("/token"), try ground.request("/token", "-H", "Accept: text/plain"),
      try ground.request("/token?ttl=1"), try ground.request("/nowhere"), try ground.request("/openapi.json"),
    ]
    #expect(responses.map(\.status) == [200, 200, 304, 200, 404, 200, 200, 502, 404, 200, 200, 200, 400, 404, 200])
    for (index, response) in responses.enumerated() {
      #expect(response["X-Content-Type-Options"] == "nosniff", "\(index)")
      // The server makes the others, and they have nothing of Apple in them.
      guard index < 8 || index == 9 else { continue }
      #expect(response["Content-Security-Policy"]?.contains("default-src 'none'") == true, "\(index)")
    }
  }

  @Test("Location is forwarded from Apple only if it is a URI", arguments: [false, true])
  func location(_ isSecure: Bool) throws {
    let ground = try CatalogGround(isSecure: isSecure)
    for (fault, location) in [("/v1/a", "/v1/a"), ("/v1/a%20b", nil), ("/v1/%C3%A9", nil)] as [(String, String?)] {
      let response = try ground.request("/v1/storefronts?sandbox[fault]=redirect=\(fault)")
      #expect(response.status == 301)
      #expect(response["Location"] == location, "\(fault)")
    }
  }

  @Test("that only this server may set is not forwarded from Apple", arguments: [false, true])
  func foreign(_ isSecure: Bool) throws {
    let ground = try CatalogGround(CatalogGround.forEverybody, emulator: ["--fault", "set-cookie"], isSecure: isSecure)
    #expect(try ground.original(CatalogGround.album)["Set-Cookie"] != nil, "Apple sends some")
    for path in [CatalogGround.album, "/v1/me/library/songs", "/v1/test", "/v1/catalog/us/albums/1"] {
      let response = try ground.request(path, "-H", "Music-User-Token: sandbox-user-token")
      for name in Self.foreign { #expect(response[name] == nil, "\(path): \(name)") }
      #expect(response["X-Apple-Jingle-Correlation-Key"] == "SANDBOX", "\(path)")
      #expect(response["Via"]?.hasSuffix(" musickit-token-server") == true, "\(path)")
      #expect(response["Cache-Status"]?.hasPrefix("musickit-token-server; fwd=") == true, "\(path)")
      #expect(response["X-Request-ID"] != nil, "\(path)")
    }
  }

  @Test("Set-Cookie keeps a response out of the cache")
  func cookie() throws {
    let ground = try CatalogGround(emulator: ["--fault", "set-cookie"])
    for _ in 0..<2 { #expect(!(try ground.request(CatalogGround.album)).isHit) }
    #expect(try ground.emulator.count() == 2)
  }
}
