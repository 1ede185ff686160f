import Bytes
import JSON
import Locks

/// The library of one user: music, playlists, folders, ratings, favorites. It is in memory and bounded, and ends with
/// the emulator.
package final class UserLibrary: Sendable {
  /// The contents; nil before the first use.
  private let state = Locked<LibraryContents?>(nil)
  private let first: @Sendable () -> LibraryContents

  /// Creates a library with the resources of the catalog that have library types.
  package init(_ catalog: @autoclosure @escaping @Sendable () -> Catalog) {
    first = {
      let catalog = catalog()
      let types = catalog.types.all.filter(\.isOfLibrary)
      return LibraryContents(resources: ResourceIndex(types.flatMap { catalog.resources.all($0.name) }))
    }
  }

  var contents: LibraryContents { state.withLock { present(&$0) } }

  private func present(_ state: inout LibraryContents?) -> LibraryContents {
    let contents = state ?? first()
    state = contents
    return contents
  }

  /// Changes the contents. Throws an error, without a change, if they would exceed the limits.
  func change<Result>(_ body: (inout LibraryContents) throws(AppleError) -> Result) throws(AppleError) -> Result {
    try state.withLock { contents throws(AppleError) in
      var new = present(&contents)
      let result = try body(&new)
      guard new.isBounded else { throw .init(.libraryFull) }
      contents = new
      return result
    }
  }
}

struct LibraryContents {
  enum Limit {
    static let playlists = 100
    static let tracks = 1000
    static let resources = 2000
    static let ratings = 1000
  }

  /// The key of the folder that contains all playlists.
  static let root = ResourceKey("library-playlist-folders", "p.playlistsroot")

  var resources: ResourceIndex
  var ratings: [ResourceKey: Int] = [:]
  var favorites: Set<ResourceKey> = []
  /// The number of playlists and folders that the user has made.
  var numberMade = 0

  fileprivate var isBounded: Bool {
    let playlists = resources.all("library-playlists")
    // The folder of all playlists does not count.
    return resources.count < Limit.resources
      && playlists.count + resources.all("library-playlist-folders").count <= Limit.playlists + 1
      && ratings.count + favorites.count <= Limit.ratings
      && playlists.allSatisfy { ($0.related["tracks"]?.count ?? 0) <= Limit.tracks }
  }

  func counterpart(_ key: ResourceKey) -> ResourceKey? {
    resources.listing(key, ["library-\(key.type)"], "catalog").first
  }

  func has(_ key: ResourceKey) -> Bool { resources.find(key) != nil || counterpart(key) != nil }

  /// Adds the library's counterpart of a resource of the catalog, if its type has one; for an album with its songs.
  ///
  /// - Returns: The key of the counterpart.
  @discardableResult
  mutating func add(_ original: Resource, in place: Place) -> ResourceKey? {
    guard let type = place.types["library-\(original.key.type)"], let prefix = type.prefix else { return nil }
    var resource = Resource(type, ByteString(prefix.bytes + original.key.id.bytes), [place.dateAdded])
    guard resources.find(resource.key) == nil else { return resource.key }
    resource.related["catalog"] = [original.key]
    let isPlaylist = type.name == "library-playlists"
    if isPlaylist { resource.related["parent"] = [Self.root] }
    resources.add(resource)
    for relation in isPlaylist ? [] : ["tracks", "artists"] as [ByteString] {
      for other in place.related(original, relation) { add(other, in: place) }
    }
    return resource.key
  }
}

extension Place {
  /// The time of the request, in the form of RFC 3339.
  var dateAdded: JSONValue.Member {
    .init(name: "dateAdded", value: .text(CivilTime(secondsSinceEpoch: request.now).description))
  }
}
