import Bytes
import JSON
import Locks

/// All resources of the emulator; immutable.
package final class Catalog: Sendable {
  let types = TypeTable.builtIn
  let resources: ResourceIndex
  /// The folded names of resources, for searches.
  let names = Memo<ResourceKey, SearchedName>(limit: 100_000)

  package static let builtIn = Catalog(builtInResources)

  /// The files of the program with resources.
  static let files = ["genres", "storefronts", "music", "lists", "user"].map { SandboxFile(embedded: "\($0).json") }

  /// A test reads each file, so an error here cannot occur.
  private static let builtInResources = files.flatMap { (try? ResourceReader($0, .builtIn))?.resources ?? [] }

  /// Creates a catalog of the resources in the program and in files. A resource of a file replaces the one with the same
  /// type and identifier; others of its type follow the added ones.
  ///
  /// - Throws: A sentence with the file and the member that does not fit.
  package convenience init(adding files: [SandboxFile]) throws(DataError) {
    var added: [Resource] = []
    for file in files { added += try ResourceReader(file, .builtIn).resources }
    self.init(added + Self.builtInResources)
  }

  private init(_ resources: [Resource]) {
    var seen: Set<ResourceKey> = []
    let unique = resources.filter { seen.insert($0.key).inserted }
    let songs = unique.filter { $0.key.type == "songs" && $0.storefronts == nil }.map(\.key)
    self.resources = ResourceIndex(unique.map { $0.sample == 0 ? $0 : Self.sampled($0, from: songs) })
  }

  /// Returns a playlist with as many more songs as it demands: the same in every run, and each once.
  private static func sampled(_ playlist: Resource, from songs: [ResourceKey]) -> Resource {
    let listed = playlist.related["tracks"] ?? []
    var pool = songs.filter { !listed.contains($0) }
    var numbers = SplitMix64(state: UInt64(fnv1a: playlist.key.id.bytes))
    let count = min(playlist.sample, pool.count)
    for index in 0..<count { pool.swapAt(index, index + Int(numbers.next() % UInt64(pool.count - index))) }
    var playlist = playlist
    playlist.related["tracks"] = listed + pool.prefix(count)
    return playlist
  }

  /// The resource with a key; nil if it does not exist. Every song and every artist has a station.
  func find(_ key: ResourceKey) -> Resource? {
    if let resource = resources.find(key) { return resource }
    guard key.type == "stations", key.id.bytes.starts(with: "ra.".utf8), let stations = types["stations"] else {
      return nil
    }
    let id = ByteString(Array(key.id.bytes.dropFirst(3)))
    let parent = resources.find(ResourceKey("songs", id)) ?? resources.find(ResourceKey("artists", id))
    return parent.map { parent in
      Resource(stations, key.id, AttributeFiller(key: key, own: [], parent: parent).filled(with: stations.template))
    }
  }

  package func has(_ artwork: Artwork) -> Bool { find(artwork.key) != nil }
}
