import Bytes
import JSON
import Locks

/// The library of one user: music, playlists, folders, ratings, favorites. It is in memory and bounded, and ends with
/// the emulator.
package final class UserLibrary: Sendable {
  /// The maximum number of playlists and folders, of tracks in a playlist, of resources, and of ratings and favorites.
  enum Limit {
    static let playlists = 100
    static let tracks = 1000
    static let resources = 2000
    static let ratings = 1000
  }

  /// The contents; nil before the first use.
  private let state = Locked<LibraryContents?>(nil)
  private let first: @Sendable () -> LibraryContents

  /// Creates a library with the resources of the catalog that have library types.
  package init(_ catalog: @autoclosure @escaping @Sendable () -> Catalog) {
    first = {
      let catalog = catalog()
      return LibraryContents(catalog.types.all.filter(\.isOfLibrary).flatMap { catalog.all($0.name) })
    }
  }

  /// The present contents.
  var contents: LibraryContents { state.withLock { present(&$0) } }

  private func present(_ state: inout LibraryContents?) -> LibraryContents {
    let contents = state ?? first()
    state = contents
    return contents
  }

  /// Changes the contents. Throws an error, without a change, if they would exceed the limits.
  func change<Result>(
    _ body: (inout LibraryContents) throws(AppleError) -> Result
  ) throws(AppleError) -> Result {
    try state.withLock { contents throws(AppleError) in
      var new = present(&contents)
      let result = try body(&new)
      guard new.isBounded else { throw .libraryFull }
      contents = new
      return result
    }
  }
}

/// The contents of a library at one time.
struct LibraryContents: Sendable {
  private(set) var resources: [Resource]
  private var byKey: [ResourceKey: Resource] = [:]
  /// The keys of resources by the keys of their counterparts in the catalog.
  private var counterparts: [ResourceKey: ResourceKey] = [:]
  private var listings = Listings([])
  private(set) var ratings: [ResourceKey: Int] = [:]
  private var favorites: Set<ResourceKey> = []
  private var numberMade = 0

  fileprivate init(_ resources: [Resource]) {
    self.resources = resources
    index()
  }

  private mutating func index() {
    byKey = Dictionary(resources.map { ($0.key, $0) }) { first, _ in first }
    let pairs = resources.compactMap { resource in resource.related["catalog"]?.first.map { ($0, resource.key) } }
    counterparts = Dictionary(pairs) { first, _ in first }
    listings = Listings(resources)
  }

  fileprivate var isBounded: Bool {
    let lists = resources.filter { $0.key.type == "library-playlists" || $0.key.type == "library-playlist-folders" }
    // The folder of all playlists does not count.
    return resources.count < UserLibrary.Limit.resources && lists.count <= UserLibrary.Limit.playlists + 1
      && ratings.count + favorites.count <= UserLibrary.Limit.ratings
      && lists.allSatisfy { ($0.related["tracks"]?.count ?? 0) <= UserLibrary.Limit.tracks }
  }

  func find(_ key: ResourceKey) -> Resource? { byKey[key] }
  func all(_ type: ByteString) -> [Resource] { resources.filter { $0.key.type == type } }
  func counterpart(_ key: ResourceKey) -> Resource? { counterparts[key].flatMap(find) }
  func has(_ key: ResourceKey) -> Bool { byKey[key] != nil || counterparts[key] != nil }
  func isFavorite(_ key: ResourceKey) -> Bool { favorites.contains(key) }
  func listing(_ key: ResourceKey, _ types: [ByteString], _ relation: ByteString) -> [ResourceKey] {
    listings.keys(key, types, relation)
  }

  // MARK: Changes

  /// Adds the library's counterpart of a resource of the catalog, if its type has one; for an album with its songs.
  ///
  /// - Returns: The key of the counterpart.
  @discardableResult
  mutating func add(_ original: Resource, in place: Place, now: Int) -> ResourceKey? {
    let name: ByteString = "library-\(original.key.type)"
    guard let prefix = place.catalog.types[name]?.prefix else { return nil }
    let key = ResourceKey(name, ByteString(prefix.bytes + original.key.id.bytes))
    guard byKey[key] == nil else { return key }
    var resource = Resource(key, [.init(name: "dateAdded", value: .time(now))])
    resource.related["catalog"] = [original.key]
    if name == "library-playlists" { resource.related["parent"] = [Self.root] }
    insert(resource)
    let type = place.catalog.types[original.key.type]
    for relation in ["tracks", "artists"] where original.key.type != "playlists" {
      for other in type?.relationship(ByteString(relation)).map({ place.related(original, $0) }) ?? [] {
        add(other, in: place, now: now)
      }
    }
    return key
  }

  /// The key of the folder that contains all playlists.
  static let root = ResourceKey("library-playlist-folders", "p.playlistsroot")

  /// Adds a new playlist or folder.
  mutating func make(
    _ type: ByteString, _ attributes: [JSONValue.Member], tracks: [ResourceKey]?, parent: ResourceKey
  ) -> Resource {
    numberMade += 1
    let id: ByteString = "p.sandbox\(numberMade)"
    var members = attributes
    if tracks != nil {
      members += AttributeFiller(key: ResourceKey(type, id), own: .object(attributes), parent: nil, position: nil)
        .filled(with: Self.playlist).filter { new in !attributes.contains { $0.name == new.name } }
    }
    var resource = Resource(ResourceKey(type, id), members)
    resource.related = ["parent": [parent]]
    resource.related["tracks"] = tracks
    insert(resource)
    return resource
  }

  private static let playlist: JSONValue = [
    "canEdit": true, "hasCatalog": false, "isPublic": false,
    "playParams": ["id": "{id}", "kind": "playlist", "isLibrary": true],
  ]

  private mutating func insert(_ resource: Resource) {
    resources.append(resource)
    byKey[resource.key] = resource
    for original in resource.related["catalog"] ?? [] { counterparts[original] = resource.key }
    listings.add(resource)
  }

  /// Replaces a resource with the same key; nil removes it.
  mutating func replace(_ key: ResourceKey, with resource: Resource?) {
    resources = resources.compactMap { $0.key == key ? resource : $0 }
    index()
  }

  mutating func favor(_ key: ResourceKey) { favorites.insert(key) }

  /// Sets a rating, 1 or -1; nil removes it.
  mutating func rate(_ key: ResourceKey, _ value: Int?) { ratings[key] = value }
}

extension JSONValue {
  /// A time in seconds since 1970, in the form of RFC 3339.
  static func time(_ seconds: Int) -> JSONValue { .text(CivilTime(secondsSinceEpoch: seconds).description) }
}
