import Bytes
import JSON
import Testing

@testable import MusicSandbox

/// Resources in files of the user.
@Suite struct DataTests {
  private static let song = #"{"id":"1","type":"songs","attributes":{"name":"Mine"}}"#

  private func ground(_ files: String...) throws -> Ground {
    let files = files.enumerated().map { SandboxFile(name: "\($0).json", content: Array($1.utf8)) }
    let catalog = try Catalog(adding: files)
    return try Ground { $0.catalog = catalog }
  }

  @Test("each file of the program fits")
  func builtIn() throws {
    var reader = ResourceReader()
    for file in Catalog.files {
      let count = reader.resources.count
      try reader.read(file)
      #expect(reader.resources.count > count, "\(file.name)")
    }
  }

  @Test("each kind of error has a row with its code and title", arguments: AppleError.Kind.allCases)
  func error(kind: AppleError.Kind) {
    #expect(kind.row["title"]?.string != nil)
    #expect(kind == .otherFault || (kind.row["status"]?.integer != nil && kind.row["code"]?.string?.count == 5))
  }

  @Test("a single resource is added as it is, and a search finds it")
  func single() throws {
    let ground = try ground(Self.song)
    let song = try ground.json("/v1/catalog/us/songs/1").at("data.0")
    #expect(song?["href"] == .string("/v1/catalog/us/songs/1"))
    #expect(song?["attributes"]?.members.map(\.name) == ["name"], "nothing is made up, so it has no playParams")
    #expect(try ground.json("/v1/catalog/us/search?term=mine&types=songs").at("results.songs.data.0.id") == "1")
    #expect(try ground.json("/v1/catalog/us/songs?ids=1,1200868616").ids == ["1", "1200868616"])
  }

  @Test("a response of Apple's adds an album with its tracks, and relationships follow in both directions")
  func response() throws {
    let ground = try ground(
      """
      {"data":[{"id":"5","type":"albums","href":"/v1/catalog/us/albums/5",
        "attributes":{"name":"An Album","artistName":"Me","releaseDate":"2026-01-01","isSingle":false,
          "artwork":{"url":"https://a.example/{w}x{h}bb.jpg","width":10,"height":10}},
        "relationships":{
          "artists":{"href":"/v1/catalog/us/albums/5/artists","data":[{"id":"7","type":"artists"}]},
          "tracks":{"data":[\(Self.song),{"id":"2","type":"songs","attributes":{"name":"Two"}}]}}},
       {"id":"7","type":"artists","attributes":{"name":"Me"}}]}
      """)
    #expect(try ground.json("/v1/catalog/us/albums/5/tracks").ids == ["1", "2"])
    #expect(try ground.json("/v1/catalog/us/songs/2/albums").ids == ["5"])
    #expect(try ground.json("/v1/catalog/us/songs/2/artists").ids == ["7"])
    #expect(try ground.json("/v1/catalog/us/artists/7/albums").ids == ["5"])
    let album = try ground.json("/v1/catalog/us/albums/5").at("data.0")
    #expect(album?.at("attributes.artwork.url") == "https://a.example/{w}x{h}bb.jpg")
    #expect(ground.respond("/v1/me/library?ids[albums]=5", "POST", user: Ground.userToken).status == 202)
    #expect(try ground.json("/v1/me/library/albums/l.5/tracks", user: Ground.userToken).ids == ["i.1", "i.2"])
  }

