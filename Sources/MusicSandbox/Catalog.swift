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
  /// type and identifier, and comes before others of its type. The error names the file and the member.
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

/// A file that does not fit: a sentence with its name and the member.
package struct DataError: Error, Equatable, CustomStringConvertible {
  package let description: String
}

/// A value of a file, and its place there.
private struct PlacedValue {
  let file: String
  var place = ""
  let value: JSONValue

  func error(_ text: String, at name: String = "") -> DataError {
    let place = member(name).place
    return DataError(description: "\(file): \(place.isEmpty ? "the resource" : place) \(text).")
  }

  /// Returns a member, which is an empty object if it does not exist.
  private func member(_ name: String, _ value: JSONValue? = nil) -> PlacedValue {
    let place = place.isEmpty || name.isEmpty ? place + name : "\(place).\(name)"
    return PlacedValue(file: file, place: place, value: value ?? self.value[name] ?? .object([]))
  }

  /// Throws unless this is an object with each of its members once, and only with these if any are given.
  func check(_ known: [ByteString]? = nil) throws(DataError) {
    guard value.isObject else { throw error("must be an object") }
    if let twice = value.repeatedNames.first { throw error("occurs twice", at: twice.text) }
    guard let known, let unknown = value.members.first(where: { !known.contains($0.name) }) else { return }
    throw error("is unknown; known are \(known.map(\.text).joined(separator: ", "))", at: unknown.name.text)
  }

  func object(_ name: String, _ known: [ByteString]? = nil) throws(DataError) -> PlacedValue {
    try member(name).check(known)
    return member(name)
  }

  func checkTexts(_ name: String) throws(DataError) {
    guard case .array(let texts) = value[name] ?? [], texts.allSatisfy({ $0.string != nil }) else {
      throw error("must be an array of strings", at: name)
    }
  }

  /// - Parameter standard: The value without such a member.
  func data(_ sentence: String, standard: JSONValue = .null) throws(DataError) -> [PlacedValue] {
    guard case .array(let elements) = value["data"] ?? standard else { throw error(sentence, at: "data") }
    return elements.enumerated().map { index, element in member("data[\(index)]", element) }
  }
}

/// Reads the resources of files: each a response of Apple's (`{"data": […]}`), or one resource.
///
/// A file may have `defaults`: attributes by type that its resources get unless they have their own; null means none.
struct ResourceReader {
  private static let members: [ByteString] = ["id", "type", "href", "attributes", "relationships", "views", "meta"]
  private static let metaMembers: [ByteString] = ["storefronts", "translations", "filters", "equivalents"]

  private let types = TypeTable.builtIn
  private var defaults = JSONValue.null
  private var keys: Set<ResourceKey> = []
  private(set) var resources: [Resource] = []

  mutating func read(_ file: SandboxFile) throws(DataError) {
    let value = file.value
    guard value.isObject else {
      let what = "\(file.name) is not a JSON object, or nests deeper than \(JSONReader.maximumDepth) levels"
      throw DataError(description: "\(what): see \(JSONReader.stop(in: file.content)).")
    }
    let whole = PlacedValue(file: file.name, value: value)
    let isOne = value["type"] != nil
    if !isOne { try whole.check(["data", "defaults", "href", "next", "meta"]) }
    defaults = isOne ? .null : try whole.object("defaults", types.all.map(\.name)).value
    for element in isOne ? [whole] : try whole.data("must be an array of resources") { _ = try add(element) }
  }

  /// Adds a resource, with the one whose relationship contains it. An identifier without attributes only refers to one.
  private mutating func add(
    _ given: PlacedValue, parent: (resource: Resource, position: Int)? = nil
  ) throws(DataError) -> ResourceKey {
    try given.check(Self.members)
    guard let id = given.value["id"]?.string, id.count > 0, id.isASCII, !id.bytes.contains(where: ",/".utf8.contains)
    else { throw given.error("must be a string of ASCII characters, without a comma and a slash", at: "id") }
    guard let type = given.value["type"]?.string.flatMap({ types[$0] }) else {
      throw given.error("must be one of \(types.all.map(\.name.text).joined(separator: ", "))", at: "type")
    }
    let key = ResourceKey(type.name, id)
    if parent != nil, given.value["attributes"] == nil { return key }
    // Apple's responses have the same song in several relationships.
    guard parent != nil || keys.insert(key).inserted else { throw given.error("occurs twice", at: "id") }
    let attributes = try given.object("attributes")
    let needsName = !type.isOfLibrary && type.isSearchable
    guard attributes.value["name"].map({ $0.string != nil }) ?? !needsName else {
      throw attributes.error("must be a string", at: "name")
    }
    let filler = AttributeFiller(
      key: key, own: attributes.value.members, parent: parent?.resource, position: parent?.position)
    let meta = try given.object("meta", Self.metaMembers)
    for name in ["storefronts", "equivalents"] { try meta.checkTexts(name) }
    for name in ["translations", "filters"] { _ = try meta.object(name) }
    var resource = Resource(type, id, filler.filled(with: defaults[type.name.text]), meta: meta.value)
    for (part, relations) in [("relationships", type.relationships), ("views", type.views)] {
      let related = try given.object(part, relations.map(\.name))
      for relation in relations where related.value[relation.name.text] != nil {
        try addRelated(try related.object(relation.name.text), relation, to: &resource)
      }
    }
    resources.append(resource)
    return key
  }

  private mutating func addRelated(
    _ given: PlacedValue, _ relation: Relation, to resource: inout Resource
  ) throws(DataError) {
    try given.check(["href", "next", "data", "meta", "attributes"])
    var keys: [ResourceKey] = []
    for (index, element) in try given.data("must be an array", standard: []).enumerated() {
      let key = try add(element, parent: (resource, index + 1))
      guard relation.types.contains(key.type) else {
        throw element.error("must be \(relation.types.map(\.text).joined(separator: " or "))", at: "type")
      }
      keys.append(key)
    }
    resource.related[relation.name] = keys
  }
}
