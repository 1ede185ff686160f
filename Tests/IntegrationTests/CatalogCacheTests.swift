import JSON
import TestSupport
import Testing

@Suite("The cache")
struct CatalogCacheTests {
  private static let album = CatalogGround.album
  private static let searches = "/v1/catalog/us/search"

  @Test("answers a matching If-None-Match with 304", arguments: [CatalogGround.album, "/v1/catalog/us/genres"])
  func notModified(_ target: String) throws {
    let ground = try CatalogGround()
    let tag = try #require(try ground.request(target)["ETag"])
    for value in [tag, "W/\(tag)", "\"x\", \(tag)", "*"] {
      let response = try ground.request(target, "-H", "If-None-Match: \(value)")
      #expect(response.status == 304, "\(value)")
      #expect(response.body.isEmpty)
      #expect(response["ETag"] == tag)
      #expect(response["Cache-Control"] != nil && response["Vary"] != nil && response["Date"] != nil)
      #expect(response["Content-Type"] == nil)
    }
    #expect(try ground.request(target, "-H", "If-None-Match: \"x\"").status == 200)
    #expect(try ground.emulator.count() == 1)
  }

  @Test("sends gzip to a client that accepts gzip, with the same content and another ETag")
  func gzip() throws {
    let ground = try CatalogGround()
    let plain = try ground.request(Self.album)
    let packed = try ground.request(Self.album, "-H", "Accept-Encoding: gzip")
    #expect(packed["Content-Encoding"] == "gzip")
    #expect(packed.body.starts(with: [0x1f, 0x8b]) && packed.body.count < plain.body.count)
    #expect(packed["Content-Length"] == "\(packed.body.count)")
    #expect(packed["ETag"] != plain["ETag"])
    #expect(try ground.request(Self.album, "--compressed").body == plain.body)
    for response in [plain, packed] { #expect(response["Vary"]?.contains("Accept-Encoding") == true) }
    for refused in ["gzip;q=0", "br", "identity"] {
      let response = try ground.request(Self.album, "-H", "Accept-Encoding: \(refused)")
      #expect(response["Content-Encoding"] == nil && response.body == plain.body, "\(refused)")
    }
    let tag = try #require(packed["ETag"])
    let known = try ground.request(Self.album, "-H", "Accept-Encoding: gzip", "-H", "If-None-Match: \(tag)")
    #expect(known.status == 304)
    #expect(try ground.emulator.count() == 1)
  }

  @Test("answers HEAD from the response to a GET")
  func head() throws {
    let ground = try CatalogGround()
    let get = try ground.request(Self.album)
    let head = try ground.request(Self.album, "-I")
    #expect(head.isHit && head.body.isEmpty)
    for name in ["Content-Length", "ETag", "Content-Type", "Cache-Control"] { #expect(head[name] == get[name]) }
    #expect(try ground.emulator.count() == 1)
  }

  @Test("answers GET from the response to a HEAD")
  func headFirst() throws {
    let ground = try CatalogGround()
    let head = try ground.request(Self.album, "-I")
    let get = try ground.request(Self.album)
    #expect(head["Content-Length"] == "\(get.body.count)")
    #expect(get.isHit)
    #expect(try ground.emulator.requests().map(\.method) == ["GET"])
  }

  @Test("ignores the order and the escaping of parameters")
  func order() throws {
    let ground = try CatalogGround()
    let first = try ground.request("\(Self.searches)?term=khalid&types=albums")
    for query in ["types=albums&term=khalid", "term=%6bhalid&types=albums", "types=%61lbums&term=khalid"] {
      let second = try ground.request("\(Self.searches)?\(query)")
      #expect(second.isHit && second.body == first.body, "\(query)")
    }
  }

  @Test("distinguishes requests that Apple may answer differently")
  func others() throws {
    let ground = try CatalogGround()
    let queries = [
      "term=khalid&types=albums", "term=khalid&types=songs", "term=khalid", "term=khalid&types=albums&l=en-US",
      "term=Khalid&types=albums", "term=khalid&types=albums&", "term=khalid&types=albums&x",
      "term=khalid&types=albums&types=songs", "term=khalid%26types=albums", "TERM=khalid&types=albums",
      "term=khalid+&types=albums",
    ]
    for query in queries { #expect(!(try ground.request("\(Self.searches)?\(query)").isHit), "\(query)") }
    #expect(try ground.emulator.count() == queries.count)
  }

  @Test("revalidates a response if the client asks for this, and keeps a valid response")
  func revalidation() throws {
    let ground = try CatalogGround()
    let first = try ground.request(Self.album)
    for control in ["Cache-Control: no-cache", "Pragma: no-cache"] {
      let response = try ground.request(Self.album, "-H", control)
      #expect(response.status == 200 && response.body == first.body, "\(control)")
      #expect(response["Cache-Status"]?.contains("fwd=request; fwd-status=304") == true, "\(control)")
      let request = try #require(try ground.emulator.requests().last)
      #expect(request.status == 304 && request["if-none-match"] == first["ETag"], "\(control)")
    }
    #expect(try ground.emulator.count() == 3)
    #expect(try ground.request(Self.album).isHit)
  }

  @Test("fetches a response without an upstream ETag again if the client asks for revalidation")
  func withoutTag() throws {
    let ground = try CatalogGround()
    let genres = "/v1/catalog/us/genres"
    let tag = try #require(try ground.request(genres)["ETag"], "we have one of our own")
    let response = try ground.request(genres, "-H", "Cache-Control: no-cache", "-H", "If-None-Match: \(tag)")
    #expect(response.status == 304, "the caller has it")
    #expect(try ground.emulator.requests().map { $0["if-none-match"] } == [nil, nil])
    #expect(try ground.emulator.requests().map(\.status) == [200, 200])
  }

  @Test("sends no upstream request for only-if-cached")
  func onlyIfCached() throws {
    let ground = try CatalogGround()
    let control = "Cache-Control: only-if-cached"
    let miss = try ground.request(Self.album, "-H", control)
    #expect(miss.status == 504)
    #expect(miss["Cache-Status"] == #"musickit-token-server; detail="only-if-cached""#)
    #expect(miss.error != nil)
    #expect(try ground.emulator.count() == 0)
    _ = try ground.request(Self.album)
    #expect(try ground.request(Self.album, "-H", control).isHit)
    #expect(try ground.emulator.count() == 1)
  }

  @Test("stores nothing for a request with no-store")
  func noStore() throws {
    let ground = try CatalogGround()
    for _ in 0..<2 {
      let response = try ground.request(Self.album, "-H", "Cache-Control: no-store")
      #expect(response.status == 200 && !response.isHit)
      #expect(response["Cache-Status"]?.contains("stored") == false)
    }
    #expect(!(try ground.request(Self.album).isHit))
    #expect(try ground.emulator.count() == 3)
  }

  @Test("stores a 404 for one minute")
  func notFound() throws {
    let ground = try CatalogGround()
    let first = try ground.request("/v1/catalog/us/albums/1")
    #expect(first.status == 404)
    #expect(first["Cache-Control"] == "public, max-age=60")
    let second = try ground.request("/v1/catalog/us/albums/1")
    #expect(second.status == 404 && second.isHit && second.body == first.body)
    #expect(try ground.emulator.count() == 1)
  }

  @Test("stores no transient error", arguments: ["status=500", "status=503", "status=400", "status=403"])
  func errors(_ fault: String) throws {
    let ground = try CatalogGround()
    try ground.emulator.fail(fault, count: 1)
    #expect(try ground.request(Self.album).status >= 400)
    let response = try ground.request(Self.album)
    #expect(response.status == 200 && !response.isHit)
  }

  @Test("stores nothing if its size is 0")
  func unkept() throws {
    let ground = try CatalogGround(["CATALOG_CACHE_MAX_BYTES": "0"])
    for target in ["/v1/test", Self.album] {
      for _ in 0..<2 { #expect(!(try ground.request(target).isHit)) }
    }
    #expect(try ground.emulator.count() == 4)
  }

  @Test("serves a stale response during an upstream outage and marks the response as stale", arguments: [false, true])
  func upstreamGone(_ isSecure: Bool) throws {
    let ground = try CatalogGround(
      [
        "CATALOG_CACHE_LIFETIME": "0s", "CATALOG_CACHE_STALE_WHILE_REVALIDATE": "0s",
        "CATALOG_TIMEOUTS_STALE_AFTER": "10m",
      ], isSecure: isSecure)
    let first = try ground.request(Self.searches + "?term=khalid&types=albums")
    #expect(first.status == 200)
    ground.emulator.stop()
    let stale = try ground.request(Self.searches + "?term=khalid&types=albums")
    #expect(stale.status == 200 && stale.body == first.body)
    #expect(stale["Cache-Status"]?.contains("fwd=stale") == true)
    #expect(stale["Cache-Status"]?.contains("stale-if-error") == true)
    #expect(stale["Proxy-Status"]?.contains("error=") == true)
    let other = try ground.request(Self.album)
    #expect(other.status == 502)
    #expect(other.errorCode == "upstream_error")
    #expect(other["Proxy-Status"]?.contains("error=") == true)
    #expect(try ground.request("/readyz").status == 200)
  }
}
