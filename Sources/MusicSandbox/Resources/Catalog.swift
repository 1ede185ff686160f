import Bytes
import CEmbeddedFiles
import JSON
import Locks

/// A file of resources, for the catalog to add.
package struct SandboxFile: Sendable {
  let name: String
  let content: [UInt8]

  package init(name: String, content: [UInt8]) { (self.name, self.content) = (name, content) }

  /// Creates the file with that name in `Data`, which the program has in itself.
  init(embedded name: String) {
    var count = 0
    // Safe: the bytes are as many as the function states, for as long as the program runs.
    content = unsafe Array(UnsafeBufferPointer(start: cembedded_file(name, &count), count: count))
    self.name = name
  }

  var value: JSONValue { JSONReader.read(content) ?? .null }
}

/// All resources of the emulator; immutable.
package final class Catalog: Sendable {
  let types = TypeTable.builtIn
  let resources: ResourceIndex
  /// What each user's library has at first: the resources of library types.
  let library: ResourceIndex
  /// The folded names of resources, for searches.
  let names = Memo<ResourceKey, SearchedName>(limit: 100_000)

  package static let builtIn = Catalog(builtInResources)

  static let files = ["genres", "storefronts", "music", "lists", "user"].map { SandboxFile(embedded: "\($0).json") }

  /// A test reads each file, so an error here cannot occur.
  private static let builtInResources = files.reduce(into: ResourceReader()) { try? $0.read($1) }.resources

  /// Creates a catalog of the resources in the program and in files. A resource of a file replaces the one with the same
  /// type and identifier; others of its type follow the added ones. The error names the file and the member that does not
  /// fit.
  package convenience init(adding files: [SandboxFile]) throws(DataError) {
    var reader = ResourceReader()
    for file in files { try reader.read(file) }
    self.init(reader.resources + Self.builtInResources)
  }

  private init(_ resources: [Resource]) {
    var seen: Set<ResourceKey> = []
    let index = ResourceIndex(resources.filter { seen.insert($0.key).inserted })
    library = ResourceIndex(types.all.filter(\.isOfLibrary).flatMap { index.all($0.name) })
    self.resources = index
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
}
