import JSON
import TestSupport
import Testing

@Suite("Access to /v1/me")
struct CatalogUserTests {
  private static let token = "Music-User-Token: sandbox-user-token"
  private static let playlists = "/v1/me/library/playlists"

  @Test("is refused unless it is enabled")
  func disabled() throws {
    let ground = try CatalogGround(["ACCESS_ANONYMOUS": "{ token: true, catalog: true, me: true }"])
    let response = try ground.request(Self.playlists, "-H", Self.token)
    #expect(response.status == 404)
    #expect(response.errorCode == "not_found")
    #expect(try #require(response.errorDetail).contains("catalog.me"))
    #expect(try ground.emulator.count() == 0)
  }

  @Test("is refused without permission for user data")
  func notPermitted() throws {
    let ground = try CatalogGround(["CATALOG_ME": "true"])
    let response = try ground.request(Self.playlists, "-H", Self.token)
    #expect(response.status == 404)
    #expect(response.errorCode == "not_permitted")
    #expect(try ground.request(CatalogGround.album).status == 200)
    #expect(try ground.emulator.requests().map(\.path) == [CatalogGround.album])
  }

  @Test("forwards the user token, and no cache stores the response", arguments: [false, true])
  func forwarded(_ isSecure: Bool) throws {
    let ground = try CatalogGround(CatalogGround.forEverybody, isSecure: isSecure)
    for _ in 0..<2 {
      let response = try ground.request(Self.playlists, "-H", Self.token)
      #expect(response.status == 200)
      #expect(response.json?["data"]?.elements.first?["attributes"]?["name"]?.string == "Mine")
      #expect(response["Cache-Control"] == "no-store")
      #expect(response["Cache-Status"] == "musickit-token-server; fwd=bypass")
    }
    #expect(try ground.emulator.requests().map { $0["music-user-token"] } == ["good", "good"])
  }

  @Test("forwards a 403 of Apple unchanged")
  func forbidden() throws {
    let ground = try CatalogGround(CatalogGround.forEverybody)
    for options in [[], ["-H", "Music-User-Token: wrong"], ["-H", "\(Self.token)-without-subscription"]] {
      let response = try ParsedResponse(curl: options + ["\(ground.server.url)\(Self.playlists)"])
      #expect(response.status == 403)
      #expect(["40300", "40015"].contains(response.error?["code"]?.string))
      #expect(response["Cache-Control"] == "no-store")
    }
    #expect(try ground.request(CatalogGround.album).status == 200, "that says nothing against our token")
  }

  @Test(
    "personal catalog requests give each user their own response, even if Apple's response is public",
    arguments: [
      "/v1/me/storefront", "/v1/catalog/us/songs/1?relate=library", "/v1/catalog/us/songs/1?relate%5Bsongs%5D=library",
      "/v1/catalog/us/playlists?filter[identity]=personal", "/v1/catalog/us/playlists?filter%5bidentity%5D=%70ersonal",
      "/v1/catalog/us/songs/1?relate=x,library&l=de", "/v1/catalog/us/songs/1?include=library",
      "/v1/catalog/us/songs?ids=1&inc%6cude%5bsongs%5D=artists%2Clibrary", "/v1/catalog/us/songs/1?extend=inFavorites",
      "/v1/catalog/us/songs/1?fields[songs]=name,inLibrary", "/v1/catalog/us/albums/1/library",
      "/v1/catalog/us/albums/1/libr%61ry",
    ])
  func users(_ target: String) throws {
    let upstream = try RawUpstream()
    let server = try upstream.serve(try Ground(), CatalogGround.forEverybody)
    for user in ["one", "two", "one"] {
      let response = try server.request(target, "-H", "Music-User-Token: \(user)")
      #expect(response.json?["user"]?.string == user)
      #expect(response["Cache-Control"] == "no-store")
      #expect(try upstream.next().field("music-user-token") == user)
    }
    #expect(try server.request(target).json?["user"]?.string == nil)
    _ = try upstream.next()
    let older = try server.request(target, "-H", "Media-User-Token: three")
    #expect(older.json?["user"]?.string == "three")
    #expect(try upstream.next().field("music-user-token") == "three")
  }

