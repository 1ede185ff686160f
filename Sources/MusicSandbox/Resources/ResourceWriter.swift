/// Writes resources in the form of Apple's API.
struct ResourceWriter {
  let place: Place
  let selection: Selection

  /// Returns a resource: identifier, attributes, and the selected relationships and views.
  ///
  /// - Parameter depth: The number of resources that contain this one.
  func resource(_ item: Item, depth: Int = 0) throws(AppleError) -> Document {
    let type = item.key.type
    var members = Self.identity(item, place)
    members.append(("attributes", attributes(item)))
    var relationships: [(String, Document?)] = []
    for (rule, showsResources) in selection.relationships(of: type, depth: depth) {
      let related = try relationship(item, rule, depth: showsResources ? depth + 1 : nil)
      relationships.append((rule.name, related))
    }
    if !relationships.isEmpty { members.append(("relationships", .object(relationships))) }
    let views = depth > 0 ? [] : selection.views(of: type)
    if !views.isEmpty {
      var shown: [(String, Document?)] = []
      for view in views { shown.append((view.name, try self.view(item, view))) }
      members.append(("views", .object(shown)))
    }
    return .object(members)
  }

  /// Returns an array of resources at the same depth.
  func resources(_ items: some Sequence<Item>, depth: Int = 0) throws(AppleError) -> Document {
    var documents: [Document] = []
    for item in items { documents.append(try resource(item, depth: depth)) }
    return .array(documents)
  }

  /// Returns only the identifier of a resource.
  func identifier(_ item: Item) -> Document { .object(Self.identity(item, place)) }

  private static func identity(_ item: Item, _ place: Place) -> [(String, Document?)] {
    [
      ("id", .string(item.key.id)), ("type", .string(item.key.type.rawValue)),
      ("href", .string(place.href(item.key))),
    ]
  }

  // MARK: Relationships and views

  /// Returns a relationship.
  ///
  /// - Parameter depth: The depth of the related resources; nil to show only their identifiers.
  private func relationship(_ item: Item, _ rule: RelationshipRule, depth: Int?) throws(AppleError) -> Document {
    let related = place.catalog.related(item, rule.name, in: place.storefront.id)
    let path = "\(place.href(item.key))/\(rule.name)"
    let paging = try selection.paging(rule)
    let page = paging.page(of: related)
    let data = if let depth { try resources(page, depth: depth) } else { Document.array(page.map(identifier)) }
    return .object([
      ("href", link(path, related)), ("next", place.next(path, paging, count: related.count)), ("data", data),
    ])
  }

  private func view(_ item: Item, _ view: (name: String, title: String)) throws(AppleError) -> Document {
    let related = place.catalog.related(item, view.name, in: place.storefront.id)
    let path = "\(place.href(item.key))/view/\(view.name)"
    let paging = try selection.paging(.view(view.name))
    return .object([
      ("href", link(path, related)), ("next", place.next(path, paging, count: related.count)),
      ("attributes", ["title": .string(view.title)]),
      ("data", try resources(paging.page(of: related), depth: 1)),
    ])
  }

  /// Returns the path of the related resources; nil if there are none, because that path then answers 404.
  private func link(_ path: String, _ related: [Item]) -> Document? { related.isEmpty ? nil : .string(path) }

  // MARK: Attributes

  /// Returns the selected attributes, sorted by name.
  func attributes(_ item: Item) -> Document {
    let type = item.key.type
    let extended = item.extended.filter { selection.extends(type, $0.name) }
    let all = item.attributes + extended + [Attribute("name", .text(item.name))]
    return .object(
      all.filter { !selection.omits(type, $0.name) }.sorted { $0.name < $1.name }
        .map { ($0.name, value($0.value, of: item)) })
  }

  private func value(_ value: Attribute.Value, of item: Item) -> Document {
    switch value {
    case .fixed(let document): document
    case .text(let text): .string(text[place.language])
    case .notes(let text): ["standard": .string(text[place.language]), "short": .string(text[place.language])]
    case .artwork: Artwork(of: item.key).document(base: place.base)
    case .artworkOf(let key): Artwork(of: key).document(base: place.base)
    case .genreNames(let genres): .strings(genres.map { GenreTable.names(of: $0)[place.language] })
    case .playParams: ["id": .string(item.key.id), "kind": .string(item.key.type.playKind ?? "")]
    case .page: .string(page(item))
    }
  }

  /// Returns the URL of the web page, like Apple's but without the words of the name.
  private func page(_ item: Item) -> String {
    "https://music.apple.com/\(place.storefront.id)/\(item.key.type.pageWord)/\(item.key.id)"
  }
}

extension RelationshipRule {
  /// Returns the rule of a view, with its page sizes.
  static func view(_ name: String) -> RelationshipRule { RelationshipRule(name, .onRequest, 10, 100) }
}

