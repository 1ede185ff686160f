import JSON
import TestSupport
import Testing

@Suite("An upstream response")
struct UpstreamResponseTests {
  private static let ok = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"

  /// Responses that no correct server sends, by name.
  private static let malformed: [(name: String, bytes: String)] = [
    ("length-and-coding", ok + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"),
    ("two-lengths", ok + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} "),
    ("negative-length", ok + "Content-Length: -1\r\n\r\n{}"),
    ("signed-length", ok + "Content-Length: +2\r\n\r\n{}"),
    ("endless-length", ok + "Content-Length: 99999999999999999999\r\n\r\n{}"),
    ("unknown-coding", ok + "Transfer-Encoding: gzip\r\n\r\n{}"),
    ("coding-not-last", ok + "Transfer-Encoding: chunked, gzip\r\n\r\n2\r\n{}\r\n0\r\n\r\n"),
    ("folded", ok + "X-Folded: a\r\n b\r\nContent-Length: 2\r\n\r\n{}"),
    ("space-before-colon", ok + "Content-Length : 2\r\n\r\n{}"),
    ("nul", ok + "X-Nul: a\0b\r\nContent-Length: 2\r\n\r\n{}"),
    ("bare-cr", ok + "X-Cr: a\rSet-Cookie: b\r\nContent-Length: 2\r\n\r\n{}"),
    ("no-name", ok + ": x\r\nContent-Length: 2\r\n\r\n{}"),
    ("oversized", ok + "X-Big: " + String(repeating: "a", count: 300_000) + "\r\nContent-Length: 2\r\n\r\n{}"),
    ("many-fields", ok + String(repeating: "X-A: 1\r\n", count: 5000) + "Content-Length: 2\r\n\r\n{}"),
    ("short", ok + "Content-Length: 100\r\n\r\n{\"data\":[]}"),
    ("short-chunk", ok + "Transfer-Encoding: chunked\r\n\r\n64\r\n{\"data\":[]}"),
    ("no-last-chunk", ok + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"),
    ("bad-chunk", ok + "Transfer-Encoding: chunked\r\n\r\nx\r\n{}\r\n0\r\n\r\n"),
    ("endless-chunk", ok + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{}\r\n0\r\n\r\n"),
    ("nothing", ""), ("no-status", "{}"), ("version", "HTTP/9.9 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
    ("status", "HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\n{}"),
    ("switched", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"),
    (
      "endless-interim",
      String(repeating: "HTTP/1.1 100 Continue\r\n\r\n", count: 100) + ok + "Content-Length: 2\r\n\r\n{}"
    ),
    ("unasked-206", "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-1/9\r\nContent-Length: 2\r\n\r\n{}"),
    ("part-without-range", "HTTP/1.1 206 Partial Content\r\nContent-Length: 2\r\n\r\n{}"),
    ("unasked-304", "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n"),
    ("no-gzip", ok + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}"),
  ]

  @Test("that is malformed or incomplete gives 502 each time, never a complete response")
  func malformed() throws {
    let upstream = try RawUpstream(Dictionary(uniqueKeysWithValues: Self.malformed.map { ($0.name, $0.bytes) }))
    let ground = try Ground()
    for (name, _) in Self.malformed {
      // Each response has its own server, with a closed circuit.
      let server = try upstream.serve(ground)
      for _ in 0..<2 {
        let response = try server.request("/v1/catalog/us/songs/\(name)", "-H", "Accept-Encoding: gzip")
        #expect(response.status == 502, "\(name)")
        #expect(response.errorCode == "upstream_error", "\(name): \(response.text)")
        #expect(response["Proxy-Status"] != nil, "\(name)")
        #expect(response["Cache-Control"] == "no-store", "\(name)")
        #expect(response["Set-Cookie"] == nil, "\(name)")
      }
      #expect(server.stop() == 0)
      var paths: [String] = []
      while paths.count < 2 { paths.append(try #require(try upstream.next()["line"]?.string)) }
      #expect(paths.allSatisfy { $0.contains("/songs/") }, "both have arrived")
    }
  }

  @Test("loses hop-by-hop fields, the fields named by Connection, and fields without use for a client")
  func connection() throws {
    let response =
      Self.ok + "Connection: x-secret, content-language\r\nX-Secret: 1\r\nContent-Language: de\r\n"
      + "Keep-Alive: timeout=5\r\nX-Powered-By: x\r\nServer: x\r\nContent-Length: 2\r\n\r\n{}"
    let upstream = try RawUpstream(["response": response])
    let server = try upstream.serve(try Ground())
    let received = try server.request("/v1/catalog/us/songs/response")
    #expect(received.text == "{}")
    #expect(
      Set(received.fields.map(\.name)) == [
        "Content-Type", "Via", "Cache-Control", "Vary", "ETag", "Date", "Cache-Status", "Content-Length",
        "X-Request-ID", "X-Content-Type-Options", "Content-Security-Policy",
      ])
  }

  @Test("may follow interim responses, which are not forwarded")
  func interim() throws {
    let early = "HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
    let upstream = try RawUpstream(["early": early + Self.ok + "Content-Length: 2\r\n\r\n{}"])
    let server = try upstream.serve(try Ground())
    let connection = try server.connect()
    connection.send("GET /v1/catalog/us/songs/early HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    let all = try connection.receiveAll()
    #expect(all.hasPrefix("HTTP/1.1 200 ") && all.hasSuffix("\r\n\r\n{}"))
    #expect(!all.contains("Link"))
  }

  @Test("may be chunked, with extensions, and with trailers that are not forwarded")
  func chunked() throws {
    let chunked =
      Self.ok + "Transfer-Encoding: chunked\r\nTrailer: X-Late\r\n\r\n"
      + "9;a=\"b\"\r\n{\"data\":[\r\n2\r\n]}\r\n0\r\nX-Late: 1\r\nSet-Cookie: a=b\r\n\r\n"
    let upstream = try RawUpstream(["chunked": chunked])
    let server = try upstream.serve(try Ground())
    let response = try server.request("/v1/catalog/us/songs/chunked")
    #expect(response.text == "{\"data\":[]}")
    #expect(response["X-Late"] == nil && response["Set-Cookie"] == nil && response["Trailer"] == nil)
    #expect(response["Content-Length"] == "11")
  }

  @Test("may be of HTTP/1.0 and end with its connection")
  func untilClose() throws {
    let upstream = try RawUpstream(["old": "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{\"data\":[]}"])
    #expect(try upstream.serve(try Ground()).request("/v1/catalog/us/songs/old").text == "{\"data\":[]}")
  }

  @Test("with surplus bytes does not affect the next response")
  func surplus() throws {
    let surplus = Self.ok + "Content-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"
    let upstream = try RawUpstream(["surplus": surplus])
    let server = try upstream.serve(try Ground())
    #expect(try server.request("/v1/catalog/us/songs/surplus").text == "{}")
    for name in ["a", "b"] {
      #expect(try server.request("/v1/catalog/us/songs/\(name)").json?["data"] == .array([]))
    }
  }

  @Test("with a redirect is forwarded and not followed, and its Location is local if it leads to Apple")
  func redirects() throws {
    let upstream = try RawUpstream()
    let server = try upstream.serve(try Ground())
    let other = upstream.url.dropLast()
    for (index, (location, localised)) in [
      ("\(upstream.url)/v1/catalog/us/songs/2?l=de", "/v1/catalog/us/songs/2?l=de"),
      ("/v1/catalog/us/songs/2", "/v1/catalog/us/songs/2"),
      ("https://elsewhere.example/x", "https://elsewhere.example/x"),
      ("\(upstream.url)//evil.example/", "\(upstream.url)//evil.example/"), ("\(other)/x", "\(other)/x"),
    ].enumerated() {
      try upstream.respond(
        "r\(index)", with: "HTTP/1.1 302 Found\r\nLocation: \(location)\r\nContent-Length: 0\r\n\r\n")
      let response = try server.request("/v1/catalog/us/songs/r\(index)")
      #expect(response.status == 302)
      #expect(response["Location"] == localised)
      #expect(try upstream.next()["line"]?.string == "GET /v1/catalog/us/songs/r\(index) HTTP/1.1")
    }
    _ = try server.request("/v1/catalog/us/songs/last")
    #expect(try upstream.next()["line"]?.string?.contains("last") == true, "nothing was asked in between")
  }

  @Test(
    "that is too long for the cache and breaks off also breaks off at the client",
    arguments: ["reset", "truncate"], [false, true])
  func brokenStream(_ fault: String, _ isSecure: Bool) throws {
    let ground = try CatalogGround(isSecure: isSecure)
    try ground.emulator.fail("huge=3000000")
    let whole = try ground.request(CatalogGround.album)
    #expect(whole.status == 200 && whole.body.count == 3_000_000)
    try ground.emulator.fail("huge=3000000,\(fault)")
    #expect(throws: TestFailure.self) { try ground.request(CatalogGround.album) }
    let connection = try ground.connect()
    connection.send("GET \(CatalogGround.album) HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    let all = try connection.receiveAll()
    #expect(!all.hasSuffix("\r\n0\r\n\r\n"), "a chunked one has no end")
    #expect(try ground.server.request("/healthz").status == 200)
  }

  @Test("that breaks off is not stored, and the next request fetches it again", arguments: ["reset", "truncate"])
  func brokenResponse(_ fault: String) throws {
    let ground = try CatalogGround()
    try ground.emulator.fail(fault, count: 1)
    let broken = try ground.request(CatalogGround.album)
    #expect(broken.status == 502)
    #expect(broken.errorCode == "upstream_error")
    let whole = try ground.request(CatalogGround.album)
    #expect(whole.status == 200 && !whole.isHit)
    #expect(whole.body == (try ground.original(CatalogGround.album).body))
  }

  @Test("with status 5xx becomes 502 with an error object and Proxy-Status", arguments: [500, 503, 599])
  func failed(_ status: Int) throws {
    let ground = try CatalogGround(CatalogGround.forEverybody)
    try ground.emulator.fail("status=\(status)", path: "/v1/")
    for path in [CatalogGround.album, "/v1/me/library/songs"] {
      let response = try ground.request(path)
      #expect(response.status == 502)
      #expect(response.errorCode == "upstream_error")
      #expect(response["Proxy-Status"]?.contains("received-status=\(status)") == true)
    }
  }
}
