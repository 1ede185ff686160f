import Bytes
import JSON
import Testing

@testable import MusicSandbox

@Suite struct LibraryTests {
  private static let user = Ground.userToken

  @Test("every path under /me needs a valid music user token (403 with 40300) and a subscription (40015)")
  func userToken() throws {
    let ground = try Ground()
    for path in ["/v1/me/storefront", "/v1/me/account", "/v1/me/library/albums", "/v1/me/nonsense"] {
      #expect(try ground.respond(path).errorCode == "40300")
      #expect(try ground.respond(path, user: "another").errorCode == "40300")
      #expect(try ground.respond(path, user: "sandbox-user-token-without-subscription").errorCode == "40015")
      #expect(ground.respond(path, user: "another").status == 403)
    }
    let twice = [field("Music-User-Token", Self.user), field("music-user-token", Self.user)]
    #expect(try ground.respond("/v1/me/storefront", fields: twice).errorCode == "40300")
  }

  @Test("the emulator checks the developer token before the music user token")
  func developerToken() throws {
    let response = try Ground().respond(
      "/v1/me/storefront", fields: [field("Authorization", "Bearer x")], user: Self.user)
    #expect(response.status == 401)
    #expect(response.content == [])
  }

  @Test("the account has a subscription and capabilities if the request asks for them")
  func account() throws {
    let ground = try Ground()
    let account = try ground.json("/v1/me/account", user: Self.user)
    #expect(account.at("data.0.id") == "me" && account.at("data.0.type") == "accounts")
    #expect(account.at("data.0.href") == "/v1/me/account")
    #expect(account.at("data.0.attributes.restrictions") == .object([]) && account["meta"] == nil)
    let asked = try ground.json(
      "/v1/me/account?meta=subscription&challenge[subscriptionCapabilities]=voice,premium", user: Self.user)["meta"]
    #expect(asked?["subscription"] == ["active": true, "storefront": "us"])
    #expect(asked?["challenge"] == ["subscriptionCapabilities": ["voice", "premium"]])
  }

  @Test("histories accept the types that Apple documents and refuse others")
  func histories() throws {
    let ground = try Ground()
    for (path, types, count) in [
      ("recent/played", "albums", 10), ("recent/played", "artists,curators,library-albums,library-playlists", 0),
      ("recent/played", "playlists,stations,artists", 10), ("recent/played/tracks", "songs", 10),
      ("recent/played/tracks", "music-videos,library-songs,library-music-videos", 0),
    ] {
      #expect(try ground.json("/v1/me/\(path)?types=\(types)", user: Self.user).ids.count == count, "\(path) \(types)")
    }
    for path in ["recent/played?types=albums,songs", "recent/played/tracks?types=albums"] {
      let refused = ground.respond("/v1/me/\(path)", user: Self.user)
      #expect(try refused.errorCode == "40005" && refused.json.at("errors.0.source.parameter") == "types")
    }
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

  @Test("a playlist of the catalog that a client adds says that the user cannot edit it")
  func added() throws {
    let ground = try Ground()
    let id = "pl.00000000000000000000000000000250"
    #expect(ground.respond("/v1/me/library?ids[playlists]=\(id)", "POST", user: Self.user).status == 202)
    let all = try ground.json("/v1/me/library/playlists?include=catalog", user: Self.user)
    let attributes = try all.at("data").map { data in
      try #require(data.elements.first { $0.at("relationships.catalog.data.0.id")?.text == id }?["attributes"])
    }
    #expect(attributes?["canEdit"] == .bool(false) && attributes?["hasCatalog"] == .bool(true))
  }

  @Test("a client can create and extend a playlist, and change and delete it with the fault library-changes only")
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
    #expect(try made.json.at("data.0.attributes.isPublic") == false)
    let track = #"{"data":[{"id":"i.1200868874","type":"library-songs"}]}"#
    #expect(ground.respond("\(href)/tracks", "POST", user: Self.user, content: track).status == 204)
    #expect(try ground.json("\(href)/tracks", user: Self.user).ids == ["i.1200868616", "i.1200868874"])
    let name = #"{"attributes":{"name":"Newer"}}"#
    for method in ["PATCH", "PUT", "DELETE"] {
      for target in [href, "\(href)/tracks?ids[library-songs]=i.1200868616&mode=all"] {
        let refused = ground.respond(target, method, user: Self.user, content: name)
        #expect(refused.status == 401)
        #expect(try refused.json.at("errors.0.detail")?.text?.contains("library-changes") == true)
      }
    }
    _ = ground.respond("/sandbox/faults", "PUT", content: #"{"faults":[{"fault":"library-changes"}]}"#)
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
      #"{"attributes":{"name":"a","isPublic":"yes"}}"#, #"{"attributes":{"name":true}}"#,
      #"{"attributes":{"name":"a"},"relationships":{"tracks":{"data":[{"id":"1","type":"songs"}]}}}"#,
    ])
  func badPlaylist(content: String) throws {
    let response = try Ground().respond("/v1/me/library/playlists", "POST", user: Self.user, content: content)
    #expect(response.status == 400)
    #expect(try response.errorCode == "40007")
  }

