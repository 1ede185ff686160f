/// The endpoint `/v1/catalog/{storefront}/…`
struct CatalogEndpoint {
  private let request: APIRequest
  private let place: Place
  /// The segments after the storefront.
  private let segments: [String]

  init(_ request: APIRequest) throws(AppleError) {
    guard let code = request.segments.dropFirst().first else { throw .pathNotFound }
    self.request = request
    place = try request.place(code)
    segments = Array(request.segments.dropFirst(2))
  }

  func respond() throws(AppleError) -> Document {
    try request.require("GET", "HEAD")
    let relation = try LibraryRelation(request)
    switch segments.first {
    case nil: return try severalTypes()
    case "search": return try SearchEndpoint(place, request.query).respond(segments.dropFirst())
    case "charts" where segments.count == 1: return try ChartsEndpoint(place, request.query).respond()
    case let name?:
      guard let type = ResourceType(rawValue: name) else {
        throw .invalidPath("Unknown catalog resource type '\(name.prefix(64))'")
      }
      return try resources(type, relation)
    }
  }

  private func resources(_ type: ResourceType, _ relation: LibraryRelation) throws(AppleError) -> Document {
    switch segments.count {
    case 1: return try CollectionEndpoint(place, request.query, type).respond()
    case 2: return try single(type, segments[1], relation)
    case 3 where segments[2] == "library": return try relation.respond(try item(type, segments[1]))
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

  /// Responds to `?ids[songs]=…&ids[albums]=…`
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

/// The endpoint `/v1/catalog/{storefront}/{type}` with `ids`, with a filter by code, or for all genres.
struct CollectionEndpoint {
  private let place: Place
  private let query: Query
  private let type: ResourceType

  init(_ place: Place, _ query: Query, _ type: ResourceType) {
    (self.place, self.query, self.type) = (place, query, type)
  }

  /// Responds to the request. The response leaves out missing resources; only a request for a single one gets 404.
  func respond() throws(AppleError) -> Document {
    let writer = ResourceWriter(place: place, selection: try Selection(query, for: [type]))
    if let filter = try filter() { return try filtered(filter.name, filter.values, writer) }
    if let ids = query.list("ids") {
      try Self.check(ids, of: type, parameter: "ids")
      let items = ids.compactMap { place.catalog.item(ResourceKey(type, $0), in: place.storefront.id) }
      return ["data": try writer.resources(items)]
    }
    guard type == .genres else { throw .missingParameter("ids", "No id(s) supplied on the request") }
    let genres = place.catalog.all(.genres, in: place.storefront.id)
    let paging = try Paging(query, standard: 100, maximum: 200)
    return .object([
      ("next", place.next("/v1/catalog/\(place.storefront.id)/genres", paging, count: genres.count)),
      ("data", try writer.resources(paging.page(of: genres))),
    ])
  }

  /// Throws unless the number of identifiers is from 1 to the maximum of the type.
  static func check(_ ids: [String], of type: ResourceType, parameter: String) throws(AppleError) {
    guard !ids.isEmpty else {
      throw .invalidParameter(parameter, "No id(s) supplied in the '\(parameter)' query parameter")
    }
    guard ids.count <= type.maximumIDs else {
      throw .invalidParameter(
        parameter, "Too many ids: at most \(type.maximumIDs) \(type.rawValue) may be fetched, but were: \(ids.count)")
    }
  }

  // MARK: Filters

  private func filter() throws(AppleError) -> (name: String, values: [String])? {
    for (name, value) in query.bracketed("filter") where name != "identity" {
      guard name == filterName else { throw .unknownParameter("filter[\(name)]") }
      let values = value.split(separator: ",").map(String.init)
      guard (1...25).contains(values.count) else {
        throw .invalidParameter("filter[\(name)]", "Between 1 and 25 values may be given, but were: \(values.count)")
      }
      return (name, values)
    }
    return nil
  }

  private var filterName: String? {
    switch type {
    case .songs, .musicVideos: "isrc"
    case .albums: "upc"
    default: nil
    }
  }

  private func filtered(
    _ name: String, _ values: [String], _ writer: ResourceWriter
  ) throws(AppleError) -> Document {
    let all = place.catalog.all(type, in: place.storefront.id)
    let groups = values.map { value in (value, all.filter { $0.code == value }) }
    let found = groups.map { value, items in (value, Document?.some(.array(items.map(writer.identifier)))) }
    return [
      "data": try writer.resources(groups.flatMap(\.1)),
      "meta": ["filters": .object([(name, .object(found))])],
    ]
  }
}

/// A request with a valid token, as endpoints need it.
struct APIRequest {
  let method: String
  /// The decoded segments after `v1`.
  let segments: ArraySlice<String>
  let query: Query
  let content: [UInt8]
  let catalog: Catalog
  /// The beginning of the emulator's absolute URLs.
  let base: String
  /// The user according to the music user token.
  let user: UserAccess

  /// The result of checking the music user token.
  enum UserAccess {
    case user(UserLibrary)
    case withoutSubscription
    case unknown
  }

  /// Returns the library of the user. Throws 403 if the user has no library.
  func library() throws(AppleError) -> UserLibrary {
    switch user {
    case .user(let library): return library
    case .withoutSubscription: throw .noSubscription
    case .unknown: throw .invalidUserToken
    }
  }

  /// Whether the response may depend on the user.
  var isPersonal: Bool { query["relate"] != nil || !query.bracketed("filter").isEmpty || segments.last == "library" }

  /// Throws 405 unless the method is one of `methods`.
  func require(_ methods: String...) throws(AppleError) {
    guard !methods.contains(method) else { return }
    throw .methodNotAllowed(methods.joined(separator: ", "))
  }

  /// Returns the place for a storefront's code and the parameter `l`.
  func place(_ code: String) throws(AppleError) -> Place {
    guard let storefront = Storefront[code] else { throw .invalidPath("Unknown storefront '\(code.prefix(32))'") }
    return Place(
      catalog: catalog, storefront: storefront, language: try storefront.language(for: query["l"]),
      requestedLanguage: query["l"], base: base)
  }
}
