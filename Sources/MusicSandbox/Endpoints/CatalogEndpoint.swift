/// `/v1/catalog/{storefront}/…`
struct CatalogEndpoint {
  private let request: APIRequest
  private let place: Place
  /// The segments behind the storefront.
  private let segments: [String]

  init(_ request: APIRequest) throws(AppleError) {
    guard let code = request.segments.dropFirst().first else { throw .pathNotFound }
    self.request = request
    place = try request.place(code)
    segments = Array(request.segments.dropFirst(2))
  }

  func answer() throws(AppleError) -> Document {
    try request.require("GET", "HEAD")
    let relation = try LibraryRelation(request)
    switch segments.first {
    case nil: return try severalTypes()
    case "search": return try SearchEndpoint(place, request.query).answer(segments.dropFirst())
    case "charts" where segments.count == 1: return try ChartsEndpoint(place, request.query).answer()
    case let name?:
      guard let type = ResourceType(rawValue: name) else {
        throw .invalidPath("Unknown catalog resource type '\(name.prefix(64))'")
      }
      return try resources(type, relation)
    }
  }

  private func resources(_ type: ResourceType, _ relation: LibraryRelation) throws(AppleError) -> Document {
    switch segments.count {
    case 1: return try CollectionEndpoint(place, request.query, type).answer()
    case 2: return try single(type, segments[1], relation)
    case 3 where segments[2] == "library": return try relation.answer(try item(type, segments[1]))
    case 3: return try related(type, segments[1], segments[2])
    case 4 where segments[2] == "view": return try view(type, segments[1], segments[3])
    default: throw .pathNotFound
    }
  }

  // MARK: One resource

  private func single(
    _ type: ResourceType, _ id: String, _ relation: LibraryRelation
  ) throws(AppleError) -> Document {
    let item = try item(type, id)
    let writer = ResourceWriter(place: place, selection: try Selection(request.query, for: [type]))
    return ["data": [try relation.added(to: writer.resource(item), item)]]
  }

  private func related(_ type: ResourceType, _ id: String, _ name: String) throws(AppleError) -> Document {
    guard let rule = type.relationship(name) else { throw .relationshipNotFound(name) }
    return try page(try item(type, id), rule, path: name)
  }

  private func view(_ type: ResourceType, _ id: String, _ name: String) throws(AppleError) -> Document {
    guard type.views.contains(where: { $0.name == name }) else { throw .relationshipNotFound(name) }
    return try page(try item(type, id), .view(name), path: "view/\(name)")
  }

  private func item(_ type: ResourceType, _ id: String) throws(AppleError) -> Item {
    guard let item = place.catalog.item(ResourceKey(type, id), in: place.storefront.id) else {
      throw .resourceNotFound
    }
    return item
  }

  private func page(_ item: Item, _ rule: RelationshipRule, path: String) throws(AppleError) -> Document {
    let related = place.catalog.related(item, rule.name, in: place.storefront.id)
    let paging = try Paging(request.query, standard: rule.defaultLimit, maximum: rule.maximumLimit)
    let types = Array(Set(related.map(\.key.type)))
    let writer = ResourceWriter(place: place, selection: try Selection(request.query, for: types))
    let page = paging.page(of: related)
    guard !page.isEmpty else { throw .noRelatedResources(rule.name) }
    return .object([
      ("next", place.next("\(place.href(item.key))/\(path)", paging, count: related.count)),
      ("data", try writer.resources(page)),
    ])
  }

  // MARK: Several types at once

  /// `?ids[songs]=…&ids[albums]=…`
  private func severalTypes() throws(AppleError) -> Document {
    let groups = request.query.bracketed("ids")
    guard !groups.isEmpty else { throw .missingParameter("ids", "No id(s) supplied on the request") }
    var items: [Item] = []
    var types: [ResourceType] = []
    for (name, value) in groups {
      guard let type = ResourceType(rawValue: name) else { throw .unknownParameter("ids[\(name)]") }
      let ids = value.split(separator: ",").map(String.init)
      try CollectionEndpoint.check(ids, of: type, parameter: "ids[\(name)]")
      types.append(type)
      items += ids.compactMap { place.catalog.item(ResourceKey(type, $0), in: place.storefront.id) }
    }
    let writer = ResourceWriter(place: place, selection: try Selection(request.query, for: types))
    return ["data": try writer.resources(items)]
  }
}