  @Test("a client can create a public playlist")
  func publicPlaylist() throws {
    let content = #"{"attributes":{"name":"Ours","isPublic":true}}"#
    let made = try Ground().respond("/v1/me/library/playlists", "POST", user: Self.user, content: content)
    #expect(try made.json.at("data.0.attributes.isPublic") == true)
  }

  @Test("a library has a bounded number of playlists")
  func bounded() throws {
    let ground = try Ground()
    let name = #"{"attributes":{"name":"One more"}}"#
    let statuses = (0..<LibraryContents.most.playlists).map { _ in
      ground.respond("/v1/me/library/playlists", "POST", user: Self.user, content: name).status
    }
    #expect(statuses == Array(repeating: 201, count: LibraryContents.most.playlists - 1) + [400])
  }

  @Test("an added album appears in the library of its user only")
  func add() throws {
    let ground = try Ground { $0.userTokens.append("another-user") }
    #expect(ground.respond("/v1/me/library?ids[albums]=9000001000", "POST", user: Self.user).status == 202)
    #expect(try ground.json("/v1/me/library/albums", user: Self.user).ids == ["l.1200868601", "l.9000001000"])
    #expect(try ground.json("/v1/me/library/albums", user: "another-user").ids == ["l.1200868601"])
    #expect(try ground.respond("/v1/me/library", "POST", user: Self.user).errorCode == "40003")
    let refused = ground.respond("/v1/me/library", "PUT", user: Self.user)
    #expect(refused.status == 405 && refused.fields.single("allow") == "GET, HEAD, POST")
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

  @Test("a resource of the library has the rating of its original, under its own type and link")
  func syncedRatings() throws {
    let ground = try Ground()
    let (own, original) = ("/v1/me/ratings/library-songs/i.1200868616", "/v1/me/ratings/songs/1200868616")
    for (first, second, id) in [(own, original, "1200868616"), (original, own, "i.1200868616")] {
      #expect(ground.respond(first, "PUT", user: Self.user, content: #"{"attributes":{"value":1}}"#).status == 200)
      let rating = try ground.json(second, user: Self.user).at("data.0")
      #expect(rating?["id"]?.text == id && rating?["href"]?.text == second)
      #expect(rating?.at("attributes.value") == 1)
      #expect(ground.respond(second, "DELETE", user: Self.user).status == 204)
      #expect(ground.respond(first, user: Self.user).status == 404)
    }
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

  @Test("a request about the user needs the token in the catalog, and the response is the user's own")
  func personal() throws {
    let ground = try Ground { $0.userTokens.append("another-user") }
    let song = "/v1/catalog/us/songs/1200868616"
    #expect(ground.respond("/v1/me/favorites?ids[songs]=1200868616,1", "POST", user: Self.user).status == 202)
    for (query, path) in [
      ("extend=inFavorites", "inFavorites"), ("extend%5Bsongs%5D=inFavorites", "inFavorites"),
      ("fields[songs]=name,inFavorites", "inFavorites"), ("fields=inLibrary", "inLibrary"),
    ] {
      let attribute = "data.0.attributes.\(path)"
      #expect(try ground.json("\(song)?\(query)", user: Self.user).at(attribute) == .bool(true), "\(query)")
      let isInLibrary = path == "inLibrary"
      #expect(try ground.json("\(song)?\(query)", user: "another-user").at(attribute) == .bool(isInLibrary), "\(query)")
      #expect(try ground.respond("\(song)?\(query)").errorCode == "40300")
    }
    let included = try ground.json("\(song)?include=library", user: Self.user).at("data.0.relationships.library.data.0")
    #expect(included?.at("attributes.name") == .string("American Teen"))
    #expect(included?["type"] == .string("library-songs"))
    #expect(try ground.respond("/v1/catalog/us/songs/9000001001/library", user: Self.user).errorCode == "40403")
    #expect(
      try ground.json("/v1/catalog/us/stations?filter[identity]=personal", user: Self.user).ids == ["ra.u-sandbox"])
    // The name of a parameter decides, not a text that has the same word.
    #expect(ground.respond("/v1/catalog/us/search?term=library&types=songs").status == 200)
  }

  @Test("a library resource shows the relationships that Apple documents")
  func relationships() throws {
    let ground = try Ground()
    let album = try ground.json("/v1/me/library/albums/l.1200868601?include=catalog,artists", user: Self.user)
    #expect(album.at("data.0.relationships.tracks.data.0.id") == .string("i.1200868616"))
    #expect(album.at("data.0.relationships.tracks.meta") == ["total": 15])
    #expect(album.at("data.0.relationships.catalog.data.0.type") == .string("albums"))
    #expect(album.at("data.0.relationships.catalog.meta") == nil)
    #expect(album.at("data.0.relationships.artists.data.0.attributes.name") == .string("Khalid"))
    let list = try ground.json("/v1/me/library/albums?include=catalog", user: Self.user)
    #expect(list.at("data.0.relationships.catalog.data.0.attributes.name") == .string("American Teen"))
    #expect(list.at("data.0.relationships.tracks") == nil)
    let only = try ground.json("/v1/me/library/albums/l.1200868601?includeOnly=catalog,artists", user: Self.user)
    #expect(only.at("data.0.relationships")?.members.map(\.name) == ["artists", "catalog"])
    for path in ["library/albums", "library/recently-added", "recent/played", "library/songs/i.1200868616/albums"] {
      let bare = try ground.json("/v1/me/\(path)", user: Self.user).at("data.0")
      #expect(bare?["attributes"] != nil && bare?["relationships"] == nil, "\(path)")
    }
    let playlist = try ground.json("/v1/me/library/playlists/p.sandbox0?include=tracks", user: Self.user)
    #expect(playlist.at("data.0.relationships.tracks.meta") == ["total": 5])
    #expect(try ground.respond("/v1/me/library/playlists/p.sandbox0/catalog", user: Self.user).errorCode == "40403")
    let empty = ground.respond(
      "/v1/me/library/playlists", "POST", user: Self.user, content: #"{"attributes":{"name":"E"}}"#)
    let href = try #require(try empty.json.at("data.0.href")?.text)
    let tracks = try ground.respond("\(href)/tracks", user: Self.user).json
    #expect(tracks.at("errors.0.title") == .string("No related resources"))
    #expect(try ground.json("/v1/me/library/playlists?ids=p.nope,p.sandbox0", user: Self.user).ids == ["p.sandbox0"])
    let types = "ids[library-songs]=i.1200868616&ids[library-albums]=l.1200868601"
    #expect(try ground.json("/v1/me/library?\(types)", user: Self.user).ids == ["i.1200868616", "l.1200868601"])
    #expect(try ground.respond("/v1/me/library?ids[songs]=1", user: Self.user).errorCode == "40004")
    let names = try ground.json("/v1/me/library/songs?sort=-name&limit=2", user: Self.user)["data"]?.elements
    #expect(names?.map { $0.at("attributes.name")?.text } == ["Young Dumb & Broke", "Winter"])
  }

  @Test("folders contain playlists and folders, and the root contains what has no other parent")
  func folders() throws {
    let ground = try Ground()
    let path = "/v1/me/library/playlist-folders"
    let made = ground.respond(path, "POST", user: Self.user, content: #"{"attributes":{"name":"Folder"}}"#)
    #expect(made.status == 201)
    let id = try #require(try made.json.at("data.0.id")?.text)
    let parent = #""relationships":{"parent":{"data":[{"id":"\#(id)","type":"library-playlist-folders"}]}}"#
    let playlist = ground.respond(
      "/v1/me/library/playlists", "POST", user: Self.user, content: #"{"attributes":{"name":"In it"},\#(parent)}"#)
    #expect(playlist.status == 201)
    let children = try ground.json("\(path)/\(id)/children", user: Self.user)
    #expect(children.at("data.0.attributes.name") == .string("In it"))
    let root = try ground.json("\(path)?filter[identity]=playlistsroot", user: Self.user)
    #expect(root.at("meta.filters.identity.playlistsroot.0.id") == .string("p.playlistsroot"))
    #expect(root["data"] == [])
    #expect(try ground.json(path, user: Self.user).ids == [id])
    #expect(try ground.json("\(path)/p.playlistsroot", user: Self.user).at("data.0.attributes") == nil)
    #expect(try ground.json("\(path)/p.playlistsroot/children", user: Self.user).ids == ["p.sandbox0", id])
    #expect(try ground.json("\(path)/\(id)/parent", user: Self.user).ids == ["p.playlistsroot"])
    let wrong = parent.replacing(id, with: "p.none")
    let refused = ground.respond(path, "POST", user: Self.user, content: #"{"attributes":{"name":"F"},\#(wrong)}"#)
    #expect(try refused.errorCode == "40007")
  }

  @Test(
    "every rated type can be rated",
    arguments: [
      "songs/1200868616", "albums/1200868601", "music-videos/8284242301", "stations/ra.82842423",
      "playlists/pl.00000000000000000000000000000250", "library-songs/i.1200868616", "library-albums/l.1200868601",
      "library-playlists/p.sandbox0",
    ])
  func rated(path: String) throws {
    let ground = try Ground()
    let path = "/v1/me/ratings/\(path)"
    let content = #"{"type":"rating","attributes":{"value":1}}"#
    #expect(ground.respond(path, "PUT", user: Self.user, content: content).status == 200)
    let rating = try ground.json(path, user: Self.user)
    #expect(rating.at("data.0.href")?.text == path)
    let halves = path.split(separator: "/").suffix(2)
    #expect(
      try ground.json("/v1/me/ratings/\(halves.first ?? "")?ids=\(halves.last ?? ""),x", user: Self.user).ids.count == 1
    )
  }

  @Test("a search of the library finds playlists too, and its groups have links")
  func search() throws {
    let ground = try Ground()
    let target = "/v1/me/library/search?term=mine&types=library-playlists"
    let playlists = try ground.json(target, user: Self.user)
    #expect(playlists.at("results.library-playlists.data.0.id") == .string("p.sandbox0"))
    let songs = try ground.json("/v1/me/library/search?term=khalid&types=library-songs&limit=2", user: Self.user)
    let next = try #require(songs.at("results.library-songs.next")?.text)
    #expect(next == "/v1/me/library/search?offset=2&term=khalid&types=library-songs")
    #expect(songs.at("meta.results.order.0") == .string("library-songs"))
    let rest = try ground.json(next, user: Self.user)
    #expect(rest.at("results.library-songs.data")?.elements.count == 5)
    #expect(try ground.respond("/v1/me/library/search?term=a", user: Self.user).errorCode == "40003")
    #expect(try ground.respond("/v1/me/library/search?term=a&types=songs", user: Self.user).errorCode == "40005")
  }

  @Test("the older name of the user token's field is the same field")
  func olderName() throws {
    let ground = try Ground()
    let older = field("Media-User-Token", Self.user)
    #expect(ground.respond("/v1/me/storefront", fields: [older]).status == 200)
    #expect(try ground.respond("/v1/me/storefront", fields: [older], user: Self.user).errorCode == "40300")
    #expect(!String(decoding: ground.respond("/sandbox/log").content, as: UTF8.self).contains(Self.user))
  }
}