  @Test("other catalog requests forward no user token and share cached responses")
  func catalog() throws {
    let upstream = try RawUpstream()
    let server = try upstream.serve(try Ground(), CatalogGround.forEverybody)
    for (index, user) in ["one", "two"].enumerated() {
      let response = try server.request("/v1/catalog/us/songs/1?relate=albums", "-H", "Music-User-Token: \(user)")
      #expect(response.json?["user"]?.string == nil)
      #expect(response.isHit == (index > 0))
    }
    #expect(try upstream.next().field("music-user-token") == nil)
  }

  @Test(
    "forwards no request for something of a user's unless it is enabled, and says so without 403",
    arguments: [false, true])
  func personalCatalog(_ isForwarded: Bool) throws {
    let upstream = try RawUpstream()
    let server = try upstream.serve(try Ground(), ["CATALOG_ME": "\(isForwarded)"])
    for target in ["/v1/catalog/us/songs/1?include=library", "/v1/catalog/us/albums/1/library"] {
      let response = try server.request(target, "-H", "Music-User-Token: one")
      #expect(response.status == 404 && response.errorCode == "not_permitted")
      #expect(response.errorDetail?.contains(isForwarded ? "access.anonymous.me" : "catalog.me") == true)
      #expect(response["Cache-Control"] == "no-store")
      let shared = try server.request(target)
      #expect(shared.status == 200 && shared.json?["user"]?.string == nil)
      #expect(try upstream.next().field("music-user-token") == nil)
    }
    let plain = try server.request("/v1/catalog/us/songs/1?term=library", "-H", "Music-User-Token: one")
    #expect(plain.status == 200 && plain.json?["user"]?.string == nil)
  }

  @Test("allows a client to create, change and delete a playlist", arguments: [false, true])
  func playlist(_ isSecure: Bool) throws {
    let ground = try CatalogGround(CatalogGround.forEverybody, isSecure: isSecure)
    let type = "Content-Type: application/json"
    let made = try ground.request(
      Self.playlists, "-H", Self.token, "-H", type, "-d", "{\"attributes\":{\"name\":\"New\"}}")
    #expect(made.status == 201)
    let path = "\(Self.playlists)/\(try #require(made.json?["data"]?.elements.first?["id"]?.string))"
    func name() throws -> String? {
      try ground.request(path, "-H", Self.token).json?["data"]?.elements.first?["attributes"]?["name"]?.string
    }
    #expect(try name() == "New")
    #expect(try ground.request(path, "-X", "DELETE", "-H", Self.token).status == 401, "as Apple is reported to")
    try ground.emulator.fail("library-changes", path: "/v1/me/")
    let change = "{\"attributes\":{\"name\":\"Newer\"}}"
    let changed = try ground.request(path, "-X", "PATCH", "-H", Self.token, "-H", type, "-d", change)
    #expect(changed.status == 204 && changed.body.isEmpty)
    #expect(try name() == "Newer")
    #expect(try ground.request(path, "-X", "DELETE", "-H", Self.token).status == 204)
    #expect(try ground.request(path, "-H", Self.token).status == 404)
  }

  @Test("leaves no user token in the log, even at level trace", arguments: ["json", "text"])
  func log(_ format: String) throws {
    let ground = try CatalogGround(
      CatalogGround.forEverybody.merging(["LOG_FORMAT": format, "LOG_LEVEL": "trace"]) { $1 })
    for path in [
      Self.playlists, "/v1/me/nothing", CatalogGround.album, "\(CatalogGround.album)?relate=library", "/token",
    ] {
      _ = try ground.request("\(path)", "-H", "Music-User-Token: user-canary")
      _ = try ground.request("\(path)", "-X", "POST", "-H", "Music-User-Token: user-canary", "-d", "body-canary")
      _ = try ground.request("\(path)?query-canary", "-H", "Music-User-Token: user-canary,user-canary")
    }
    try ground.emulator.fail("status=503", path: "/v1/me/")
    _ = try ground.request(Self.playlists, "-H", "Music-User-Token: user-canary")
    #expect(ground.server.stop() == 0)
    let written = ground.server.log + String(decoding: ground.server.process.standardOutput, as: UTF8.self)
    #expect(written.contains("/v1/me/library"), "there is a log")
    #expect(!written.contains("canary"))
    for token in [Ground.teamID, "Bearer", "eyJ"] { #expect(!written.contains(token)) }
  }
}
