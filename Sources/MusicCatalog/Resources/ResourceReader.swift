import Bytes
import JSON

/// A file that does not fit: a sentence with its name and the member.
public struct DataError: Error, Equatable, CustomStringConvertible {
  /// The sentence.
  public let description: String
}

/// Reads the resources of a file: a response of Apple's (`{"data": […]}`), or one resource.
///
/// A file may have `defaults`: attributes by type that its resources get unless they have their own; null means none.
struct ResourceReader {
  private static let members: [ByteString] = ["id", "type", "href", "attributes", "relationships", "views", "meta"]
  private static let metaMembers: [ByteString] = ["storefronts", "translations", "filters", "equivalents"]

  private let types: TypeTable
  private let file: String
  private let defaults: JSONValue?
  private(set) var resources: [Resource] = []

  init(_ file: SandboxFile, _ types: TypeTable) throws(DataError) {
    (self.types, self.file) = (types, file.name)
    guard let value = JSONReader.read(file.content), value.isObject else {
      throw DataError(
        description: """
          \(file.name) is not a JSON object, or it nests deeper than \(JSONReader.maximumDepth) levels.
          """)
    }
    defaults = value["type"] == nil ? value["defaults"] : nil
    guard value["type"] == nil else {
      _ = try add(value, "")
      return
    }
    guard case .array(let data)? = value["data"] else { throw fault("data", "must be an array of resources") }
    for (index, element) in data.enumerated() { _ = try add(element, "data[\(index)]") }
  }

  private func fault(_ place: String, _ text: String) -> DataError {
    DataError(description: "\(file): \(place.isEmpty ? "the resource" : place) \(text).")
  }

  /// Adds a resource. An identifier without attributes only refers to one.
  ///
  /// - Parameter parent: The resource whose relationship contains it, and its position there.
  private mutating func add(
    _ value: JSONValue, _ place: String, parent: (resource: Resource, position: Int)? = nil
  ) throws(DataError) -> ResourceKey {
    try check(value, place, Self.members)
    guard let id = value["id"]?.string, id.count > 0, id.isASCII else {
      throw fault(Self.join(place, "id"), "must be a string of ASCII characters")
    }
    guard let type = value["type"]?.string.flatMap({ types[$0] }) else {
      throw fault(Self.join(place, "type"), "must be one of \(types.all.map(\.name.text).joined(separator: ", "))")
    }
    let key = ResourceKey(type.name, id)
    if parent != nil, value["attributes"] == nil { return key }
    let attributes = try object(value, "attributes", place)
    let needsName = !type.isOfLibrary && type.isSearchable
    guard attributes["name"].map({ $0.string != nil }) ?? !needsName else {
      throw fault(Self.join(place, "attributes.name"), "must be a string")
    }
    let meta = try object(value, "meta", place, Self.metaMembers)
    let filler = AttributeFiller(
      key: key, own: attributes.members, parent: parent?.resource, position: parent?.position)
    var resource = Resource(type, id, filler.filled(with: defaults?[type.name.text]), meta: meta)
    for (part, relations) in [("relationships", type.relationships), ("views", type.views)] {
      let related = try object(value, part, place, relations.map(\.name))
      for relation in relations {
        guard let value = related[relation.name.text] else { continue }
        try addRelated(value, relation, "\(Self.join(place, part)).\(relation.name)", to: &resource)
      }
    }
    resources.append(resource)
    return key
  }

  private mutating func addRelated(
    _ value: JSONValue, _ relation: Relation, _ place: String, to resource: inout Resource
  ) throws(DataError) {
    try check(value, place, ["href", "next", "data", "meta", "attributes"])
    guard case .array(let data) = value["data"] ?? [] else { throw fault("\(place).data", "must be an array") }
    var keys: [ResourceKey] = []
    for (index, element) in data.enumerated() {
      let place = "\(place).data[\(index)]"
      let key = try add(element, place, parent: (resource, index + 1))
      guard relation.types.contains(key.type) else {
        throw fault("\(place).type", "must be \(relation.types.map(\.text).joined(separator: " or "))")
      }
      keys.append(key)
    }
    resource.related[relation.name] = keys
    resource.sample = value["meta"]?["sample"]?.integer ?? resource.sample
  }

  // MARK: Checks

  /// Returns a member that must be an object, or an empty one without it.
  private func object(
    _ value: JSONValue, _ name: String, _ place: String, _ members: [ByteString]? = nil
  ) throws(DataError) -> JSONValue {
    let object = value[name] ?? .object([])
    try check(object, Self.join(place, name), members)
    return object
  }

  /// Throws unless the value is an object with each of its members once, and only with these if any are given.
  private func check(_ value: JSONValue, _ place: String, _ members: [ByteString]? = nil) throws(DataError) {
    guard value.isObject else { throw fault(place, "must be an object") }
    if let twice = value.repeatedNames.first { throw fault(Self.join(place, twice.text), "occurs twice") }
    guard let members else { return }
    if let unknown = value.members.first(where: { !members.contains($0.name) }) {
      throw fault(
        Self.join(place, unknown.name.text), "is unknown; known are \(members.map(\.text).joined(separator: ", "))")
    }
  }

  private static func join(_ place: String, _ name: String) -> String { place.isEmpty ? name : "\(place).\(name)" }
}
