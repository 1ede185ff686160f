import Bytes
import JSON

struct ResourceKey: Sendable, Hashable {
  let type: ByteString
  let id: ByteString

  init(_ type: ByteString, _ id: ByteString) { (self.type, self.id) = (type, id) }
}

/// A resource in Apple's form, independent of language, storefront and user.
///
/// Its `meta` has what Apple's form cannot say: `storefronts` that offer it, `translations` of attributes by language,
/// values of `filters` that no attribute has, and identifiers of `equivalents` in other storefronts.
struct Resource: Sendable {
  let type: ResourceType
  let key: ResourceKey
  var attributes: [JSONValue.Member]
  /// The keys under the names of relationships and views.
  var related: [ByteString: [ResourceKey]] = [:]
  let storefronts: [ByteString]?
  private let meta: JSONValue

  init(_ type: ResourceType, _ id: ByteString, _ attributes: [JSONValue.Member], meta: JSONValue = .null) {
    (self.type, self.meta) = (type, meta)
    key = ResourceKey(type.name, id)
    self.attributes = attributes.sorted { $0.name < $1.name }
    storefronts = meta["storefronts"]?.strings.map(\.lowercasedASCII)
  }

  var equivalents: [ByteString] { meta["equivalents"]?.strings ?? [] }
  var filters: JSONValue? { meta["filters"] }
  var translations: JSONValue? { meta["translations"] }

  subscript(name: ByteString, in language: String? = nil) -> JSONValue? {
    (language.map(attributes(in:)) ?? attributes).first { $0.name == name }?.value
  }

  func has(_ value: ByteString, of filter: ByteString) -> Bool {
    filters?[filter.text]?.strings.contains(value) ?? (self[filter]?.integer.map { "\($0)" } == value.text)
  }

  /// The attributes in a language, which is a primary subtag (RFC 5646 §2.2.1).
  func attributes(in language: String) -> [JSONValue.Member] {
    let translated = translations?[language]?.members ?? []
    return attributes.map { member in translated.first { $0.name == member.name } ?? member }
  }

  /// The languages of a storefront.
  var languageTags: [String] { self["supportedLanguageTags"]?.strings.map(\.text) ?? [] }
  var defaultLanguageTag: String { self["defaultLanguageTag"]?.string?.text ?? "en-GB" }

  /// Returns the language of a response: that of the request if it is supported, otherwise a related one or the
  /// default. Throws for an invalid tag. Apple's response to a valid but unsupported tag is unknown.
  func language(for tag: String?) throws(AppleError) -> String {
    guard let tag else { return defaultLanguageTag }
    guard Self.isPlausible(tag) else { throw .invalid("l", "Invalid language tag '\(tag.prefix(64))'") }
    return bestTag([tag])
  }

  /// Returns the first supported tag that equals one of these or has the same primary language, or the default.
  func bestTag(_ wanted: [String]) -> String {
    for tag in wanted.map({ $0.lowercased() }) {
      let related = languageTags.filter { Self.primary($0.lowercased()) == Self.primary(tag) }
      if let best = related.first(where: { $0.lowercased() == tag }) ?? related.first { return best }
    }
    return defaultLanguageTag
  }

  static func primary(_ tag: String) -> Substring { tag.prefix { $0 != "-" } }

  /// Whether a tag has two or three letters, as all languages, then subtags of one to eight characters (RFC 5646 §2.1).
  static func isPlausible(_ tag: String) -> Bool {
    let subtags = tag.split(separator: "-", omittingEmptySubsequences: false)
    let isPlain = tag.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-") }
    return isPlain && tag.utf8.count <= 35 && subtags.allSatisfy { (1...8).contains($0.count) }
      && (2...3).contains(primary(tag).count) && primary(tag).allSatisfy(\.isLetter)
  }
}

/// Resources, found by type, by key, and by what they list.
struct ResourceIndex: Sendable {
  private var lists: [ByteString: [Resource]] = [:]
  private var byKey: [ResourceKey: Resource] = [:]
  /// The resources that list a resource, and the relationship or view in which they do.
  private var listings: [ResourceKey: [(key: ResourceKey, relation: ByteString)]] = [:]

  init(_ resources: some Sequence<Resource>) { for resource in resources { add(resource) } }

  mutating func add(_ resource: Resource) {
    lists[resource.key.type, default: []].append(resource)
    byKey[resource.key] = resource
    for (relation, keys) in resource.related {
      for key in keys { listings[key, default: []].append((resource.key, relation)) }
    }
  }

  mutating func replace(_ key: ResourceKey, with resource: Resource?) {
    lists[key.type] = all(key.type).compactMap { $0.key == key ? resource : $0 }
    self = ResourceIndex(lists.keys.sorted().flatMap(all))
  }

  var count: Int { byKey.count }
  func all(_ type: ByteString) -> [Resource] { lists[type] ?? [] }
  func find(_ key: ResourceKey) -> Resource? { byKey[key] }

  /// The resources of these types that list a resource in a relationship, in the order of their addition.
  func listing(_ key: ResourceKey, _ types: [ByteString], _ relation: ByteString) -> [ResourceKey] {
    (listings[key] ?? []).filter { $0.relation == relation && types.contains($0.key.type) }.map(\.key)
  }
}

