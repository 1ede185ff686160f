import Bytes
import JSON
import Locks

/// All resources of the emulator; immutable.
public final class Catalog: Sendable {
  let types: TypeTable
  /// The resources of each type, the most popular first.
  private let resources: ResourceIndex
  /// The folded names of each type, for searches. The first search of a type creates them.
  private let names = Locked<[ByteString: [ResourceKey: SearchedName]]>([:])

  /// The catalog in the program.
  public static let builtIn = Catalog(builtInResources)

  /// The files of the program with resources.
  static let files = SandboxFile.embedded.filter { !["errors.json", "types.json"].contains($0.name) }

  /// A test reads each file, so an error here cannot occur.
  private static let builtInResources = files.flatMap { (try? ResourceReader($0, .builtIn))?.resources ?? [] }

  /// Creates a catalog of the resources in the program and in files. A resource of a file replaces the one with the same
  /// type and identifier; others of its type follow the added ones.
  ///
  /// - Throws: A sentence with the file and the member that does not fit.
  public convenience init(adding files: [SandboxFile]) throws(DataError) {
    var added: [Resource] = []
    for file in files { added += try ResourceReader(file, .builtIn).resources }
    self.init(added + Self.builtInResources)
  }

  private init(_ resources: [Resource]) {
    types = .builtIn
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

  /// The resources of a type in all storefronts.
  func all(_ type: ByteString) -> [Resource] { resources.all(type) }

  /// The resource with a key; nil if it does not exist. Every song and every artist has a station.
  func find(_ key: ResourceKey) -> Resource? {
    if let resource = resources.find(key) { return resource }
    guard key.type == "stations", key.id.bytes.starts(with: "ra.".utf8), let stations = types["stations"] else {
      return nil
    }
    let id = ByteString(Array(key.id.bytes.dropFirst(3)))
    let parent = ["songs", "artists"].lazy.compactMap { self.resources.find(ResourceKey($0, id)) }.first
    guard let parent else { return nil }
    let filler = AttributeFiller(key: key, own: [], parent: parent)
    return Resource(stations, key.id, filler.filled(with: stations.template))
  }

  package func has(_ artwork: Artwork) -> Bool { find(artwork.key) != nil }

  /// The resources of these types that list a resource in a relationship, in the order of the catalog.
  func listing(_ key: ResourceKey, _ types: [ByteString], _ relation: ByteString) -> [ResourceKey] {
    resources.listing(key, types, relation)
  }

  /// The folded names of the resources of a type whose names depend neither on the language nor on the user.
  func searchedNames(_ type: ResourceType) -> [ResourceKey: SearchedName] {
    guard !type.isOfLibrary else { return [:] }
    return names.withLock { names in
      if let known = names[type.name] { return known }
      let fixed = all(type.name).filter { $0.translations == nil }
      let new = Dictionary(fixed.map { ($0.key, SearchedName($0.attributes)) }) { first, _ in first }
      names[type.name] = new
      return new
    }
  }
}
