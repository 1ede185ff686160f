import Bytes
import JSON

/// What Apple documents for one type of resource, as `Data/types.json` states it.
final class ResourceType: Sendable {
  let name: ByteString
  /// The path of the type, without the storefront in the middle: it ends with the name unless the type is alone there.
  let path: (head: String, tail: String?)
  /// The maximum number of `ids` in a request.
  let maximumIDs: Int
  let relationships: [Relation]
  let views: [Relation]
  /// The attributes that only `extend` and `fields` add.
  let extended: [ByteString]
  /// The filters, and where their values are: in an attribute, in the identifier, or in `meta.filters`.
  let filters: [JSONValue.Member]
  /// The page sizes of the list of all resources; nil if there is no such list.
  let list: (standard: Int, most: Int)?
  let isSearchable: Bool
  /// The heading of charts; nil if there are none.
  let chart: String?
  let isRated: Bool
  /// The beginning of identifiers in a library; nil for types of the catalog.
  let prefix: ByteString?
  /// The `kind` of the play parameters in a library.
  let kind: ByteString?
  /// The attributes that a resource of a library has from the catalog.
  let shared: [ByteString]
  /// The attributes of a station that exists for every song and artist.
  let template: JSONValue?

  var isOfLibrary: Bool { prefix != nil }
  var isOfCatalog: Bool { path.tail != nil }

  fileprivate init(_ value: JSONValue) {
    name = value["type"]?.string ?? ""
    let path = value["path"]?.string?.text ?? ""
    let word = !path.hasSuffix("/") ? "" : name.text.hasPrefix("library-") ? String(name.text.dropFirst(8)) : name.text
    let parts = (path + word).split(separator: "{storefront}", omittingEmptySubsequences: false).map(String.init)
    self.path = (parts[0], parts.count == 2 ? parts[1] : nil)
    maximumIDs = value["ids"]?.integer ?? 0
    relationships = value["relationships"]?.members.map(Relation.init) ?? []
    views = value["views"]?.members.map(Relation.init) ?? []
    extended = value["extended"]?.list ?? []
    filters = value["filters"]?.members ?? []
    list = value["list"].map { ($0["limit"]?.integer ?? 0, $0["most"]?.integer ?? 0) }
    isSearchable = value["search"] == true
    chart = value["chart"]?.string?.text
    isRated = value["rating"] == true
    prefix = value["prefix"]?.string
    kind = value["kind"]?.string
    shared = value["shared"]?.list ?? []
    template = value["template"]
  }

  /// Returns the relationship with a name; nil if the type has none.
  func relationship(_ name: ByteString) -> Relation? { relationships.first { $0.name == name } }
}

/// A relationship or view of a resource type.
struct Relation: Sendable {
  /// The content of a relationship in a top-level resource without `include`.
  enum Appearance: ByteString {
    case resources, identifiers
  }

  /// A step of the path that computes a relationship which a resource does not list itself.
  enum Step: Sendable {
    /// The resources of a relationship.
    case relation(ByteString)
    /// The resources of these types that list this one in their relationship.
    case inverse([ByteString], ByteString)
    /// The same resource in the library of the user.
    case library
    /// The other resources of the same type and first genre.
    case genre
  }

  let name: ByteString
  let types: [ByteString]
  /// The content in a top-level resource; nil if a request must include it.
  let appearance: Appearance?
  let limit: Int
  let most: Int
  let path: [Step]
  /// The attributes that the resources must have.
  let conditions: [JSONValue.Member]
  /// Whether the newest comes first.
  let isNewestFirst: Bool
  let first: Int
  let title: ByteString
  let isStation: Bool

  /// Whether the relationship depends on the user.
  var isPersonal: Bool { types.allSatisfy { $0.bytes.starts(with: "library-".utf8) } }

  fileprivate init(_ member: JSONValue.Member) {
    let value = member.value
    name = member.name
    types = value["of"]?.list ?? []
    appearance = value["shows"]?.string.flatMap(Appearance.init)
    limit = value["limit"]?.integer ?? 10
    most = value["most"]?.integer ?? 100
    path = (value["path"]?.list ?? []).map(Step.init)
    conditions = value["where"]?.members ?? []
    isNewestFirst = value["sort"] != nil
    first = value["first"]?.integer ?? .max
    title = value["title"]?.string ?? ""
    isStation = value["station"] == true
  }
}

extension Relation.Step {
  fileprivate init(_ text: ByteString) {
    switch text {
    case "^": self = .library
    case "genre": self = .genre
    case _ where text.bytes.first == UInt8(ascii: "<"):
      let halves = text.bytes.dropFirst().split(separator: UInt8(ascii: "."))
      let types = halves.first?.split(separator: UInt8(ascii: ",")).map { ByteString(Array($0)) } ?? []
      self = .inverse(types, ByteString(Array(halves.last ?? [])))
    default: self = .relation(text)
    }
  }
}

/// All types, in the order in which searches list them.
struct TypeTable: Sendable {
  /// A path below `/v1/me` with a history: how many resources of which types it lists.
  struct History: Sendable {
    let path: ByteString
    let types: [ByteString]
    let counts: [Int]
    let limit: Int
    let most: Int
  }

  /// A chart that `with` adds to a response.
  struct Chart: Sendable {
    let parameter: ByteString
    let chart: ByteString
    let name: ByteString
  }

  let all: [ResourceType]
  let histories: [History]
  let charts: [Chart]
  /// The names of documented parameters, and of the emulator's own.
  let parameters: [ByteString]
  private let positions: [ByteString: Int]

  /// The table in the program.
  static let builtIn = TypeTable(JSONReader.read(PackageResources.types_json) ?? [])

  private init(_ table: JSONValue) {
    all = table["types"]?.elements.map(ResourceType.init) ?? []
    parameters = table["parameters"]?.list ?? []
    positions = Dictionary(all.enumerated().map { ($1.name, $0) }) { first, _ in first }
    histories = (table["history"]?.elements ?? []).map { row in
      History(
        path: row["path"]?.string ?? "", types: row["of"]?.list ?? [],
        counts: row["each"]?.elements.compactMap(\.integer) ?? [], limit: row["limit"]?.integer ?? 0,
        most: row["most"]?.integer ?? 0)
    }
    charts = (table["charts"]?.elements ?? []).map { row in
      Chart(
        parameter: row["with"]?.string ?? "", chart: row["chart"]?.string ?? "", name: row["name"]?.string ?? "")
    }
  }

  /// The type with a name; nil for an unknown name.
  subscript(name: ByteString) -> ResourceType? { positions[name].map { all[$0] } }
}

extension JSONValue {
  /// The elements of an array. Empty if this is not an array.
  var elements: [JSONValue] {
    guard case .array(let elements) = self else { return [] }
    return elements
  }

  /// The bytes of a string. Nil if this is not a string.
  var string: ByteString? {
    guard case .string(let string) = self else { return nil }
    return string
  }

  /// A whole number. Nil for other values.
  var integer: Int? {
    guard case .number(let text) = self else { return nil }
    return Int(text)
  }

  /// The strings of an array.
  var list: [ByteString] { elements.compactMap(\.string) }
}
