import Bytes
import JSON

/// The key of a resource: its type and identifier.
struct ResourceKey: Sendable, Hashable {
  let type: ByteString
  let id: ByteString

  init(_ type: ByteString, _ id: ByteString) {
    (self.type, self.id) = (type, id)
  }
}

/// A resource in Apple's form, independent of language, storefront and user.
///
/// Its `meta` has what Apple's form cannot say: `storefronts` that offer it, `translations` of attributes by language,
/// values of `filters` that no attribute has, and identifiers of `equivalents` in other storefronts.
struct Resource: Sendable {
  let key: ResourceKey
  /// The attributes, sorted by name.
  var attributes: [JSONValue.Member]
  /// The keys under the names of relationships and views.
  var related: [ByteString: [ResourceKey]] = [:]
  /// The number of further tracks that the catalog chooses.
  var sample = 0
  private(set) var storefronts: [ByteString]?
  private(set) var equivalents: [ByteString] = []
  private(set) var filters: JSONValue?
  private(set) var translations: JSONValue?

  init(_ key: ResourceKey, _ attributes: [JSONValue.Member], meta: JSONValue? = nil) {
    self.key = key
    self.attributes = attributes.sorted { $0.name < $1.name }
    storefronts = meta?["storefronts"]?.list
    equivalents = meta?["equivalents"]?.list ?? []
    filters = meta?["filters"]
    translations = meta?["translations"]
  }

  /// The value of an attribute.
  subscript(name: ByteString) -> JSONValue? { attributes.first { $0.name == name }?.value }

  /// The attributes in a language, which is a primary subtag (RFC 5646 §2.2.1).
  func attributes(in language: String) -> [JSONValue.Member] {
    guard let translation = translations?[language] else { return attributes }
    return attributes.map { member in
      translation.members.first { $0.name == member.name } ?? member
    }
  }
}

/// A file of resources, for the catalog to add.
public struct SandboxFile: Sendable {
  /// The name, for errors.
  public let name: String
  /// The JSON text.
  public let content: [UInt8]

  /// Creates a file.
  public init(name: String, content: [UInt8]) {
    (self.name, self.content) = (name, content)
  }
}

/// A file that does not fit: a sentence with its name and the member.
public struct DataError: Error, Equatable, CustomStringConvertible {
  /// The sentence.
  public let description: String
}

/// Reads the resources of a file: a response of Apple's (`{"data": […]}`), or one resource.
///
/// A file may have `defaults`: attributes by type that its resources get unless they have their own; null means none.
struct ResourceReader {
  private static let members: [ByteString] = [
    "id", "type", "href", "attributes", "relationships", "views", "meta",
  ]
  private static let metaMembers: [ByteString] = ["storefronts", "translations", "filters", "equivalents"]

  private let types: TypeTable
  private let file: String
  private var defaults: JSONValue?
  private(set) var resources: [Resource] = []

  init(_ file: SandboxFile, _ types: TypeTable) throws(DataError) {
    (self.types, self.file) = (types, file.name)
    guard let value = JSONReader.read(file.content), value.isObject else {
      throw DataError(
        description: """
          \(file.name) is not a JSON object, or it nests deeper than \(JSONReader.maximumDepth) levels.
          """)
    }
    guard value["type"] == nil else {
      _ = try add(value, "")
      return
    }
    guard case .array(let data)? = value["data"] else { throw fault("data", "must be an array of resources") }
    defaults = value["defaults"]
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
    guard let name = value["type"]?.string, let type = types[name] else {
      throw fault(Self.join(place, "type"), "must be one of \(types.all.map(\.name.text).joined(separator: ", "))")
    }
    let key = ResourceKey(name, id)
    if parent != nil, value["attributes"] == nil { return key }
    let attributes = value["attributes"] ?? .object([])
    try check(attributes, Self.join(place, "attributes"))
    let needsName = !type.isOfLibrary && type.isSearchable
    guard attributes["name"].map({ $0.string != nil }) ?? !needsName else {
      throw fault(Self.join(place, "attributes.name"), "must be a string")
    }
    let meta = value["meta"] ?? .object([])
    try check(meta, Self.join(place, "meta"), Self.metaMembers)
    let filler = AttributeFiller(key: key, own: attributes, parent: parent?.resource, position: parent?.position)
    var resource = Resource(key, filler.filled(with: defaults?[name.text]), meta: meta)
    for (part, relations) in [("relationships", type.relationships), ("views", type.views)] {
      try addRelated(value[part], relations, Self.join(place, part), to: &resource)
    }
    resources.append(resource)
    return key
  }

