import Bytes
import JSON

/// Writes resources in the form of Apple's API.
struct ResourceWriter {
  let place: Place
  let selection: Selection
  /// Whether resources show only included relationships, as in searches and charts.
  var isBare = false

  /// Returns a resource: identifier, attributes, and the selected relationships and views.
  ///
  /// - Parameter depth: The number of resources that contain this one.
  func resource(_ resource: Resource, depth: Int = 0) throws(AppleError) -> JSONValue {
    guard let type = place.catalog.types[resource.key.type] else { return identifier(resource) }
    var members = identity(resource)
    members.append(("attributes", .object(attributes(resource))))
    var relationships: [(String, JSONValue?)] = []
    for (relation, appearance) in selection.relationships(of: type, depth: depth, isBare: isBare) {
      guard !relation.isPersonal || type.isOfLibrary || place.library != nil else { continue }
      relationships.append((relation.name.text, try related(resource, relation, appearance, depth: depth)))
    }
    if !relationships.isEmpty { members.append(("relationships", .object(of: relationships))) }
    var views: [(String, JSONValue?)] = []
    for view in type.views where depth == 0 && selection.views.contains(view.name) {
      views.append((view.name.text, try self.view(resource, view)))
    }
    if !views.isEmpty { members.append(("views", .object(of: views))) }
    return .object(of: members)
  }

  /// Returns an array of resources at the same depth.
  func resources(_ resources: some Sequence<Resource>, depth: Int = 0) throws(AppleError) -> JSONValue {
    var documents: [JSONValue] = []
    for resource in resources { documents.append(try self.resource(resource, depth: depth)) }
    return .array(documents)
  }

  /// Returns only the identifier of a resource.
  func identifier(_ resource: Resource) -> JSONValue { .object(of: identity(resource)) }

  private func identity(_ resource: Resource) -> [(String, JSONValue?)] {
    [
      ("id", .string(resource.key.id)), ("type", .string(resource.key.type)),
      ("href", .text(place.href(resource.key))),
    ]
  }

  // MARK: Relationships and views

  private func related(
    _ resource: Resource, _ relation: Relation, _ appearance: Relation.Appearance, depth: Int
  ) throws(AppleError) -> JSONValue {
    let all = place.related(resource, relation)
    let path = "\(place.href(resource.key))/\(relation.name)"
    let paging = try selection.paging(relation)
    let page = paging.page(of: all)
    let data =
      appearance == .resources ? try resources(page, depth: depth + 1) : JSONValue.array(page.map(identifier))
    return .object(of: [
      ("href", link(path, all)), ("next", place.next(path, paging, count: all.count)), ("data", data),
    ])
  }

  private func view(_ resource: Resource, _ view: Relation) throws(AppleError) -> JSONValue {
    let all = place.related(resource, view)
    let path = "\(place.href(resource.key))/view/\(view.name)"
    let paging = try selection.paging(view)
    return .object(of: [
      ("href", link(path, all)), ("next", place.next(path, paging, count: all.count)),
      ("attributes", ["title": .string(view.title)]),
      ("data", try resources(paging.page(of: all), depth: 1)),
    ])
  }

  /// Returns the path of the related resources; nil if there are none, because that path then answers 404.
  private func link(_ path: String, _ related: [Resource]) -> JSONValue? { related.isEmpty ? nil : .text(path) }

  // MARK: Attributes

  /// Returns the selected attributes, sorted by name.
  func attributes(_ resource: Resource) -> [JSONValue.Member] {
    guard let type = place.catalog.types[resource.key.type] else { return [] }
    var all = translated(resource)
    if type.isOfLibrary { all = libraryAttributes(resource, all, type) }
    if let library = place.library {
      for name in selection.personalAttributes(of: type) {
        let isTrue = name == "inFavorites" ? library.isFavorite(resource.key) : library.has(resource.key)
        all.append(.init(name: name, value: .bool(isTrue)))
      }
    }
    return all.filter { selection.shows($0.name, of: type) }
  }

  private func translated(_ resource: Resource) -> [JSONValue.Member] {
    resource.attributes(in: String(Storefront.primary(place.language))).compactMap { member in
      value(member.value, of: resource).map { .init(name: member.name, value: $0) }
    }
  }

  /// Returns a value with what depends on the request.
  private func value(_ value: JSONValue, of resource: Resource) -> JSONValue? {
    switch value {
    case .string(let text) where text.bytes.contains(UInt8(ascii: "{")):
      Placeholders.replaced(text) { name in
        switch name {
        case "base": .value(.text(place.base))
        case "storefront": .value(.text(place.storefront.id))
        case "genres.name": .value(.array(genreNames(resource)))
        default: .unchanged
        }
      }
    case .object(let members):
      .object(members.map { .init(name: $0.name, value: self.value($0.value, of: resource) ?? .null) })
    default: value
    }
  }

  private func genreNames(_ resource: Resource) -> [JSONValue] {
    guard let relation = place.catalog.types[resource.key.type]?.relationship("genres") else { return [] }
    let language = String(Storefront.primary(place.language))
    return place.related(resource, relation).compactMap { genre in
      genre.attributes(in: language).first { $0.name == "name" }?.value
    }
  }

