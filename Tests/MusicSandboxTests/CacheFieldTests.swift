import Testing

@testable import MusicSandbox

@Suite struct CacheFieldTests {
  private static let album = "/v1/catalog/us/albums/1200868601"

  @Test(
    "a response has the caching fields that the options select",
    arguments: [
      (CacheFields.etag, true, false), (.maxAge, false, true), (.both, true, true), (.none, false, false),
    ])
  func fields(choice: CacheFields, hasTag: Bool, hasAge: Bool) throws {
    let response = try Ground { $0.cacheFields = choice }.respond("/v1/catalog/us/charts?types=songs")
    #expect((response.fields.single("etag") != nil) == hasTag)
    #expect((response.fields.single("cache-control") == "max-age=300") == hasAge)
  }

  @Test("by default each combination of caching fields occurs, but never under /me or on errors")
  func mixed() throws {
    let ground = try Ground()
    for (target, hasTag, hasAge) in [
      (Self.album, true, false), ("/v1/catalog/us/artists/82842423", false, true), ("/v1/storefronts", true, true),
      ("/v1/catalog/us/search?term=a", false, false), ("/v1/me/storefront", false, false),
      ("/v1/catalog/us/albums/1", false, false), ("/v1/test", false, false),
    ] {
      let response = ground.respond(target, user: Ground.userToken)
      #expect((response.fields.single("etag") != nil) == hasTag, "\(target)")
      #expect((response.fields.single("cache-control") != nil) == hasAge, "\(target)")
    }
  }

  @Test("a request with a matching If-None-Match gets 304 without content")
  func notModified() throws {
    let ground = try Ground()
    let tag = try #require(ground.respond(Self.album).fields.single("etag"))
    for (value, status) in [
      (tag, 304), ("W/\(tag)", 304), ("\"x\", \(tag)", 304), ("*", 304), ("\"x\"", 200), (String(tag.dropLast()), 200),
    ] {
      let response = ground.respond(Self.album, fields: [field("If-None-Match", value)])
      #expect(response.status == status, "\(value)")
      #expect(response.content.isEmpty == (status == 304))
      #expect(response.fields.single("etag") == tag)
    }
    #expect(ground.respond("\(Self.album)?l=es-MX").fields.single("etag") != tag)
  }
}