/// Names in braces in the texts of attributes, which stand for values.
extension JSONValue {
  /// Returns the value with others in place of names, also in the members of an object. A text that is only one name
  /// becomes the value itself. A name without a value stays. A text or member with the value null becomes null or goes.
  func filled(_ value: (ByteString) -> JSONValue?) -> JSONValue {
    switch self {
    case .object(let members):
      return .object(
        members.compactMap { member in
          let filled = member.value.filled(value)
          return filled == .null && member.value != .null ? nil : .init(name: member.name, value: filled)
        })
    case .string(let text) where text.bytes.contains(UInt8(ascii: "{")):
      var output: [UInt8] = []
      var rest = text.bytes[...]
      while let open = rest.firstIndex(of: UInt8(ascii: "{")),
        let close = rest[open...].firstIndex(of: UInt8(ascii: "}"))
      {
        let found = value(ByteString(Array(rest[(open + 1)..<close])))
        if let found, found == .null || close - open + 1 == text.count { return found }
        output += rest[..<open] + (found.map { $0.string?.bytes ?? $0.bytes } ?? Array(rest[open...close]))
        rest = rest[(close + 1)...]
      }
      return .string(ByteString(output + rest))
    default: return self
    }
  }
}

/// What `defaults` and templates of attributes may name: `{id}`, `{name}`, `{position}`, `{artwork}`, and `{parent.…}`
/// for an attribute of the containing resource. Names that depend on the request stay.
struct AttributeFiller {
  let key: ResourceKey
  let own: [JSONValue.Member]
  var parent: Resource?
  var position: Int?

  /// Returns the resource's own attributes, and the defaults that it does not have. Null means none.
  func filled(with defaults: JSONValue?) -> [JSONValue.Member] {
    let others = defaults?.members.filter { other in !own.contains { $0.name == other.name } } ?? []
    let filled = JSONValue.object(others).filled { name in
      switch name {
      case "id": .string(key.id)
      case "name": own.first { $0.name == "name" }?.value ?? .null
      case "position": position.map { .whole($0) } ?? .null
      case "artwork": Artwork(of: key).document
      case _ where name.bytes.starts(with: "parent.".utf8):
        parent?[ByteString(Array(name.bytes.dropFirst(7)))] ?? .null
      default: nil
      }
    }
    return (own + filled.members).filter { $0.value != .null }
  }
}

/// What Apple documents for one type of resource: a row of `Data/types.json`, whose notes explain the members.
final class ResourceType: Sendable {
  private let row: JSONValue
  let name: ByteString
  /// The path of the type, without the storefront in the middle.
  let path: (head: String, tail: String?)
  let relationships: [Relation]
  let views: [Relation]
  let extended: [ByteString]
  let prefix: ByteString?
  let shared: [ByteString]

  fileprivate init(_ row: JSONValue) {
    self.row = row
    name = row["type"]?.string ?? ""
    let path = row["path"]?.string?.text ?? ""
    let parts = path.split(separator: "{storefront}", omittingEmptySubsequences: false).map(String.init)
    self.path = (parts[0], parts.count == 2 ? parts[1] : nil)
    relationships = row["relationships"]?.members.map(Relation.init) ?? []
    views = row["views"]?.members.map(Relation.init) ?? []
    extended = row["extended"]?.strings ?? []
    prefix = row["prefix"]?.string
    shared = row["shared"]?.strings ?? []
  }

  var isOfLibrary: Bool { prefix != nil }
  var isOfCatalog: Bool { path.tail != nil }
  var isSearchable: Bool { row["search"] == true }
  var isRated: Bool { row["rating"] == true }
  var maximumIDs: Int { row["ids"]?.integer ?? 0 }
  var filters: [JSONValue.Member] { row["filters"]?.members ?? [] }
  var list: PageSizes? { row["list"].map(PageSizes.init) }
  var chart: JSONValue? { row["chart"] }
  var kind: JSONValue? { row["kind"] }
  var template: JSONValue? { row["template"] }
}

/// The number of elements in a page, if the request does not say it, and at most.
struct PageSizes: Sendable {
  let standard: Int
  let most: Int

  init(_ standard: Int, most: Int) { (self.standard, self.most) = (standard, most) }

  init(_ row: JSONValue) { self.init(row["limit"]?.integer ?? 10, most: row["most"]?.integer ?? 100) }
}

struct Relation: Sendable {
  private let row: JSONValue
  let name: ByteString
  let types: [ByteString]
  let path: [JSONValue]

  fileprivate init(_ member: JSONValue.Member) {
    (name, row) = (member.name, member.value)
    types = row["of"]?.strings ?? []
    path = row["path"]?.elements ?? []
  }

  /// Whether a top-level resource shows whole resources or only identifiers; nil if a request must include them.
  var isWhole: Bool? { row["shows"].map { $0 == "resources" } }
  var sizes: PageSizes { PageSizes(row) }
  var conditions: [JSONValue.Member] { row["where"]?.members ?? [] }
  var isNewestFirst: Bool { row["sort"] != nil }
  var first: Int { row["first"]?.integer ?? .max }
  /// The attributes of a view; nil for a relationship.
  var heading: JSONValue? { row["title"].map { ["title": $0] } }
  var isOfLibrary: Bool { types.contains { $0.bytes.starts(with: "library-".utf8) } }
}

/// All types, in the order in which searches list them.
struct TypeTable: Sendable {
  let all: [ResourceType]
  let histories: [JSONValue]
  let charts: [JSONValue]
  let parameters: [ByteString]
  private let byName: [ByteString: ResourceType]

  static let builtIn = TypeTable(SandboxFile(embedded: "types.json").value)

  private init(_ table: JSONValue) {
    all = table["types"]?.elements.map(ResourceType.init) ?? []
    histories = table["history"]?.elements ?? []
    charts = table["charts"]?.elements ?? []
    parameters = table["parameters"]?.strings ?? []
    byName = Dictionary(all.map { ($0.name, $0) }) { first, _ in first }
  }

  subscript(name: ByteString) -> ResourceType? { byName[name] }
}
