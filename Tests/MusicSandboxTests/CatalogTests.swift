import Bytes
import HTTPTypes
import JSON
import Testing

@testable import MusicSandbox

@Suite struct CatalogTests {
  private static let album = "/v1/catalog/us/albums/1200868601"

  @Test("the album of Apple's talk has the expected members")
  func album() throws {
    let album = try #require(try Ground().json(Self.album).at("data.0"))
    #expect(album.members.map(\.name) == ["id", "type", "href", "attributes", "relationships"])
    #expect(album["id"] == .string("1200868601"))
    #expect(album["type"] == .string("albums"))
    #expect(album["href"] == .string(ByteString(Self.album)))
    #expect(album.at("attributes.name") == .string("American Teen"))
    #expect(album.at("attributes.artistName") == .string("Khalid"))
    #expect(album.at("attributes.releaseDate") == .string("2017-03-03"))
    #expect(album.at("attributes.trackCount") == .number("15"))
    #expect(album.at("attributes.playParams.kind") == .string("album"))
    #expect(album.at("attributes.genreNames.0") == .string("R&B/Soul"))
    #expect(album.at("attributes.artistUrl") == nil, "an extended attribute")
  }

  @Test("an album shows its tracks with attributes, its artists as identifiers, and no genres")
  func relationships() throws {
    let relationships = try #require(try Ground().json(Self.album).at("data.0.relationships"))
    #expect(relationships.members.map(\.name) == ["artists", "tracks"])
    #expect(relationships.at("tracks.href") == .string("\(Self.album)/tracks"))
    #expect(relationships.at("tracks.data")?.elements.count == 15)
    #expect(relationships.at("tracks.data.1.attributes.name") == .string("Young Dumb & Broke"))
    #expect(relationships.at("tracks.data.1.relationships") == nil)
    #expect(relationships.at("artists.data.0.href") == .string("/v1/catalog/us/artists/82842423"))
    #expect(relationships.at("artists.data.0.attributes") == nil)
  }

