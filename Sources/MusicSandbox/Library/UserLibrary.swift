import Bytes
import JSON
import Locks

/// The library of one user: music, playlists, folders, ratings, favorites. It is in memory and bounded, and ends with
/// the emulator.
final class UserLibrary: Sendable {
  private let state: Locked<LibraryContents>

  init(_ catalog: Catalog) { state = Locked(LibraryContents(resources: catalog.library)) }

  var contents: LibraryContents { state.withLock { $0 } }

  /// Changes the contents. Throws an error, without a change, if they would exceed the limits.
  func change<Result>(_ body: (inout LibraryContents) throws(AppleError) -> Result) throws(AppleError) -> Result {
    try state.withLock { state throws(AppleError) in
      var new = state
      let result = try body(&new)
      guard new.isBounded else { throw .init(.libraryFull) }
      state = new
      return result
    }
  }
}

struct LibraryContents {
  static let most = (playlists: 100, tracks: 1000, resources: 2000, ratings: 1000)

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
    return resources.count < Self.most.resources
      && playlists.count + resources.all("library-playlist-folders").count <= Self.most.playlists + 1
      && ratings.count + favorites.count <= Self.most.ratings
      && playlists.allSatisfy { ($0.related["tracks"]?.count ?? 0) <= Self.most.tracks }
  }

  func counterpart(_ key: ResourceKey) -> ResourceKey? {
    resources.listing(key, ["library-\(key.type)"], "catalog").first
  }

  /// Adds the library's counterpart of a resource of the catalog, if its type has one; for an album with its songs.
  /// Returns its key.
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
