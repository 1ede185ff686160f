import Bytes
import JSON
import Testing

@testable import MusicSandbox

@Suite struct SearchTests {
  @Test("a search for an artist finds the album, and the response gives the order of the groups")
  func khalid() throws {
    let response = try Ground().json("/v1/catalog/us/search?term=khalid&types=albums,artists,songs")
    #expect(response.at("results.albums.data.0.id") == .string("1200868601"))
    #expect(response.at("results.artists.data.0.id") == .string("82842423"))
    #expect(response.at("results.songs.data")?.elements.count == 5)
    let order = response.at("meta.results.order")?.elements.compactMap(\.text)
    #expect(order == ["artists", "albums", "songs"], "the artist is called so, the others are his")
  }

  @Test("the results contain only requested types with matches")
  func types() throws {
    let ground = try Ground()
    let response = try ground.json("/v1/catalog/us/search?term=khalid&types=albums,stations,curators")
    #expect(response["results"]?.members.map(\.name) == ["albums", "stations"])
    let nothing = try ground.json("/v1/catalog/us/search?term=qqqq")
    #expect(nothing["results"]?.members.isEmpty == true)
    #expect(nothing.at("meta.results.order")?.elements == [])
  }

  @Test(
    "a search matches words in any order, as prefixes, in any case and in any script",
    arguments: [
      ("TEEN+american", "albums", "1200868601"), ("young+dum", "songs", "1200868874"),
      ("%E5%81%BD%E3%81%AE", "artists", "8000000014"), ("les+%C3%A9gar", "artists", "8000000011"),
      ("%E2%80%9Cquote%E2%80%9D", "artists", "8000000016"), ("ac/slash", "artists", "8000000015"),
    ])
  func words(term: String, type: String, id: String) throws {
    let response = try Ground().json("/v1/catalog/us/search?term=\(term)&types=\(type)")
    #expect(response.at("results.\(type).data.0.id") == .string(ByteString(id)))
  }

  @Test("with=topResults adds a group with the best matches of all types")
  func topResults() throws {
    let response = try Ground().json("/v1/catalog/us/search?term=khalid&types=albums,artists&with=topResults")
    #expect(response.at("results.topResults.data.0.type") == .string("artists"))
    #expect(response.at("meta.results.order.0") == .string("topResults"))
  }

  @Test("hints and suggestions have the structure of Apple's responses")
  func hints() throws {
    let ground = try Ground()
    let hints = try ground.json("/v1/catalog/us/search/hints?term=kha&limit=3").at("results.terms")
    #expect(hints?.elements.first == .string("khalid"))
    #expect(hints?.elements.count == 3)
    let suggestions = try ground.json(
      "/v1/catalog/us/search/suggestions?term=kha&kinds=terms,topResults&types=artists&limit=1"
    ).at("results.suggestions")
    #expect(suggestions?.at("0.searchTerm") == .string("khalid"))
    #expect(suggestions?.at("1.content.id") == .string("82842423"))
  }
}