  /// Adds what a resource of a library has from its counterpart in the catalog.
  private func libraryAttributes(
    _ resource: Resource, _ own: [JSONValue.Member], _ type: ResourceType
  ) -> [JSONValue.Member] {
    guard let original = place.original(resource) else { return own }
    var all = own
    var others = translated(original).filter { type.shared.contains($0.name) }
    if let kind = type.kind {
      let parameters: JSONValue = [
        "id": .string(resource.key.id), "kind": .string(kind), "isLibrary": true, "catalogId": .string(original.key.id),
      ]
      others.append(.init(name: "playParams", value: parameters))
    }
    for other in others where !own.contains(where: { $0.name == other.name }) { all.append(other) }
    return all.sorted { $0.name < $1.name }
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
  init(_ relation: Relation, _ query: Query) throws(AppleError) {
    let name = "limit[\(relation.name)]"
    limit = try Self.number(query[name], name, 1...relation.most) ?? relation.limit
    offset = 0
  }

  private static func number(
    _ text: String?, _ parameter: String, _ range: ClosedRange<Int>
  ) throws(AppleError) -> Int? {
    guard let text else { return nil }
    guard let number = Int(text) else {
      throw .invalidParameter(parameter, "Value must be an integer, but was: \(text.prefix(32))")
    }
    guard !range.contains(number) else { return number }
    let (word, bound) = number < range.lowerBound ? ("greater", range.lowerBound) : ("less", range.upperBound)
    throw .invalidParameter(
      parameter, "Value must be an integer \(word) than or equal to \(bound), but was: \(number)")
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

/// The parts of each resource that a request selects: `include`, `relate`, `extend`, `views`, `limit[…]`, `fields`.
/// Like Apple, the emulator ignores names that a type does not have.
struct Selection: Sendable {
  /// The depth from which resources show no relationships, because albums include songs, which include albums, and so
  /// on without end.
  private static let maximumDepth = 2
  /// The relationships and attributes that depend on the user, and the parameters that select them.
  private static let personal: [(parameters: [String], names: [ByteString])] = [
    (["include", "relate"], ["library"]), (["extend", "fields"], ["inFavorites", "inLibrary"]),
  ]

  private let query: Query
  let views: [ByteString]
  /// The values of these parameters, with the type in brackets if there is one.
  private let names: [(parameter: String, type: ByteString?, names: [ByteString])]

  /// The selection of a request without any of these parameters.
  static let none = Selection(Query())

  init(_ query: Query) {
    self.query = query
    views = query.list("views") ?? []
    names = ["include", "relate", "extend", "fields"].flatMap { parameter in
      (query.list(parameter).map { [(parameter, nil, $0)] } ?? [])
        + query.bracketed(parameter).map { (parameter, ByteString($0.inner), Query.elements($0.value)) }
    }
  }

  /// Whether the request selects anything that depends on the user.
  var isPersonal: Bool {
    names.contains { selected in
      Self.personal.contains {
        $0.parameters.contains(selected.parameter) && $0.names.contains(where: selected.names.contains)
      }
    } || query.values("filter[identity]").contains("personal")
  }

  private func names(_ parameter: String, _ name: ByteString, _ type: ResourceType, depth: Int = 0) -> Bool {
    names.contains { selected in
      selected.parameter == parameter && selected.names.contains(name)
        && (selected.type.map { $0 == type.name } ?? (depth == 0))
    }
  }

  /// Returns the relationships that a resource shows. A top-level resource shows those of its type, a nested one only
  /// those in `include[type]`.
  func relationships(
    of type: ResourceType, depth: Int, isBare: Bool
  ) -> [(relation: Relation, appearance: Relation.Appearance)] {
    guard depth < Self.maximumDepth else { return [] }
    let areOmitted = isBare || query["omit[resource]"] == "autos"
    return type.relationships.compactMap { relation in
      if names("include", relation.name, type, depth: depth) { return (relation, .resources) }
      if names("relate", relation.name, type, depth: depth) { return (relation, .identifiers) }
      guard depth == 0, !areOmitted else { return nil }
      return relation.appearance.map { (relation, $0) }
    }
  }

  /// Returns whether a response shows an attribute.
  func shows(_ name: ByteString, of type: ResourceType) -> Bool {
    let isExtended = type.extended.contains(name)
    let lists = names.filter { $0.parameter == "fields" && ($0.type == nil || $0.type == type.name) }
    guard lists.isEmpty else { return lists.contains { $0.names.contains(name) } }
    return !isExtended || names("extend", name, type)
  }

  /// Returns the attributes about the user that the request selects.
  func personalAttributes(of type: ResourceType) -> [ByteString] {
    ["inFavorites", "inLibrary"].filter { names("extend", $0, type) || names("fields", $0, type) }
  }

  /// Returns the page of a relationship inside of a resource.
  func paging(_ relation: Relation) throws(AppleError) -> Paging { try Paging(relation, query) }
}
