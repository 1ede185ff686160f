import Bytes
import JSON
import Testing

@testable import MusicSandbox

@Suite struct LibraryTests {
  private static let user = Ground.userToken

  @Test("every path under /me needs a valid music user token (403 with 40300) and a subscription (40015)")
  func userToken() throws {
    let ground = try Ground()
    for path in ["/v1/me/storefront", "/v1/me/library/albums", "/v1/me/nonsense"] {
      #expect(try ground.respond(path).errorCode == "40300")
      #expect(try ground.respond(path, user: "another").errorCode == "40300")
      #expect(try ground.respond(path, user: "sandbox-user-token-without-subscription").errorCode == "40015")
      #expect(ground.respond(path, user: "another").status == 403)
    }
    let twice = [SandboxField("Music-User-Token", Self.user), SandboxField("music-user-token", Self.user)]
    #expect(try ground.respond("/v1/me/storefront", fields: twice).errorCode == "40300")
  }

  @Test("the emulator checks the developer token before the music user token")
  func developerToken() throws {
    let response = try Ground().respond(
      "/v1/me/storefront", fields: [SandboxField("Authorization", "Bearer x")], user: Self.user)
    #expect(response.status == 401)
    #expect(response.content == [])
  }

  @Test("library resources have library types and identifiers")
  func read() throws {
    let ground = try Ground()
    for (path, id, type) in [
      ("storefront", "us", "storefronts"), ("library/albums", "l.1200868601", "library-albums"),
      ("library/songs", "i.1200868616", "library-songs"), ("library/artists", "r.82842423", "library-artists"),
      ("library/playlists", "p.sandbox0", "library-playlists"),
      ("library/albums/l.1200868601/tracks", "i.1200868616", "library-songs"),
      ("library/albums/l.1200868601/catalog", "1200868601", "albums"),
      ("library/songs?ids=i.1200868874,i.1", "i.1200868874", "library-songs"),
      ("recent/played", "1200868601", "albums"), ("recent/played/tracks", "1200868616", "songs"),
    ] {
      let resource = try ground.json("/v1/me/\(path)", user: Self.user).at("data.0")
      #expect(resource?["id"] == .string(ByteString(id)), "\(path)")
      #expect(resource?["type"] == .string(ByteString(type)), "\(path)")
    }
    #expect(try ground.respond("/v1/me/recent/played?limit=11", user: Self.user).errorCode == "40005")
    #expect(try ground.respond("/v1/me/library/library-songs/i.1", user: Self.user).errorCode == "40008")
    #expect(try ground.respond("/v1/me/library/albums/l.1", user: Self.user).errorCode == "40400")
    let search = try ground.json("/v1/me/library/search?term=loc&types=library-songs", user: Self.user)
    #expect(search.at("results.library-songs.data.0.attributes.name") == .string("Location"))
  }

  @Test("a client can create, extend, change and delete a playlist")
  func playlist() throws {
    let ground = try Ground()
    let content = """
      {"attributes":{"name":"New \\"one\\"","description":"Words"},
       "relationships":{"tracks":{"data":[{"id":"1200868616","type":"songs"}]}}}
      """
    let made = ground.respond("/v1/me/library/playlists", "POST", user: Self.user, content: content)
    #expect(made.status == 201)
    let href = try #require(try made.json.at("data.0.href")?.text)
    #expect(try made.json.at("data.0.attributes.name") == .string("New \"one\""))
    let track = #"{"data":[{"id":"i.1200868874","type":"library-songs"}]}"#
    #expect(ground.respond("\(href)/tracks", "POST", user: Self.user, content: track).status == 204)
    #expect(try ground.json("\(href)/tracks", user: Self.user).ids == ["i.1200868616", "i.1200868874"])
    let name = #"{"attributes":{"name":"Newer"}}"#
    #expect(ground.respond(href, "PATCH", user: Self.user, content: name).status == 204)
    let patched = try ground.json(href, user: Self.user).at("data.0.attributes")
    #expect(patched?["name"] == .string("Newer") && patched?.at("description.standard") == .string("Words"))
    #expect(ground.respond(href, "PUT", user: Self.user, content: name).status == 204)
    #expect(try ground.json(href, user: Self.user).at("data.0.attributes.description") == nil)
    #expect(ground.respond(href, "DELETE", user: Self.user).status == 204)
    #expect(ground.respond(href, user: Self.user).status == 404)
  }

  @Test(
    "the emulator refuses content that is not a valid playlist",
    arguments: [
      "", "[]", "{", "{}", #"{"attributes":{"name":""}}"#, #"{"attributes":{"name":7}}"#,
      #"{"attributes":{"name":"a"},"relationships":{"tracks":{"data":[{"id":"1","type":"songs"}]}}}"#,
    ])
  func badPlaylist(content: String) throws {
    let response = try Ground().respond("/v1/me/library/playlists", "POST", user: Self.user, content: content)
    #expect(response.status == 400)
    #expect(try response.errorCode == "40007")
  }

  @Test("a library has a bounded number of playlists")
  func bounded() throws {
    let ground = try Ground()
    let name = #"{"attributes":{"name":"One more"}}"#
    let statuses = (0..<UserLibrary.Limit.playlists).map { _ in
      ground.respond("/v1/me/library/playlists", "POST", user: Self.user, content: name).status
    }
    #expect(statuses == Array(repeating: 201, count: UserLibrary.Limit.playlists - 1) + [400])
  }

  @Test("an added album appears in the library of its user only")
  func add() throws {
    let ground = try Ground { $0.userTokens.append("another-user") }
    #expect(ground.respond("/v1/me/library?ids[albums]=9000001000", "POST", user: Self.user).status == 202)
    #expect(try ground.json("/v1/me/library/albums", user: Self.user).ids == ["l.1200868601", "l.9000001000"])
    #expect(try ground.json("/v1/me/library/albums", user: "another-user").ids == ["l.1200868601"])
    #expect(try ground.respond("/v1/me/library", "POST", user: Self.user).errorCode == "40003")
    #expect(ground.respond("/v1/me/library", user: Self.user).status == 405)
  }

  @Test("a client can set, read and delete ratings")
  func ratings() throws {
    let ground = try Ground()
    let path = "/v1/me/ratings/songs/1200868616"
    #expect(ground.respond(path, user: Self.user).status == 404)
    let value = #"{"type":"rating","attributes":{"value":-1}}"#
    #expect(ground.respond(path, "PUT", user: Self.user, content: value).status == 200)
    #expect(try ground.json(path, user: Self.user).at("data.0.attributes.value") == .number("-1"))
    #expect(try ground.json("/v1/me/ratings/songs?ids=1,1200868616", user: Self.user).ids == ["1200868616"])
    #expect(ground.respond(path, "PUT", user: Self.user, content: #"{"attributes":{"value":2}}"#).status == 400)
    #expect(ground.respond(path, "DELETE", user: Self.user).status == 204)
    #expect(ground.respond(path, user: Self.user).status == 404)
  }

  @Test("relate=library links a catalog resource to the user's library")
  func relate() throws {
    let ground = try Ground()
    let album = try ground.json("/v1/catalog/us/albums/1200868601?relate=library", user: Self.user)
    #expect(album.at("data.0.relationships.library.data.0.id") == .string("l.1200868601"))
    let other = try ground.json("/v1/catalog/us/albums/9000001000?relate=library", user: Self.user)
    #expect(other.at("data.0.relationships.library.data")?.elements == [])
    #expect(try ground.json("/v1/catalog/us/albums/1200868601/library", user: Self.user).ids == ["l.1200868601"])
  }
}
