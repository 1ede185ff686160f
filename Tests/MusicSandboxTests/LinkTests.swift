import Bytes
import JSON
import TestSupport
import Testing

@testable import MusicCatalog
@testable import MusicSandbox

@Suite struct LinkTests {
  /// The lists of the emulator, and one resource of each type that has no list.
  private static let starts = [
    "/v1/storefronts", "/v1/catalog/us/genres", "/v1/catalog/us/charts?types=songs,albums,playlists,music-videos",
    "/v1/catalog/us/search?term=a&types=songs,albums,artists,playlists,music-videos,stations,apple-curators,curators",
    "/v1/catalog/us/albums/1200868601?include=genres,record-labels&views=appears-on,related-albums",
    "/v1/catalog/us/artists/82842423?include=genres,music-videos,playlists,station",
    "/v1/catalog/us/artists/82842423?views=full-albums,latest-release,similar-artists,singles,top-songs",
    "/v1/catalog/us/playlists/pl.00000000000000000000000000000250?views=featured-artists,more-by-curator",
    "/v1/me/storefront", "/v1/me/library/albums", "/v1/me/library/songs", "/v1/me/library/artists",
    "/v1/me/library/playlists", "/v1/me/library/music-videos", "/v1/me/library/recently-added",
    "/v1/me/recent/played", "/v1/me/recent/played/tracks", "/v1/me/recent/radio-stations",
    "/v1/me/history/heavy-rotation", "/v1/me/recommendations", "/v1/me/ratings/albums?ids=1200868601",
  ]

  @Test("every href and every next of the emulator leads to 200")
  func crawl() throws {
    let ground = try Ground()
    var seen = Set(Self.starts)
    var queue = Self.starts
    var faults: [String] = []
    while let target = queue.popLast() {
      let response = ground.respond(target, user: Ground.userToken)
      guard response.status == 200, let document = JSONReader.read(response.content) else {
        faults.append("\(target): \(response.status)")
        continue
      }
      for link in Self.links(in: document) where seen.insert(link).inserted { queue.append(link) }
    }
    #expect(faults == [])
    #expect(seen.contains("/v1/me/recommendations/6-27s5hU6azhJY/contents"))
    #expect(seen.count > 1000)
  }

  /// The values of `href` and `next` anywhere in a document.
  private static func links(in value: JSONValue) -> [String] {
    switch value {
    case .object(let members):
      members.flatMap { member in
        if member.name == "href" || member.name == "next", let text = member.value.text { return [text] }
        return links(in: member.value)
      }
    case .array(let elements): elements.flatMap(links)
    default: []
    }
  }
}
