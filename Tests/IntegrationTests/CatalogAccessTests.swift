import Glibc
import TestSupport
import Testing

@Suite("Catalog access")
struct CatalogAccessTests {
  private static let page = "Origin: https://app.example.com"
  private static let listed = [
    "ACCESS_ANONYMOUS":
      "{ token: true, catalog: true, me: true, origins: ['https://app.example.com', 'https://b.example'] }",
    "CATALOG_ME": "true",
  ]

  @Test(
    "is refused without permission for the catalog", arguments: ["{}", "{ token: true }", "{ token: true, me: true }"])
  func notPermitted(_ policy: String) throws {
    let ground = try CatalogGround(["ACCESS_ANONYMOUS": policy])
    for path in [CatalogGround.album, "/v1/storefronts", "/v1/test"] {
      let response = try ground.request(path)
      #expect(response.status == 404)
      #expect(response.errorCode == "not_permitted")
      #expect(response["Cache-Control"] == "no-store")
    }
    #expect(try ground.request("/token").status == 200)
    #expect(try ground.emulator.count() == 0)
  }

  @Test("is granted to pages of the listed origins, which can read the response")
  func listed() throws {
    let ground = try CatalogGround(Self.listed)
    for (index, path) in [CatalogGround.album, CatalogGround.album, "/v1/me/storefront", "/v1/test"].enumerated() {
      let response = try ground.request(path, "-H", Self.page, "-H", "Music-User-Token: sandbox-user-token")
      #expect(response.status == 200)
      #expect(response.isHit == (index == 1))
      #expect(response["Access-Control-Allow-Origin"] == "https://app.example.com")
      #expect(response["Access-Control-Allow-Credentials"] == nil)
      #expect(response["Access-Control-Expose-Headers"]?.contains("Cache-Status") == true)
      #expect(response["Vary"]?.contains("Origin") == true)
    }
  }

  @Test("gives each page its own origin in the response, also from the cache")
  func ownName() throws {
    let ground = try CatalogGround(Self.listed)
    for origin in ["https://app.example.com", "https://b.example", "https://app.example.com"] {
      let response = try ground.request(CatalogGround.album, "-H", "Origin: \(origin)")
      #expect(response["Access-Control-Allow-Origin"] == origin)
    }
    #expect(try ground.emulator.count() == 1)
  }

  @Test(
    "is refused to pages of other origins, even if the response is in the cache",
    arguments: ["https://evil.example", "null", "https://app.example.com.evil.example", "http://app.example.com"])
  func foreign(_ origin: String) throws {
    let ground = try CatalogGround(Self.listed)
    #expect(try ground.request(CatalogGround.album, "-H", Self.page).status == 200)
    for path in [CatalogGround.album, "/v1/me/storefront"] {
      let response = try ground.request(path, "-H", "Origin: \(origin)")
      #expect(response.status == 404)
      #expect(response.errorCode == "origin_not_allowed")
      #expect(response["Access-Control-Allow-Origin"] == nil)
      #expect(response["Cache-Control"] == "no-store")
    }
    #expect(try ground.emulator.count() == 1)
  }

  @Test("is refused without an origin if the policy lists origins")
  func withoutOrigin() throws {
    let ground = try CatalogGround(Self.listed)
    let response = try ground.request(CatalogGround.album)
    #expect(response.status == 401)
    #expect(response.errorCode == "missing_credentials")
    #expect(response["WWW-Authenticate"] != nil)
    #expect(response["Vary"]?.contains("Origin") == true)
    #expect(try ground.emulator.count() == 0)
  }

  @Test("errors are readable for pages of the listed origins")
  func errors() throws {
    let ground = try CatalogGround(Self.listed)
    try ground.emulator.fail("status=503", path: "/v1/catalog/us/songs/")
    for (status, target, options) in [
      (404, "/v1/nothing", []), (400, "/v1/catalog/us/..;", []), (404, "/v1/catalog/us/albums/1", []),
      (405, CatalogGround.album, ["-X", "POST"]), (502, "/v1/catalog/us/songs/1", []), (403, "/v1/me/storefront", []),
      (504, "/v1/catalog/us/genres", ["-H", "Cache-Control: only-if-cached"]),
    ] {
      let response = try ParsedResponse(curl: options + ["-H", Self.page, "\(ground.server.url)\(target)"])
      #expect(response.status == status, "\(target)")
      #expect(response["Access-Control-Allow-Origin"] == "https://app.example.com", "\(target)")
      #expect(response["Access-Control-Expose-Headers"]?.contains("X-Request-ID") == true, "\(target)")
    }
  }

