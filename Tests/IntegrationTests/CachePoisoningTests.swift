import TestSupport
import Testing

@Suite("Cache poisoning")
struct CachePoisoningTests {
  /// A target that is not in the cache.
  private static func target(_ index: Int) -> String {
    "/v1/catalog/us/playlists/pl.00000000000000000000000000000250/tracks?limit=1&offset=\(index)"
  }

  private static let fields = [
    "X-Forwarded-Host: evil.example", "X-Forwarded-Proto: gopher", "X-Forwarded-For: 1.2.3.4", "X-Host: evil.example",
    "Forwarded: host=evil.example", "X-Original-URL: /v1/storefronts", "X-Rewrite-URL: /v1/storefronts",
    "X-HTTP-Method-Override: POST", "X-Sandbox-Fault: status=404", "X-Sandbox-Fault: set-cookie", "Accept: text/html",
    "Accept: image/png", "Accept-Language: de", "Accept-Encoding: br", "Accept-Encoding: gzip", "Range: bytes=0-9",
    "Range: bytes=99999-", "If-Range: \"x\"", "If-None-Match: *", "If-Modified-Since: Thu, 01 Jan 2037 00:00:00 GMT",
    "If-Match: \"x\"", "Authorization: Bearer x", "Cookie: a=b", "Music-User-Token: sandbox-user-token",
    "Content-Type: text/html", "Cache-Control: no-transform", "Cache-Control: max-stale", "Pragma: akamai-x-get",
    "Upgrade: h2c", "TE: trailers", "Via: 1.1 evil", "Max-Forwards: 0", "User-Agent: evil",
    "Referer: https://a.example",
    "Connection: host, accept, authorization", "X-Request-ID: evil", "Trailer: x", "Priority: u=0, i",
    "Content-Length: 0",
  ]

  @Test("by a header field has no effect on the next caller")
  func fields() throws {
    let ground = try CatalogGround(CatalogGround.forEverybody)
    for (index, field) in Self.fields.enumerated() {
      let target = Self.target(index)
      _ = try ground.request(target, "-H", field)
      try Self.expectOriginal(target, field, ground)
    }
  }

  @Test("by a Host field or an absolute target has no effect on the next caller")
  func host() throws {
    let ground = try CatalogGround()
    for (index, (form, host)) in [
      ("", "evil.example"), ("", "api.music.apple.com"), ("http://evil.example", "evil.example"),
      ("", "evil.example:80"),
    ].enumerated() {
      let target = Self.target(index)
      let connection = try ground.connect()
      connection.send("GET \(form)\(target) HTTP/1.1\r\nHost: \(host)\r\n\r\n")
      #expect(try connection.response().status == 200)
      try Self.expectOriginal(target, host, ground)
    }
  }

  @Test("by the content of a GET has no effect on the next caller", arguments: [true, false])
  func content(_ isChunked: Bool) throws {
    let ground = try CatalogGround()
    for (index, content) in ["term=x", "{\"data\":[]}", "GET /v1/storefronts HTTP/1.1\r\nHost: a\r\n\r\n"].enumerated()
    {
      let target = Self.target(index)
      let connection = try ground.connect()
      let length = content.utf8.count
      connection.send(
        "GET \(target) HTTP/1.1\r\nHost: a\r\n"
          + (isChunked
            ? "Transfer-Encoding: chunked\r\n\r\n\(String(length, radix: 16))\r\n\(content)\r\n0\r\n\r\n"
            : "Content-Length: \(length)\r\n\r\n\(content)"))
      _ = try connection.response()
      try Self.expectOriginal(target, content, ground)
    }
    #expect(try ground.emulator.requests().allSatisfy { $0.contentLength == 0 })
    #expect(try ground.emulator.requests().allSatisfy { $0.path.hasPrefix("/v1/catalog/us/playlists/") })
  }

  @Test("by a path suffix or a parameter has no effect on the next caller")
  func suffixes() throws {
    let ground = try CatalogGround()
    let album = CatalogGround.album
    for suffix in [
      ".json", ".css", "/x.css", ";x", "%00", "%3f", "%23", "%0a", "/", "?utm_source=x", "?_=1", "?callback=x", "?",
      "?x=%00", "?sandbox[fault]=status=404", "?sandbox%5Bfault%5D=set-cookie", "?l=de-DE",
    ] {
      let connection = try ground.connect()
      connection.send("GET \(album)\(suffix) HTTP/1.1\r\nHost: a\r\n\r\n")
      _ = try connection.response()
      try Self.expectOriginal(album, suffix, ground)
    }
  }

  @Test("by a method or an aborted request has no effect on the next caller")
  func methods() throws {
    let ground = try CatalogGround()
    for (index, method) in ["HEAD", "POST", "OPTIONS", "TRACE", "PURGE", "DELETE"].enumerated() {
      let target = Self.target(index)
      try ground.connect().send("\(method) \(target) HTTP/1.1\r\nHost: a\r\n\r\n")
      try Self.expectOriginal(target, method, ground)
    }
  }

  /// Expects that another caller gets Apple's own response, twice.
  private static func expectOriginal(_ target: String, _ poison: String, _ ground: CatalogGround) throws {
    let original = try ground.original(target)
    for _ in 0..<2 {
      let response = try ground.request(target)
      #expect(response.status == 200 && response.body == original.body, "\(poison)")
      #expect(response["Content-Type"] == original["Content-Type"], "\(poison)")
      #expect(response["Content-Encoding"] == nil && response["Content-Range"] == nil, "\(poison)")
      #expect(response["Set-Cookie"] == nil, "\(poison)")
    }
  }
}
