/// What a request wants to see of each resource: `include`, `extend`, `views`, `limit[…]`, `fields`.
struct Selection: Sendable {
  /// Resources inside of so many others show no relationships.
  private static let maximumDepth = 2

  private let query: Query
  private let include: Set<String>
  private let includeByType: [ResourceType: Set<String>]
  private let extend: Set<String>
  private let extendByType: [ResourceType: Set<String>]
  private let views: Set<String>
  private let fields: [ResourceType: Set<String>]

  /// What an answer shows without any of these parameters.
  static let standard = Selection()

  private init() {
    query = Query()
    (include, extend, views) = ([], [], [])
    (includeByType, extendByType, fields) = ([:], [:], [:])
  }

  /// Reads the parameters.
  ///
  /// - Parameter types: The types that the request is for. A relationship or view that none of them has is refused.
  init(_ query: Query, for types: [ResourceType]) throws(AppleError) {
    self.query = query
    include = Set(query.list("include") ?? [])
    extend = Set(query.list("extend") ?? [])
    views = Set(query.list("views") ?? [])
    includeByType = try Self.byType(query, "include")
    extendByType = try Self.byType(query, "extend")
    fields = try Self.byType(query, "fields")
    for name in include.sorted() where !types.contains(where: { $0.relationship(name) != nil }) {
      throw .invalidParameter("include", "No relationship found matching '\(name)'")
    }
    for name in views.sorted() where !types.contains(where: { $0.views.contains { $0.name == name } }) {
      throw .invalidParameter("views", "No view found matching '\(name)'")
    }
    for (type, names) in includeByType {
      for name in names.sorted() where type.relationship(name) == nil {
        throw .invalidParameter("include[\(type.rawValue)]", "No relationship found matching '\(name)'")
      }
    }
  }

  private static func byType(_ query: Query, _ name: String) throws(AppleError) -> [ResourceType: Set<String>] {
    var result: [ResourceType: Set<String>] = [:]
    for (inner, value) in query.bracketed(name) {
      guard let type = ResourceType(rawValue: inner) else { throw .unknownParameter("\(name)[\(inner)]") }
      result[type, default: []].formUnion(value.split(separator: ",").map(String.init))
    }
    return result
  }

  /// The relationships that a resource shows: by itself those that its type has, inside of another only what
  /// `include[type]` names, and no deeper: albums include songs, which include albums, and so on for ever.
  func relationships(of type: ResourceType, depth: Int) -> [(rule: RelationshipRule, showsResources: Bool)] {
    guard depth < Self.maximumDepth else { return [] }
    return type.relationships.compactMap { rule in
      let isIncluded =
        includeByType[type]?.contains(rule.name) ?? false || (depth == 0 && include.contains(rule.name))
      if isIncluded { return (rule, true) }
      guard depth == 0, rule.appearance != .onRequest else { return nil }
      return (rule, rule.appearance == .resources)
    }
  }

  /// The views that the response shows for a top-level resource.
  func views(of type: ResourceType) -> [(name: String, title: String)] {
    type.views.filter { views.contains($0.name) }
  }

  /// Whether an extended attribute is asked for.
  func extends(_ type: ResourceType, _ name: String) -> Bool {
    extend.contains(name) || extendByType[type]?.contains(name) ?? false
  }

  /// Whether an attribute is to be left out, since `fields[type]` names others only.
  func omits(_ type: ResourceType, _ name: String) -> Bool {
    guard let wanted = fields[type] else { return false }
    return !wanted.contains(name)
  }

  /// The page of a relationship that stands inside of a resource.
  func paging(_ rule: RelationshipRule) throws(AppleError) -> Paging { try Paging(rule, query) }
}

extension ResourceType {
  /// The relationship with a name, nil if the type has none such.
  func relationship(_ name: String) -> RelationshipRule? {
    relationships.first { $0.name == name }
  }
}