/// The context in which resources are written.
struct Place: Sendable {
  let catalog: Catalog
  let storefront: Storefront
  /// The language tag of the response.
  let language: String
  /// The language tag in the request, which the response's `next` keeps.
  let requestedLanguage: String?
  /// The beginning of the emulator's absolute URLs, such as `http://localhost:8081`.
  let base: String

  /// Returns the path of a resource.
  func href(_ key: ResourceKey) -> String {
    "/v1/catalog/\(storefront.id)/\(key.type.rawValue)/\(key.id)"
  }

  /// Returns the path of the next page. It has the offset, and repeats neither `limit` nor `extend`.
  func next(_ path: String, _ paging: Paging, count: Int) -> Document? {
    guard let offset = paging.nextOffset(count: count) else { return nil }
    let language = requestedLanguage.map { "l=\(FormEncoding.encodeQueryValue($0))&" } ?? ""
    return .string("\(path)?\(language)offset=\(offset)")
  }
}

/// The requested part of a list.
struct Paging: Sendable {
  let limit: Int
  let offset: Int

  /// Parses `limit` and `offset`.
  ///
  /// Throws Apple's error for a limit outside of 1 to `maximum`, or a value that is not a number.
  init(_ query: Query, standard: Int, maximum: Int, offsetBelow bound: Int? = nil) throws(AppleError) {
    limit = try Self.number(query["limit"], "limit", 1...maximum) ?? standard
    offset = try Self.number(query["offset"], "offset", 0...Int(Int32.max)) ?? 0
    if let bound, offset >= bound { throw .invalidParameter("offset", "offset must be less than \(bound)") }
  }

  /// Selects the first page of a relationship inside of a resource; `limit[name]` sets its length.
  init(_ rule: RelationshipRule, _ query: Query) throws(AppleError) {
    let name = "limit[\(rule.name)]"
    limit = try Self.number(query[name], name, 1...rule.maximumLimit) ?? rule.defaultLimit
    offset = 0
  }

  private static func number(
    _ text: String?, _ parameter: String, _ range: ClosedRange<Int>
  ) throws(AppleError) -> Int? {
    guard let text else { return nil }
    guard let number = Int(text) else {
      throw .invalidParameter(parameter, "Value must be an integer, but was: \(text.prefix(32))")
    }
    guard number >= range.lowerBound else {
      throw .invalidParameter(
        parameter, "Value must be an integer greater than or equal to \(range.lowerBound), but was: \(number)")
    }
    guard number <= range.upperBound else {
      throw .invalidParameter(
        parameter, "Value must be an integer less than or equal to \(range.upperBound), but was: \(number)")
    }
    return number
  }

  /// Returns the elements of this page.
  func page<Element>(of list: [Element]) -> ArraySlice<Element> {
    list.dropFirst(offset).prefix(limit)
  }

  /// Returns the offset of the next page; nil if this page is the last.
  func nextOffset(count: Int) -> Int? {
    let (end, overflow) = offset.addingReportingOverflow(limit)
    return !overflow && end < count ? end : nil
  }
}

/// The parts of each resource that a request selects: `include`, `extend`, `views`, `limit[…]`, `fields`.
struct Selection: Sendable {
  /// The depth from which resources show no relationships.
  private static let maximumDepth = 2

  private let query: Query
  private let include: Set<String>
  private let includeByType: [ResourceType: Set<String>]
  private let extend: Set<String>
  private let extendByType: [ResourceType: Set<String>]
  private let views: Set<String>
  private let fields: [ResourceType: Set<String>]

  /// The selection of a request without any of these parameters.
  static let standard = Selection()

  private init() {
    query = Query()
    (include, extend, views) = ([], [], [])
    (includeByType, extendByType, fields) = ([:], [:], [:])
  }

  /// Parses the parameters.
  ///
  /// - Parameter types: The types of the request. A relationship or view that none of them has is refused.
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

  /// Returns the relationships that a resource shows. A top-level resource shows those of its type, a nested one only
  /// those in `include[type]`. The depth is limited because albums include songs, which include albums, and so on
  /// without end.
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

  /// Returns the views that a response shows for a top-level resource.
  func views(of type: ResourceType) -> [(name: String, title: String)] {
    type.views.filter { views.contains($0.name) }
  }

  /// Returns whether the request selects an extended attribute.
  func extends(_ type: ResourceType, _ name: String) -> Bool {
    extend.contains(name) || extendByType[type]?.contains(name) ?? false
  }

  /// Returns whether `fields[type]` excludes an attribute.
  func omits(_ type: ResourceType, _ name: String) -> Bool {
    guard let wanted = fields[type] else { return false }
    return !wanted.contains(name)
  }

  /// Returns the page of a relationship inside of a resource.
  func paging(_ rule: RelationshipRule) throws(AppleError) -> Paging { try Paging(rule, query) }
}

extension ResourceType {
  /// Returns the relationship with a name; nil if the type has none.
  func relationship(_ name: String) -> RelationshipRule? {
    relationships.first { $0.name == name }
  }
}
