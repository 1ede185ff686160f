import Bytes
import JSON
import TestSupport
import Testing

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

  /// The first resources of each type, with all relationships and views.
  private static let resources = TypeTable.builtIn.all.filter { $0.isOfCatalog || $0.isOfLibrary }.flatMap {
    type -> [(target: String, id: String, type: ResourceType)] in
    let index = type.isOfLibrary ? UserLibrary(.builtIn).contents.resources : Catalog.builtIn.resources
    let include = type.relationships.map(\.name.text).joined(separator: ",")
    let views = type.views.map(\.name.text).joined(separator: ",")
    return index.all(type.name).filter { $0.storefronts == nil }.prefix(3).map { resource in
      let path = "\(type.path.head)\(type.path.tail.map { "us\($0)" } ?? "")/\(resource.key.id)"
      return (target: "\(path)?include=\(include)&views=\(views)", id: resource.key.id.text, type: type)
    }
  }

  @Test(
    "every href leads to its resource, relationship or view, which is 404 without resources, and every next to a page")
  func crawl() throws {
    let ground = try Ground()
    var seen: Set<String> = []
    var queue = Self.starts.map { Link(target: $0) } + Self.resources.map { Link(target: $0.target, ids: [$0.id]) }
    var faults: [String] = []
    while let link = queue.popLast() {
      guard seen.insert(link.target).inserted else { continue }
      let response = ground.respond(link.target, user: Ground.userToken)
      if link.isEmpty, response.status == 404 { continue }
      guard !link.isEmpty, response.status == 200, let document = JSONReader.read(response.content),
        document.ids.starts(with: link.ids)
      else {
        faults.append("\(link.target): \(response.status), not \(link.ids)")
        continue
      }
      queue += Self.links(in: document).filter { !seen.contains($0.target) }
    }
    #expect(faults == [])
    #expect(seen.contains("/v1/me/recommendations/6-27s5hU6azhJY/contents"))
    #expect(seen.count > 1000)
  }

  @Test("a resource shows every relationship and view of its type if the request asks for them")
  func everything() throws {
    let ground = try Ground()
    for (target, _, type) in Self.resources {
      let shown = try #require(try ground.json(target, user: Ground.userToken).at("data.0"))
      #expect(target.hasPrefix("\(shown["href"]?.text ?? "none")?"))
      #expect(shown["relationships"]?.members.map(\.name) ?? [] == type.relationships.map(\.name))
      #expect(shown["views"]?.members.map(\.name) ?? [] == type.views.map(\.name))
    }
  }

  private struct Link {
    let target: String
    /// The first identifiers that the target shows.
    var ids: [String] = []
    /// Whether the target has no resources, and so gets 404.
    var isEmpty = false
  }

  /// The links anywhere in a document: the `href` of a resource shows the resource, that of a relationship or view shows
  /// what is in it.
  private static func links(in value: JSONValue) -> [Link] {
    switch value {
    case .object(let members):
      let href = value["href"]?.text.map { href in
        Link(
          target: href, ids: href.contains("?") ? [] : value["id"]?.text.map { [$0] } ?? value.ids,
          isEmpty: value["data"] == .array([]))
      }
      let next = value["next"]?.text.map { Link(target: $0) }
      return [href, next].compactMap(\.self) + members.flatMap { links(in: $0.value) }
    case .array(let elements): return elements.flatMap(links)
    default: return []
    }
  }
}