  @Test("include adds whole resources, for the requested type and for a named type")
  func include() throws {
    let ground = try Ground()
    let relationships = try #require(
      try ground.json("\(Self.album)?include=artists,genres&include[songs]=albums").at("data.0.relationships"))
    #expect(relationships.at("artists.data.0.attributes.name") == .string("Khalid"))
    #expect(relationships.at("genres.data")?.elements.count == 4)
    #expect(relationships.at("genres.data.2.attributes.name") == .string("Pop"))
    #expect(relationships.at("tracks.data.0.relationships.albums.data.0.id") == .string("1200868601"))
  }

  @Test("includeOnly is include without the relationships that a resource shows by default")
  func includeOnly() throws {
    let ground = try Ground()
    let target = "\(Self.album)?includeOnly=artists&art[url]=f&art[music-videos:url]=c&platform=web"
    let relationships = try #require(try ground.json(target).at("data.0.relationships"))
    #expect(relationships.members.map(\.name) == ["artists"])
    #expect(relationships.at("artists.data.0.attributes.name") == "Khalid")
    #expect(try ground.json("\(Self.album)?includeOnly=zzz").at("data.0.relationships") == nil)
    #expect(try ground.respond("\(Self.album)?includeOnly=library").errorCode == "40300")
  }

  @Test("what a path of a relationship or view leads to shows relationships only if it is tracks or artists")
  func relatedResources() throws {
    let ground = try Ground()
    for (path, names) in [
      ("songs/1200868616/albums", nil), ("artists/82842423/albums", nil),
      ("songs/1200868616/albums?include=genres", ["genres"]),
      ("artists/82842423/view/full-albums", nil), ("artists/82842423/view/top-songs", nil),
      ("artists/8000000002/view/similar-artists", nil), ("songs/1200868616/artists", ["albums"]),
      ("songs/1200868616/composers", ["albums"]), ("albums/1200868601/tracks", ["albums", "artists"]),
      ("albums?ids=1200868601", ["artists", "tracks"]),
    ] as [(String, [ByteString]?)] {
      let shown = try ground.json("/v1/catalog/us/\(path)").at("data.0.relationships")
      #expect(shown?.members.map(\.name) == names, "\(path)")
    }
  }

  @Test("a relationship without resources has its link, and with=attributes adds the title to the path of a view")
  func links() throws {
    let ground = try Ground()
    let videos = try ground.json("/v1/catalog/us/songs/9000001002?include=music-videos")
    let expected: JSONValue = ["href": "/v1/catalog/us/songs/9000001002/music-videos", "data": []]
    #expect(videos.at("data.0.relationships.music-videos") == expected)
    let view = "/v1/catalog/us/artists/82842423/view/top-songs"
    #expect(try ground.json("\(view)?with=attributes")["attributes"] == ["title": "Top Songs"])
    #expect(try ground.json(view)["attributes"] == nil)
    #expect(try ground.json("\(Self.album)/tracks?with=attributes")["attributes"] == nil)
  }

  @Test("mutual includes stop at a depth of two")
  func includeInTurn() throws {
    let target = "\(Self.album)?include[songs]=albums&include[albums]=tracks"
    let track = try #require(try Ground().json(target).at("data.0.relationships.tracks.data.0"))
    let album = try #require(track.at("relationships.albums.data.0"))
    #expect(album.at("attributes.name") == .string("American Teen"))
    #expect(album["relationships"] == nil)
  }

  @Test("a repeated request gets the same response, but another host or user gets its own")
  func madeBefore() throws {
    let ground = try Ground()
    let first = ground.respond(Self.album)
    #expect(ground.respond(Self.album) == first)
    let other = ground.sandbox.respond(
      SandboxRequest(
        "GET", Self.album, authority: "other.test",
        fields: [.authorization: "Bearer \(ground.token)"]))
    #expect(String(decoding: other.content, as: UTF8.self).contains("http://other.test/image/"))
    let personal = "\(Self.album)?relate=library"
    #expect(ground.respond(personal, user: Ground.userToken).status == 200)
    #expect(ground.respond(personal).status == 403)
  }

  @Test("the parameters extend, fields, views and limit[…] change the response")
  func selection() throws {
    let ground = try Ground()
    let extended = try ground.json("\(Self.album)?extend=artistUrl").at("data.0.attributes.artistUrl")?.text
    #expect(extended == "https://music.apple.com/us/artist/82842423")
    let few = try ground.json("\(Self.album)?fields[albums]=name,url").at("data.0.attributes")
    #expect(few?.members.map(\.name) == ["name", "url"])
    let short = try ground.json("\(Self.album)?limit[tracks]=2").at("data.0.relationships.tracks")
    #expect(short?["data"]?.elements.count == 2)
    #expect(short?["next"] == .string("\(Self.album)/tracks?offset=2"))
    let artist = try ground.json("/v1/catalog/us/artists/82842423?views=top-songs,full-albums").at("data.0.views")
    #expect(artist?.members.map(\.name) == ["full-albums", "top-songs"])
    #expect(artist?.at("top-songs.attributes.title") == .string("Top Songs"))
    #expect(artist?.at("top-songs.data.0.attributes.name") == .string("American Teen"))
    #expect(try ground.json("/v1/catalog/us/artists/82842423/view/top-songs").ids.count == 5)
  }

  @Test("the parameter l selects the language if the storefront supports the language")
  func language() throws {
    let ground = try Ground()
    for (target, name) in [
      ("/v1/catalog/de/genres/34", "Musik"), ("/v1/catalog/de/genres/34?l=en-GB", "Music"),
      ("/v1/catalog/de/genres/34?l=fr-FR", "Musik"), ("/v1/catalog/us/genres/34?l=es-MX", "Música"),
      ("/v1/catalog/us/genres/34?l=es-ES", "Música"), ("/v1/catalog/jp/genres/34", "ミュージック"),
      ("/v1/catalog/ch/genres/34?l=FR-fr", "Musique"), ("/v1/catalog/us/genres/34", "Music"),
      ("/v1/catalog/de/genres/34?l=", "Musik"), ("/v1/catalog/us/genres/34?l=es_MX", "Music"),
    ] {
      #expect(try ground.json(target).at("data.0.attributes.name") == .string(ByteString(name)), "\(target)")
    }
  }

  @Test("the parameter ids returns the existing resources of the storefront in the requested order")
  func ids() throws {
    let ground = try Ground()
    #expect(try ground.json("/v1/catalog/us/songs?ids=1200868874,1,1200868616").ids == ["1200868874", "1200868616"])
    #expect(try ground.json("/v1/catalog/us/songs?ids=1").ids == [])
    #expect(
      try ground.json("/v1/catalog/us?ids[songs]=1200868616&ids[albums]=1200868601").ids == [
        "1200868616", "1200868601",
      ])
    let japanese = "9000040000"
    #expect(try ground.json("/v1/catalog/jp/albums?ids=\(japanese)").ids == [japanese])
    #expect(try ground.json("/v1/catalog/us/albums?ids=\(japanese)").ids == [])
  }

  @Test("the filters isrc and upc find the matching resources")
  func filters() throws {
    let ground = try Ground()
    let song = try #require(try ground.json("/v1/catalog/us/songs/1200868616").at("data.0.attributes.isrc")?.text)
    let bySong = try ground.json("/v1/catalog/us/songs?filter[isrc]=\(song),ZZSBX0000000")
    #expect(bySong.ids == ["1200868616"])
    #expect(bySong.at("meta.filters.isrc.\(song).0.id") == .string("1200868616"))
    #expect(bySong.at("meta.filters.isrc.ZZSBX0000000")?.elements == [])
    let upc = try #require(try ground.json(Self.album).at("data.0.attributes.upc")?.text)
    #expect(try ground.json("/v1/catalog/us/albums?filter%5Bupc%5D=\(upc)").ids == ["1200868601"])
  }

  @Test("storefronts can be listed, fetched by identifier and paged")
  func storefronts() throws {
    let ground = try Ground()
    let german = try ground.json("/v1/storefronts/de").at("data.0.attributes")
    #expect(german?["defaultLanguageTag"] == .string("de-DE"))
    #expect(german?["supportedLanguageTags"]?.elements == [.string("de-DE"), .string("en-GB")])
    #expect(german?["explicitContentPolicy"] == .string("allowed"))
    #expect(try ground.json("/v1/storefronts?ids=us,xx,jp").ids == ["us", "jp"])
    let page = try ground.json("/v1/storefronts?limit=2")
    #expect(page.ids == ["ae", "ar"])
    #expect(page["next"] == .string("/v1/storefronts?offset=2"))
    #expect(try ground.json("/v1/storefronts").ids == Catalog.builtIn.resources.all("storefronts").map(\.key.id.text))
  }

  @Test(
    "the best language is the first accepted language that the storefront supports",
    arguments: [
      ("us", "en-US", "en-US"), ("us", "de-DE,es-MX;q=0.8", "es-MX"), ("de", "en-US", "en-GB"), ("jp", "de", "ja"),
    ])
  func bestLanguage(storefront: String, wanted: String, best: String) throws {
    let response = try Ground().json("/v1/language/\(storefront)/tag?acceptLanguage=\(wanted)")
    #expect(response.at("results.tag") == .string(ByteString(best)))
  }

  @Test("every storefront has a unique two-letter identifier and plausible language tags")
  func table() {
    let all = Catalog.builtIn.resources.all("storefronts")
    #expect(Set(all.map(\.key.id)).count == all.count && all.count > 30)
    for storefront in all {
      #expect(storefront.key.id.count == 2 && !storefront.languageTags.isEmpty)
      #expect(storefront.languageTags.allSatisfy(Resource.isPlausible))
      #expect(storefront.languageTags.contains(storefront.defaultLanguageTag))
    }
  }

  @Test("unknown names in include and views have no effect")
  func unknownNames() throws {
    let ground = try Ground()
    let plain = ground.respond(Self.album).content
    for query in ["include=zzz", "views=zzz", "include[songs]=zzz", "include[zzz]=songs", "extend=zzz", "relate=zzz"] {
      #expect(ground.respond("\(Self.album)?\(query)").content == plain, "\(query)")
    }
  }

  @Test("every song and every artist has a station, whose songs a user can hear")
  func stations() throws {
    let ground = try Ground()
    for path in ["songs/1200868874", "songs/9000002001", "artists/8000000002"] {
      let id = try #require(path.split(separator: "/").last)
      #expect(try ground.json("/v1/catalog/us/\(path)/station").ids == ["ra.\(id)"])
      #expect(try ground.json("/v1/catalog/us/stations/ra.\(id)").ids == ["ra.\(id)"])
      let next = ground.respond("/v1/me/stations/next-tracks/ra.\(id)", "POST", user: Ground.userToken)
      #expect(next.status == 200)
      #expect(try next.json.ids.isEmpty == false)
      #expect(try next.json.at("data.0.relationships") == nil)
    }
    for (limit, count) in [("", 10), ("?limit=3", 3), ("?limit=10", 10), ("?limit=11", nil), ("?limit=0", nil)] {
      let target = "/v1/me/stations/next-tracks/ra.1200868616\(limit)"
      let response = ground.respond(target, "POST", user: Ground.userToken)
      #expect(try count.map { try response.json.ids.count == $0 } ?? (response.errorCode == "40005"), "\(limit)")
    }
    #expect(ground.respond("/v1/catalog/us/stations/ra.1").status == 404)
    let live = try ground.json("/v1/catalog/us/stations?filter[featured]=apple-music-live-radio")
    #expect(live.at("data.0.attributes.isLive") == .bool(true))
  }

  @Test("a continuous station is that of the last song in the content, with its tracks if with=tracks asks for them")
  func continuousStation() throws {
    let ground = try Ground()
    func respond(_ query: String, _ content: String) -> SandboxResponse {
      ground.respond("/v1/me/stations/continuous\(query)", "POST", user: Ground.userToken, content: content)
    }
    let content = """
      {"data":[{"id":"1","type":"songs"},{"id":"1200868874","type":"songs",
       "meta":{"container":{"id":"1200868601","type":"albums"}}}]}
      """
    let results = try respond("?limit[results:tracks]=4&with=tracks", content).json["results"]
    #expect(results?.at("station.id") == "ra.1200868874")
    #expect(results?.at("station.attributes.name") == "Young Dumb & Broke Station")
    #expect(results?["tracks"]?.elements.count == 4)
    #expect(results?.at("tracks.0.type") == "songs" && results?.at("tracks.0.relationships") == nil)
    #expect(try respond("?with=tracks", content).json.at("results.tracks")?.elements.count == 10)
    #expect(try respond("", content).json["results"]?.members.map(\.name) == ["station"])
    let ofLibrary = content.replacing("1200868874\",\"type\":\"songs", with: "i.1200868874\",\"type\":\"library-songs")
    #expect(try respond("", ofLibrary).json.at("results.station.id") == "ra.1200868874")
    #expect(try respond("?limit[results:tracks]=11", content).errorCode == "40005")
    for content in ["", "{}", #"{"data":[{"id":"1","type":"songs"}]}"#, #"{"data":[{"id":7}]}"#] {
      #expect(try respond("?with=tracks", content).errorCode == "40007", "\(content)")
    }
  }

  @Test("equivalents are the resource itself, or the one of the storefront that names it")
  func equivalents() throws {
    let ground = try Ground()
    #expect(try ground.json("/v1/catalog/us/songs?filter[equivalents]=1200868616").ids == ["1200868616"])
    let song = try #require(
      try ground.json("\(Self.album)/tracks").at("data")?.elements.first { $0.at("attributes.name") == "Hopeless" })
    let id = try #require(song["id"]?.text)
    #expect(try ground.json("/v1/catalog/us/songs?filter[equivalents]=\(id)").ids == [id])
    #expect(try ground.json("/v1/catalog/us/songs?filter[equivalents]=\(id)&restrict=explicit").ids == ["9000061001"])
    // Its album is explicit, and its artist is found by that.
    let clean = try ground.json("/v1/catalog/us/songs/1200868616?restrict=explicit&include=artists")
    #expect(clean.at("data.0.relationships.artists.data.0.id") == "82842423")
    #expect(clean.at("data.0.relationships.albums.data")?.elements.isEmpty == true)
    let both = try ground.json("/v1/catalog/us/songs?ids=1200868616,1200868874&filter[equivalents]=1200868874")
    #expect(both.ids == ["1200868874"])
  }

  @Test("a song may have no play parameters")
  func notPlayable() throws {
    let attributes = try Ground().json("/v1/catalog/us/songs/9000061003").at("data.0.attributes")
    #expect(attributes?["name"] != nil && attributes?["playParams"] == nil)
  }

  @Test("a slash at the end, an upper-case storefront and a repeated parameter are accepted")
  func spellings() throws {
    let ground = try Ground()
    for target in [
      "/v1/catalog/us/albums/1200868601/", "/v1/catalog/US/albums/1200868601", "/v1/catalog/us/albums/?ids=1200868601",
    ] {
      #expect(try ground.json(target).at("data.0.href")?.text == Self.album, "\(target)")
    }
    #expect(ground.respond("/v1/me/library/?ids[songs]=1200868616", "POST", user: Ground.userToken).status == 202)
    #expect(try ground.json("\(Self.album)/tracks?limit=1&limit=2").ids.count == 2)
  }

  @Test(
    "every documented type answers",
    arguments: [
      "activities/976439514", "activities/976439514/playlists", "activities?ids=976439514,976439515",
      "apple-curators/976439503/playlists", "curators/1000000001", "record-labels/7000000001/view/top-releases",
      "station-genres", "station-genres/1149486245/stations", "genres?ids=14,34", "music-videos/8284242301/songs",
      "music-videos/8284242301/view/more-by-artist?limit=1", "artists/8000000002/view/similar-artists",
      "songs/1200868616/composers", "songs/1200868616/music-videos",
      "playlists/pl.00000000000000000000000000000024/curator",
      "search?term=waiting&types=activities", "search?term=khalid",
      "?ids[activities]=976439514&ids[stations]=ra.82842423",
    ])
  func types(path: String) throws {
    let response = try Ground().respond("/v1/catalog/us\(path.hasPrefix("?") ? "" : "/")\(path)")
    // One artist has one video, so a view of the others is empty.
    #expect(response.status == (path.contains("more-by-artist") ? 404 : 200))
  }

  @Test("no attribute of the program's data has a placeholder that nothing fills")
  func placeholders() throws {
    let ground = try Ground()
    for type in TypeTable.builtIn.all where type.isOfCatalog {
      for resource in Catalog.builtIn.resources.all(type.name) {
        let storefront = resource.storefronts?.first?.text ?? "us"
        let path = "\(type.path.head)\(storefront)\(type.path.tail ?? "")/\(resource.key.id)"
        let content = ground.respond("\(path)?extend=artistUrl,artistBio,isGroup").content
        let text = String(decoding: content, as: UTF8.self).replacing("{w}x{h}", with: "")
        #expect(!text.contains(try Regex(#"\{[a-z.A-Z]+\}"#)), "\(path)")
      }
    }
  }
}
