import JSON
import TestSupport
import Testing

@Suite("The catalog")
struct CatalogRouteTests {
  private static let search = "/v1/catalog/us/search?term=khalid&types=albums"
  private static let routes = [
    "/v1/catalog/us?ids[songs]=1200868616&ids[albums]=1200868601", CatalogGround.album,
    "\(CatalogGround.album)?include=artists&extend=artistUrl&l=en-US",
    "\(CatalogGround.album)/tracks?limit=2&offset=1", "/v1/catalog/us/songs?ids=1200868616,1200868874",
    "/v1/catalog/us/songs?filter[isrc]=ZZSBX1768616", "/v1/catalog/jp/albums/9000040000",
    "/v1/catalog/us/artists/82842423", search, "/v1/catalog/us/search/hints?term=kha",
    "/v1/catalog/us/search/suggestions?term=kha&kinds=terms", "/v1/catalog/us/charts?types=songs",
    "/v1/catalog/us/genres", "/v1/storefronts", "/v1/storefronts/us", "/v1/storefronts?ids=us,de",
    "/v1/language/us/tag?acceptLanguage=en-GB", "/v1/test",
  ]

  @Test("returns Apple's responses byte for byte on every route", arguments: [false, true])
  func routes(_ isSecure: Bool) throws {
    let ground = try CatalogGround(isSecure: isSecure)
    for route in Self.routes {
      let original = try ground.original(route)
      let response = try ground.request(route)
      #expect(response.status == 200, "\(route): \(response.text)")
      #expect(response.body == original.body, "\(route)")
      #expect(response["Content-Type"] == original["Content-Type"], "\(route)")
    }
    let ours = try ground.emulator.requests().filter { $0["via"] != nil }
    #expect(ours.count == Self.routes.count)
    #expect(ours.allSatisfy { $0.hasLowercaseNames == isSecure }, "over TLS it is HTTP/2")
  }

  @Test("answers HEAD with the length of GET and without content")
  func head() throws {
    let ground = try CatalogGround()
    for route in Self.routes {
      let head = try ground.request(route, "-I")
      let get = try ground.request(route)
      #expect(head.status == 200 && head.body.isEmpty, "\(route)")
      #expect(head["Content-Length"] == get["Content-Length"], "\(route)")
    }
  }

  @Test("forwards every query byte for byte")
  func queries() throws {
    let ground = try CatalogGround()
    let connection = try ground.connect()
    let queries = [
      "ids[songs]=1200868616&ids%5Balbums%5D=1200868601", "term=a%2Cb,c&l=de-DE", "term=%E2%82%AC+x%20y", "a=b=c&&d",
      "term=it's(ok)!*;:@/?&limit=1", "x=%7e~&x=%7E", "term=%e2%82%ac&types=albums,songs", "b=2&a=1&b=1", "x=\\^`{|}",
      "", "&", "term=khalid&term=khalid", "l=",
    ]
    for query in queries {
      connection.send("GET /v1/catalog/us/search?\(query) HTTP/1.1\r\nHost: a\r\n\r\n")
      let response = try connection.response()
      #expect(response["Via"] != nil, "\(query): \(response.text)")
    }
    #expect(try ground.emulator.requests().map { $0.query ?? "" } == queries)
  }

  @Test("has next links that lead through a long playlist, each track once", arguments: [false, true])
  func paging(_ isSecure: Bool) throws {
    let ground = try CatalogGround(isSecure: isSecure)
    var next: String? = "/v1/catalog/us/playlists/pl.00000000000000000000000000000250/tracks"
    var tracks: [String?] = []
    while let target = next, tracks.count <= 250 {
      let json = try #require(try ground.request(target).json)
      tracks += try #require(json["data"]).elements.map { $0["id"]?.string }
      next = json["next"]?.string
    }
    #expect(tracks.count == 250)
    #expect(Set(tracks).count == 250)
  }

  @Test("finds an album and answers the second request from the cache")
  func search() throws {
    let ground = try CatalogGround()
    let first = try ground.request(Self.search)
    #expect(first.json?["results"]?["albums"]?["data"]?.elements.first?["id"]?.string == "1200868601")
    #expect(!first.isHit)
    let second = try ground.request(Self.search)
    #expect(second.isHit)
    #expect(second.body == first.body)
    #expect(try ground.emulator.count() == 1)
  }

  @Test(
    "forwards Apple's errors about missing resources", arguments: ["albums/1", "albums?ids=", "nonsense"])
  func errors(_ path: String) throws {
    let ground = try CatalogGround()
    let original = try ground.original("/v1/catalog/us/\(path)")
    let response = try ground.request("/v1/catalog/us/\(path)")
    #expect(response.status == original.status && response.status >= 400)
    #expect(response.error?["code"] == original.error?["code"])
    #expect(response.error?["title"] == original.error?["title"])
    #expect(response.error?.names == original.error?.names)
  }

  @Test("sends a valid developer token without an Origin field")
  func token() throws {
    let ground = try CatalogGround()
    _ = try ground.request(CatalogGround.album)
    let request = try #require(try ground.emulator.requests().first)
    #expect(request.developerToken.hasPrefix("accepted: team \(Ground.teamID), key \(Ground.keyID), "))
    #expect(request["origin"] == nil)
  }

  @Test("answers 404 if it is disabled")
  func disabled() throws {
    let ground = try CatalogGround(["CATALOG_ENABLED": "false"])
    #expect(try ground.request(CatalogGround.album).errorCode == "not_found")
    #expect(try ground.emulator.count() == 0)
  }
}
