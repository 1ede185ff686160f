import Bytes
import JSON
import TestSupport
import Testing

@testable import MusicSandbox

@Suite struct PagingTests {
  /// The identifiers on all pages, and the number of pages.
  private static func follow(
    _ first: String, adding: String = "", on ground: Ground, in group: String = ""
  ) throws -> (ids: [String], pages: Int) {
    var (ids, pages, next): ([String], Int, String?) = ([], 0, first)
    while let target = next {
      let separator = target.contains("?") ? "&" : "?"
      var page = try ground.json(adding.isEmpty ? target : target + separator + adding)
      if !group.isEmpty {
        guard let inner = page.at(group) else { break }
        page = inner
      }
      ids += page.ids
      pages += 1
      next = page["next"]?.text
      guard pages <= 300 else { throw TestFailure("There is no end of pages.") }
    }
    return (ids, pages)
  }

  @Test(
    "the next links of a playlist lead to each track once",
    arguments: [
      (350, "limit=300", 2), (250, "", 3), (250, "limit=7", 36), (250, "limit=300", 1), (101, "", 2), (100, "", 1),
      (1, "", 1),
    ])
  func playlist(count: Int, adding: String, pages: Int) throws {
    let ground = try Ground()
    let digits = String(repeating: "0", count: 32 - "\(count)".utf8.count) + "\(count)"
    let found = try Self.follow("/v1/catalog/us/playlists/pl.\(digits)/tracks", adding: adding, on: ground)
    #expect(found.ids.count == count)
    #expect(Set(found.ids).count == count)
    #expect(found.pages == pages)
  }

  @Test("a playlist contains its first hundred tracks and a link to the next page")
  func inside() throws {
    let path = "/v1/catalog/us/playlists/pl.00000000000000000000000000000250"
    let ground = try Ground()
    let tracks = try #require(try ground.json(path).at("data.0.relationships.tracks"))
    #expect(tracks["next"] == .string("\(path)/tracks?offset=100"))
    let rest = try Self.follow("\(path)/tracks?offset=100", on: ground)
    #expect(Set(tracks.ids + rest.ids).count == 250)
    #expect(try ground.json(path).at("data.0.relationships.curator.data.0.type") == .string("apple-curators"))
  }

  @Test("the next link has the offset and the language, but no limit, extend or include")
  func next() throws {
    let path = "/v1/catalog/us/albums/1200868601/tracks"
    let ground = try Ground()
    #expect(
      try ground.json("\(path)?limit=2&extend=artistUrl&include=genres")["next"] == .string("\(path)?offset=2"))
    #expect(try ground.json("\(path)?limit=2&offset=2")["next"] == .string("\(path)?offset=4"))
    #expect(try ground.json("\(path)?limit=2&l=es-MX")["next"] == .string("\(path)?l=es-MX&offset=2"))
    #expect(try ground.json("\(path)?limit=2&l=es_MX")["next"] == .string("\(path)?offset=2"))
    #expect(try ground.json("\(path)?limit=2&offset=13")["next"] == nil)
    #expect(try ground.json("\(path)?offset=14").ids.count == 1)
  }

  @Test("the next links of a search group keep term and type and lead to each match once")
  func search() throws {
    let ground = try Ground()
    let first = "/v1/catalog/us/search?term=paper+l&types=songs,albums"
    let group = try #require(try ground.json(first).at("results.songs"))
    #expect(group["href"] == .string("/v1/catalog/us/search?limit=5&term=paper+l&types=songs"))
    #expect(group["next"] == .string("/v1/catalog/us/search?offset=5&term=paper+l&types=songs"))
    let found = try Self.follow(first, on: ground, in: "results.songs").ids
    let all = Catalog.builtIn.resources.all("songs").filter { $0.storefronts == nil }.filter { song in
      let names = [song["name"], song["artistName"]].compactMap { $0?.text }
      let words = names.joined(separator: " ").lowercased().split(separator: " ")
      return words.contains { $0.hasPrefix("paper") } && words.contains { $0.hasPrefix("l") }
    }
    #expect(found.count > 5)
    #expect(Set(found).count == found.count)
    #expect(Set(found) == Set(all.map(\.key.id.text)))
  }

  @Test("the next links of a chart lead to each song once and end at two hundred")
  func charts() throws {
    let ground = try Ground()
    let chart = "/v1/catalog/us/charts?types=songs&genre=34&limit=50"
    let group = try #require(try ground.json(chart).at("results.songs.0"))
    #expect(group["chart"] == .string("most-played"))
    #expect(group["name"] == .string("Top Songs"))
    #expect(group["next"] == .string("/v1/catalog/us/charts?chart=most-played&genre=34&offset=50&types=songs"))
    let found = try Self.follow(chart, on: ground, in: "results.songs.0").ids
    #expect(found.count == 200)
    #expect(Set(found).count == 200)
  }
}
