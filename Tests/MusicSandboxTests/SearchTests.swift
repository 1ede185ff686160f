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

  @Test("search results and charts show no relationships unless the request includes them")
  func bare() throws {
    let ground = try Ground()
    for target in ["search?term=american&types=songs,albums", "charts?types=songs,albums"] {
      let results = try #require(try ground.json("/v1/catalog/us/\(target)")["results"])
      for path in ["songs.data.0", "albums.data.0", "songs.0.data.0", "albums.0.data.0"] {
        guard let resource = results.at(path) else { continue }
        #expect(resource["attributes"] != nil && resource["relationships"] == nil, "\(target)")
      }
    }
    let included = try ground.json("/v1/catalog/us/search?term=american&types=albums&include=artists")
    #expect(included.at("results.albums.data.0.relationships")?.members.map(\.name) == ["artists"])
  }

  @Test(
    "composed and decomposed text, other cases, and text without marks find the same resource",
    arguments: [
      ("Les Octets \u{C9}gar\u{E9}s", "artists", "8000000011"),
      ("les octets E\u{301}gare\u{301}s", "artists", "8000000011"),
      ("EGARES", "artists", "8000000011"), ("sen\u{303}or", "artists", "8000000013"),
      ("Señor", "artists", "8000000013"),
      ("偽のア\u{30FC}ティスト", "artists", "8000000014"), ("偽のアーテ\u{30A3}スト", "artists", "8000000014"),
    ])
  func unicode(term: String, type: String, id: String) throws {
    let encoded = PercentEncoding.formValue(term)
    for term in [encoded, term.replacing(" ", with: "+")] {
      let response = try Ground().json("/v1/catalog/us/search?term=\(term)&types=\(type)")
      #expect(response.at("results.\(type).data.0.id") == .string(ByteString(id)), "\(term)")
    }
  }

  @Test("a hostile search term is refused, or costs little", arguments: ["e", "\u{1F3B8}", "\u{202E}", "\u{0}", "’"])
  func hostile(text: String) throws {
    let marks = text + String(repeating: "\u{301}\u{300}", count: 20_000)
    let refused = try Ground().respond("/v1/catalog/us/search?term=\(PercentEncoding.formValue(marks))&types=songs")
    #expect(try refused.errorCode == "40005")
    let short = text + String(repeating: "\u{301}\u{300}", count: 60)
    let allowed = try Ground().respond("/v1/catalog/us/search?term=\(PercentEncoding.formValue(short))&types=songs")
    #expect(allowed.status == 200)
  }

  @Test("with adds the charts of cities and the daily charts, and restrict leaves out explicit content")
  func charts() throws {
    let ground = try Ground()
    let charts = try ground.json("/v1/catalog/us/charts?types=playlists&with=cityCharts,dailyGlobalTopCharts")
    #expect(charts["results"]?.members.map(\.name) == ["playlists", "cityCharts", "dailyGlobalTopCharts"])
    let order: JSONValue = ["most-played:playlists", "city-top:cityCharts", "daily-global-top:dailyGlobalTopCharts"]
    #expect(charts.at("meta.results.order") == order)
    #expect(charts.at("results.playlists.0.orderId") == "most-played:playlists")
    #expect(charts.at("results.cityCharts.0.chart") == .string("city-top"))
    #expect(charts.at("results.dailyGlobalTopCharts.0.data.0.attributes.isChart") == .bool(true))
    let german = try ground.json("/v1/catalog/de/playlists?filter[storefront-chart]=de")
    #expect(german.ids == ["pl.sandboxtop100de"])
    for target in ["charts?types=songs&limit=50", "search?term=khalid&types=songs&limit=25"] {
      let all = try ground.json("/v1/catalog/us/\(target)")["results"]
      let clean = try ground.json("/v1/catalog/us/\(target)&restrict=explicit")["results"]
      #expect(all?.bytes.count != clean?.bytes.count)
      #expect(String(decoding: clean?.bytes ?? [], as: UTF8.self).contains(#""explicit""#) == false)
    }
  }
}
