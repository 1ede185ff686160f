/// An album as the tables have it, from which its resources are made.
struct Release: Sendable {
  let id: String
  let name: String
  let artist: ResourceKey
  let artistName: String
  let genres: [String]
  /// As in `2017-03-03`.
  let date: String
  let label: String
  let notes: LocalizedText
  let tracks: [Track]
  var storefronts: Set<String>?

  /// A song of an album.
  struct Track: Sendable {
    let id: String
    let name: String
    let milliseconds: Int
    let isExplicit: Bool
  }

  var key: ResourceKey { ResourceKey(.albums, id) }
  var isSingle: Bool { tracks.count == 1 }

  /// A bar code that no product has: the prefix is reserved for use within a company.
  var upc: String { "02\(String(id.suffix(10)))" }

  /// A recording code under a country that does not exist.
  func isrc(_ track: Track) -> String { "ZZSBX\(date.dropFirst(2).prefix(2))\(track.id.suffix(5))" }
}