  @Test(
    "has a preflight that lists the allowed methods and fields",
    arguments: [("/v1/catalog/us/genres", false), ("/v1/me/library/songs", true)])
  func preflight(_ path: String, _ isUser: Bool) throws {
    let ground = try CatalogGround(Self.listed)
    let response = try ground.request(
      path, "-X", "OPTIONS", "-H", Self.page, "-H", "Access-Control-Request-Method: \(isUser ? "DELETE" : "GET")", "-H",
      "Access-Control-Request-Headers: music-user-token")
    #expect(response.status == 204)
    #expect(response["Access-Control-Allow-Origin"] == "https://app.example.com")
    #expect(response["Access-Control-Allow-Methods"] == (isUser ? "GET, POST, PUT, PATCH, DELETE" : "GET"))
    #expect(response["Access-Control-Allow-Headers"]?.contains("Music-User-Token") == true)
    #expect(try ground.emulator.count() == 0, "Apple is not asked")
  }

  @Test("has a preflight without CORS fields for other origins")
  func foreignPreflight() throws {
    let ground = try CatalogGround(Self.listed)
    let response = try ground.request(
      CatalogGround.album, "-X", "OPTIONS", "-H", "Origin: https://evil.example", "-H",
      "Access-Control-Request-Method: GET")
    #expect(!response.fields.contains { $0.name.hasPrefix("Access-Control") })
  }

  @Test("with a restricted policy gives private responses that vary by Origin")
  func privately() throws {
    let ground = try CatalogGround(Self.listed)
    for options in [[], [], ["-H", "Cache-Control: no-store"], ["-H", "Accept-Encoding: gzip"], ["-I"]] {
      let response = try ParsedResponse(
        curl: options + ["-H", Self.page, "\(ground.server.url)\(CatalogGround.album)"])
      #expect(response["Cache-Control"]?.hasPrefix("private") == true)
      #expect(response["Vary"]?.contains("Origin") == true)
    }
  }

  @Test("with an open policy gives public responses", arguments: [true, false])
  func publicly(_ hasFlag: Bool) throws {
    let ground = try CatalogGround(
      hasFlag ? ["ACCESS_ANONYMOUS": ""] : [:], flags: hasFlag ? ["--unsafe-allow-anonymous"] : [])
    for _ in 0..<2 {
      let response = try ground.request("/v1/storefronts")
      #expect(response["Cache-Control"] == "public, max-age=300")
    }
  }

  @Test("narrowed by a reload gives no response any more that is stored as public")
  func narrowed() throws {
    let directory = try TemporaryDirectory()
    let file = try directory.write("{ access: { anonymous: { catalog: true } } }", to: "config.json5")
    let ground = try CatalogGround(["MUSICKIT_CONFIG": file, "ACCESS_ANONYMOUS": ""])
    for cached in ["fwd=uri-miss", "hit"] {
      let response = try ground.request("/v1/storefronts")
      #expect(response["Cache-Control"]?.hasPrefix("public") == true)
      #expect(response["Cache-Status"]?.contains(cached) == true)
    }
    _ = try directory.write(
      "{ access: { anonymous: { catalog: true, origins: ['https://app.example.com'] } } }", to: "config.json5")
    ground.server.process.signal(SIGHUP)
    try ground.server.process.waitForErrors("Configuration reloaded")
    let response = try ground.request("/v1/storefronts", "-H", Self.page)
    #expect(response.status == 200)
    #expect(response["Cache-Control"]?.hasPrefix("private") == true)
    #expect(response["Vary"]?.contains("Origin") == true)
  }

  @Test("gives a response that names an origin only with Vary: Origin")
  func publicPages() throws {
    let ground = try CatalogGround(["ACCESS_ANONYMOUS": ""], flags: ["--unsafe-allow-anonymous"])
    for origin in ["https://a.example", "https://b.example"] {
      let response = try ground.request("/v1/storefronts", "-H", "Origin: \(origin)")
      #expect(response["Access-Control-Allow-Origin"] == "*" || response["Vary"]?.contains("Origin") == true)
    }
  }
}