  @Test("a resource replaces the one of the program, and may be of the library")
  func replaced() throws {
    let ground = try ground(
      #"{"id":"1200868616","type":"songs","attributes":{"name":"Another"}}"#,
      #"{"id":"i.upload","type":"library-songs","attributes":{"name":"An upload"}}"#)
    #expect(try ground.json("/v1/catalog/us/songs/1200868616").at("data.0.attributes.name") == "Another")
    #expect(try ground.json("/v1/catalog/us/albums/1200868601/tracks").at("data.0.attributes.name") == "Another")
    #expect(try ground.json("/v1/me/library/songs/i.upload", user: Ground.userToken).ids == ["i.upload"])
    #expect(try ground.respond("/v1/me/library/songs/i.upload/catalog", user: Ground.userToken).errorCode == "40403")
  }

  @Test("two files do not have the same resource, and a storefront is found in upper case")
  func twice() throws {
    let files = ["a.json", "b.json"].map { SandboxFile(name: $0, content: Array(Self.song.utf8)) }
    let sentence = "b.json: id occurs twice."
    #expect(throws: DataError(description: sentence)) { try Catalog(adding: files) }
    let playlist =
      #"{"id":"pl.a","type":"playlists","attributes":{"name":"a"},"relationships":{"tracks":{"data":[\#(Self.song)]}}}"#
    #expect(try self.ground(Self.song, playlist).json("/v1/catalog/us/playlists/pl.a/tracks").ids == ["1"])
    let ground = try ground(#"{"id":"1","type":"songs","attributes":{"name":"a"},"meta":{"storefronts":["US"]}}"#)
    #expect(try ground.json("/v1/catalog/us/songs/1").ids == ["1"])
    #expect(ground.respond("/v1/catalog/de/songs/1").status == 404)
  }

  @Test("what cannot be played in the catalog cannot be played in the library, and filters read attributes")
  func unplayable() throws {
    let ground = try ground(
      Self.song, #"{"id":"year-2024","type":"music-summaries","attributes":{"period":"year","year":2024}}"#)
    let user = Ground.userToken
    #expect(ground.respond("/v1/me/library?ids[songs]=1,1200868616", "POST", user: user).status == 202)
    let songs = try ground.json("/v1/me/library/songs?ids=i.1,i.1200868616", user: user)
    #expect(songs.at("data.0.attributes.playParams") == nil && songs.at("data.1.attributes.playParams") != nil)
    #expect(try ground.json("/v1/me/music-summaries?filter[year]=2024", user: user).ids == ["year-2024"])
  }

  @Test("a playlist of more than 300 tracks has them all")
  func large() throws {
    let tracks = (1...777).map { #"{"id":"\#($0)","type":"songs","attributes":{"name":"Song \#($0)"}}"# }
    let ground = try ground(
      #"{"data":[{"id":"pl.big","type":"playlists","attributes":{"name":"Big"},"relationships":{"tracks":{"data":["#
        + tracks.joined(separator: ",") + "]}}}]}")
    var (ids, next): ([String], String?) = ([], "/v1/catalog/us/playlists/pl.big/tracks")
    while let target = next, ids.count < 1000 {
      let page = try ground.json(target)
      ids += page.ids
      next = page["next"]?.text
    }
    #expect(ids == (1...777).map(String.init))
  }

  @Test(
    "what does not fit is named with file and member",
    arguments: [
      ("", "0.json is not a JSON object, or nests deeper than 16 levels: see line 1, column 1."),
      ("[]", "0.json is not a JSON object, or nests deeper than 16 levels: see line 1, column 3."),
      ("{\n  \"data\": [],\n}", "0.json is not a JSON object, or nests deeper than 16 levels: see line 3, column 1."),
      ("{}", "0.json: data must be an array of resources."),
      (
        #"{"data":[{"type":"songs"}]}"#,
        "0.json: data[0].id must be a string of ASCII characters, without a comma and a slash."
      ),
      (#"{"id":1,"type":"songs"}"#, "0.json: id must be a string of ASCII characters, without a comma and a slash."),
      (#"{"id":"é","type":"songs"}"#, "0.json: id must be a string of ASCII characters, without a comma and a slash."),
      (#"{"id":"1","type":"songs"}"#, "0.json: attributes.name must be a string."),
      (#"{"id":"1","type":"songs","attributes":{"name":7}}"#, "0.json: attributes.name must be a string."),
      (#"{"id":"1","type":"songs","attributes":[]}"#, "0.json: attributes must be an object."),
      (#"{"id":"1","type":"songs","attributes":{"name":"a","name":"b"}}"#, "0.json: attributes.name occurs twice."),
      (#"{"id":"1","id":"2","type":"songs"}"#, "0.json: id occurs twice."),
      (
        #"{"id":"1","type":"songs","atributes":{}}"#,
        "0.json: atributes is unknown; known are id, type, href, attributes, relationships, views, meta."
      ),
      (
        #"{"id":"1","type":"albums","attributes":{"name":"a"},"relationships":{"track":{"data":[]}}}"#,
        "0.json: relationships.track is unknown; known are artists, genres, library, record-labels, tracks."
      ),
      (
        #"{"id":"1","type":"albums","attributes":{"name":"a"},"relationships":{"tracks":{"data":{}}}}"#,
        "0.json: relationships.tracks.data must be an array."
      ),
      (
        #"{"id":"1","type":"albums","attributes":{"name":"a"},"relationships":{"tracks":{"data":[{"id":"1","type":"artists"}]}}}"#,
        "0.json: relationships.tracks.data[0].type must be songs or music-videos."
      ),
      (
        #"{"data":[{"id":"1","type":"songs","attributes":{"name":"a"},"meta":{"storefront":"us"}}]}"#,
        "0.json: data[0].meta.storefront is unknown; known are storefronts, translations, filters, equivalents."
      ),
      (
        #"{"id":"1","type":"songs","attributes":{"name":"a"},"meta":{"storefronts":"us"}}"#,
        "0.json: meta.storefronts must be an array of strings."
      ),
      (
        #"{"id":"1","type":"songs","attributes":{"name":"a"},"meta":{"equivalents":[1]}}"#,
        "0.json: meta.equivalents must be an array of strings."
      ),
      (
        #"{"id":"1","type":"songs","attributes":{"name":"a"},"meta":{"translations":["de"]}}"#,
        "0.json: meta.translations must be an object."
      ),
      (#"{"data":[],"more":1}"#, "0.json: more is unknown; known are data, defaults, href, next, meta."),
      (#"{"data":[],"defaults":[]}"#, "0.json: defaults must be an object."),
      (
        #"{"id":"a/b","type":"songs"}"#,
        "0.json: id must be a string of ASCII characters, without a comma and a slash."
      ),
      (
        #"{"data":[\#(song),\#(song)]}"#, "0.json: data[1].id occurs twice."
      ),
    ])
  func refused(text: String, sentence: String) throws {
    let file = SandboxFile(name: "0.json", content: Array(text.utf8))
    #expect(throws: DataError(description: sentence)) { try Catalog(adding: [file]) }
  }
}
