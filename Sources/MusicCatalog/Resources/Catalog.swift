import Bytes
import JSON
import Locks

/// All resources of the emulator; immutable.
public final class Catalog: Sendable {
  let types: TypeTable
  /// The resources of each type, the most popular first.
  private let lists: [ByteString: [Resource]]
  private let byKey: [ResourceKey: Resource]
  private let listings: Listings
  /// The folded names of each type, for searches. The first search of a type creates them.
  private let names = Locked<[ByteString: [SearchedName]]>([:])

  /// The catalog in the program.
  public static let builtIn = Catalog(builtInResources)

  /// The files of the program. A test reads each of them, so an error here cannot occur.
  static let files = [
    SandboxFile(name: "genres.json", content: PackageResources.genres_json),
    SandboxFile(name: "storefronts.json", content: PackageResources.storefronts_json),
    SandboxFile(name: "music.json", content: PackageResources.music_json),
    SandboxFile(name: "lists.json", content: PackageResources.lists_json),
    SandboxFile(name: "user.json", content: PackageResources.user_json),
  ]

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
    var lists: [ByteString: [Resource]] = [:]
    var byKey: [ResourceKey: Resource] = [:]
    for resource in resources where byKey[resource.key] == nil {
      byKey[resource.key] = resource
      lists[resource.key.type, default: []].append(resource)
    }
    for (type, list) in lists {
      for (index, resource) in list.enumerated() where resource.sample > 0 {
        let all = Self.sampled(resource, from: lists["songs"] ?? [])
        lists[type]?[index].related["tracks"] = all
        byKey[resource.key]?.related["tracks"] = all
      }
    }
    (self.lists, self.byKey) = (lists, byKey)
    listings = Listings(lists.values.joined())
  }

  /// Returns the tracks of a playlist, with as many more songs as it demands: the same in every run, and each once.
  private static func sampled(_ resource: Resource, from songs: [Resource]) -> [ResourceKey] {
    let listed = resource.related["tracks"] ?? []
    var pool = songs.filter { $0.storefronts == nil && !listed.contains($0.key) }.map(\.key)
    var numbers = Numbers(seed: Numbers.hash(resource.key.id.bytes))
    let count = min(resource.sample, pool.count)
    for index in 0..<count { pool.swapAt(index, index + numbers.next(below: pool.count - index)) }
    return listed + pool.prefix(count)
  }

  /// The resources of a type in all storefronts.
  func all(_ type: ByteString) -> [Resource] { lists[type] ?? [] }

  /// The resource with a key; nil if it does not exist. Every song and every artist has a station.
  func find(_ key: ResourceKey) -> Resource? {
    if let resource = byKey[key] { return resource }
    guard key.type == "stations", key.id.bytes.starts(with: "ra.".utf8), let template = types["stations"]?.template
    else { return nil }
    let id = ByteString(Array(key.id.bytes.dropFirst(3)))
    guard let parent = byKey[ResourceKey("songs", id)] ?? byKey[ResourceKey("artists", id)] else { return nil }
    let filler = AttributeFiller(key: key, own: .object([]), parent: parent, position: nil)
    return Resource(key, filler.filled(with: template))
  }

  /// Whether the resource of a picture exists.
  package func has(_ artwork: Artwork) -> Bool { find(artwork.key) != nil }

  /// The resources of these types that list a resource in a relationship, in the order of the catalog.
  func listing(_ key: ResourceKey, _ types: [ByteString], _ relation: ByteString) -> [ResourceKey] {
    listings.keys(key, types, relation)
  }

  /// The folded names of all resources of a type.
  func searchedNames(_ type: ByteString) -> [SearchedName] {
    names.withLock { names in
      if let known = names[type] { return known }
      let new = all(type).map { SearchedName($0.attributes) }
      names[type] = new
      return new
    }
  }
}

/// The resources that list a resource, by the listed resource.
struct Listings: Sendable {
  private struct Listing: Sendable {
    let key: ResourceKey
    let relation: ByteString
  }

  private var listings: [ResourceKey: [Listing]] = [:]

  init(_ resources: some Sequence<Resource>) {
    for resource in resources { add(resource) }
  }

  mutating func add(_ resource: Resource) {
    for (relation, keys) in resource.related {
      for key in keys { listings[key, default: []].append(Listing(key: resource.key, relation: relation)) }
    }
  }

  func keys(_ key: ResourceKey, _ types: [ByteString], _ relation: ByteString) -> [ResourceKey] {
    (listings[key] ?? []).filter { $0.relation == relation && types.contains($0.key.type) }.map(\.key)
  }
}
