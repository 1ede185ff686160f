import Bytes
import JSON

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