  private mutating func addRelated(
    _ value: JSONValue?, _ relations: [Relation], _ place: String, to resource: inout Resource
  ) throws(DataError) {
    guard let value else { return }
    try check(value, place, relations.map(\.name))
    for member in value.members {
      let place = "\(place).\(member.name.text)"
      try check(member.value, place, ["href", "next", "data", "meta", "attributes"])
      guard case .array(let data) = member.value["data"] ?? [] else { throw fault("\(place).data", "must be an array") }
      let types = relations.first { $0.name == member.name }?.types ?? []
      var keys: [ResourceKey] = []
      for (index, element) in data.enumerated() {
        let key = try add(element, "\(place).data[\(index)]", parent: (resource, index + 1))
        guard types.contains(key.type) else {
          throw fault("\(place).data[\(index)].type", "must be \(types.map(\.text).joined(separator: " or "))")
        }
        keys.append(key)
      }
      resource.related[member.name] = keys
      resource.sample = member.value["meta"]?["sample"]?.integer ?? resource.sample
    }
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

/// Fills the attributes of a resource from defaults with placeholders: `{id}`, `{name}`, `{position}`, `{artwork}`,
/// and `{parent.…}` for an attribute of the containing resource. Those that depend on the request stay.
struct AttributeFiller {
  let key: ResourceKey
  let own: JSONValue
  let parent: Resource?
  let position: Int?

  func filled(with defaults: JSONValue?) -> [JSONValue.Member] {
    var attributes = own.members.filter { $0.value != .null }
    for member in defaults?.members ?? [] where own[member.name.text] == nil {
      if let value = value(member.value) { attributes.append(.init(name: member.name, value: value)) }
    }
    return attributes
  }

  private func value(_ value: JSONValue) -> JSONValue? {
    switch value {
    case .string(let text) where text.bytes.contains(UInt8(ascii: "{")): Placeholders.replaced(text, token)
    case .object(let members):
      .object(
        members.compactMap { member in
          self.value(member.value).map { .init(name: member.name, value: $0) }
        })
    default: value
    }
  }

  private func token(_ name: ByteString) -> Placeholders.Replacement {
    switch name {
    case "id": return .value(.string(key.id))
    case "name": return .value(own["name"] ?? .null)
    case "position": return position.map { .value(.whole($0)) } ?? .nothing
    case "artwork": return .value(Artwork(of: key).document)
    case _ where name.bytes.starts(with: "parent.".utf8):
      return parent?[ByteString(Array(name.bytes.dropFirst(7)))].map { .value($0) } ?? .nothing
    default: return .unchanged
    }
  }
}

/// Texts with names in braces, which stand for values.
enum Placeholders {
  enum Replacement {
    case value(JSONValue)
    /// There is no value, so the attribute does not exist.
    case nothing
    /// The braces stay.
    case unchanged
  }

  /// Returns the text with values in place of names. A text that is only one name becomes the value itself.
  static func replaced(_ text: ByteString, _ replacement: (ByteString) -> Replacement) -> JSONValue? {
    var output: [UInt8] = []
    var rest = text.bytes[...]
    while let open = rest.firstIndex(of: UInt8(ascii: "{")),
      let close = rest[open...].firstIndex(of: UInt8(ascii: "}"))
    {
      output += rest[..<open]
      switch replacement(ByteString(Array(rest[(open + 1)..<close]))) {
      case .nothing: return nil
      case .value(let value) where open == 0 && close == text.count - 1: return value
      case .value(.string(let string)): output += string.bytes
      case .value(let value): output += value.bytes
      case .unchanged: output += rest[open...close]
      }
      rest = rest[(close + 1)...]
    }
    return .string(ByteString(output + rest))
  }
}
