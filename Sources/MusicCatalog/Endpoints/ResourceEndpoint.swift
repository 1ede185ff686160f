import Bytes
import JSON

/// The requests that are the same for all types, in the catalog as in the library of a user: `…/{type}`,
/// `…/{type}/{id}`, `…/{type}/{id}/{relationship}`, `…/{type}/{id}/view/{view}`, and `?ids[type]=`.
struct ResourceEndpoint {
  private let request: APIRequest
  private let place: Place
  private let query: Query
  private let writer: ResourceWriter

  init(_ request: APIRequest, _ place: Place) {
    (self.request, self.place, query) = (request, place, request.query)
    writer = ResourceWriter(place: place, selection: Selection(request.query))
  }

  /// Responds to a request for resources of a type.
  ///
  /// - Parameter segments: The segments after the type.
  func respond(_ type: ResourceType, _ segments: some Collection<String>) throws(AppleError) -> JSONValue {
    let segments = Array(segments)
    try request.require("GET", "HEAD")
    switch segments.count {
    case 0: return try collection(type)
    case 1: return ["data": [try writer.resource(try find(type, segments[0]))]]
    case 2: return try related(try find(type, segments[0]), type, segments[1])
    case 3 where segments[1] == "view":
      let name = ByteString(segments[2])
      guard let view = type.views.first(where: { $0.name == name }) else {
        throw .invalidPath("No view found matching '\(segments[2].prefix(64))'")
      }
      return try page(try find(type, segments[0]), view, path: "view/\(name)")
    default: throw .pathNotFound
    }
  }

  private func find(_ type: ResourceType, _ id: String) throws(AppleError) -> Resource {
    guard let resource = place.find(ResourceKey(type.name, ByteString(id))) else { throw .resourceNotFound }
    return resource
  }

  private func related(_ resource: Resource, _ type: ResourceType, _ name: String) throws(AppleError) -> JSONValue {
    if type.name == "songs", name == "lyrics" || name == "syllable-lyrics" { throw .noLyrics }
    guard let relation = type.relationship(ByteString(name)) else {
      throw .invalidPath("No relationship found matching '\(name.prefix(64))'")
    }
    return try page(resource, relation, path: name)
  }

  private func page(_ resource: Resource, _ relation: Relation, path: String) throws(AppleError) -> JSONValue {
    let all = place.related(resource, relation)
    let paging = try Paging(query, standard: relation.limit, maximum: relation.most)
    let page = paging.page(of: all)
    guard !page.isEmpty else { throw .noRelatedResources(relation.name.text) }
    let total: JSONValue? = relation.types.contains { $0.bytes.starts(with: "library-".utf8) } ? .whole(all.count) : nil
    return .object(of: [
      ("next", place.next("\(place.href(resource.key))/\(path)", paging, count: all.count)),
      ("data", try writer.resources(page)), ("meta", total.map { ["total": $0] }),
    ])
  }

  // MARK: Several resources

  /// Responds to `?ids[songs]=…&ids[albums]=…`
  ///
  /// - Parameter accepts: Whether the request may name a type.
  func severalTypes(_ accepts: (ResourceType) -> Bool) throws(AppleError) -> JSONValue {
    try request.require("GET", "HEAD")
    let groups = query.bracketed("ids")
    guard !groups.isEmpty else { throw .missingParameter("ids", "No id(s) supplied on the request") }
    var found: [Resource] = []
    for (name, value) in groups {
      guard let type = place.catalog.types[ByteString(name)], accepts(type) else {
        throw .unknownParameter("ids[\(name)]")
      }
      found += try resources(type, Query.elements(value), parameter: "ids[\(name)]")
    }
    return ["data": try writer.resources(found)]
  }

  /// Responds with the resources that `ids` and filters select, or with a page of all. The response leaves out missing
  /// resources; only a request for a single one gets 404.
  private func collection(_ type: ResourceType) throws(AppleError) -> JSONValue {
    let listed: [Resource]? =
      if let ids = query.list("ids") { try resources(type, ids, parameter: "ids") } else { nil }
    let filters = query.bracketed("filter")
    guard filters.isEmpty else { return try filtered(type, filters, listed) }
    if let listed { return ["data": try writer.resources(listed)] }
    guard let list = type.list else { throw .missingParameter("ids", "No id(s) supplied on the request") }
    return try page(sorted(place.all(type)), path: place.path(type), list.standard, list.most, total: type.isOfLibrary)
  }

  /// Returns a page of a list.
  func page(
    _ all: [Resource], path: String, _ standard: Int, _ most: Int, total: Bool = false
  ) throws(AppleError) -> JSONValue {
    let paging = try Paging(query, standard: standard, maximum: most)
    return .object(of: [
      ("next", place.next(path, paging, count: all.count)),
      ("data", try writer.resources(paging.page(of: all), depth: 0)),
      ("meta", total ? ["total": .whole(all.count)] : nil),
    ])
  }

  /// Returns the resources in the order of `sort`: an attribute, with a minus sign in descending order.
  private func sorted(_ all: [Resource]) -> [Resource] {
    guard let order = query["sort"] else { return all }
    let name = ByteString(order.drop { $0 == "-" })
    func value(_ resource: Resource) -> ByteString {
      (resource[name] ?? place.original(resource)?[name])?.string ?? ""
    }
    let rising = all.map { (value($0), $0) }.sorted { $0.0 < $1.0 }.map(\.1)
    return order.hasPrefix("-") ? rising.reversed() : rising
  }

  /// Returns the existing resources with these identifiers, whose number must be from 1 to the maximum of the type.
  private func resources(
    _ type: ResourceType, _ ids: [ByteString], parameter: String
  ) throws(AppleError) -> [Resource] {
    guard !ids.isEmpty else {
      throw .invalidParameter(parameter, "No id(s) supplied in the '\(parameter)' query parameter")
    }
    guard ids.count <= type.maximumIDs else {
      throw .invalidParameter(
        parameter, "Too many ids: at most \(type.maximumIDs) \(type.name) may be fetched, but were: \(ids.count)")
    }
    return place.permitted(ids.compactMap { place.find(ResourceKey(type.name, $0)) })
  }

  // MARK: Filters

  private func filtered(
    _ type: ResourceType, _ filters: [(inner: String, value: String)], _ listed: [Resource]?
  ) throws(AppleError) -> JSONValue {
    var data = listed
    var meta: [(String, JSONValue?)] = []
    for (name, value) in filters {
      let values = Query.elements(value)
      guard let filter = type.filters.first(where: { $0.name == name }) else {
        throw .unknownParameter("filter[\(name)]")
      }
      guard (1...25).contains(values.count) else {
        throw .invalidParameter("filter[\(name)]", "Between 1 and 25 values may be given, but were: \(values.count)")
      }
      let groups = values.map { value in (value, matches(type, filter, value)) }
      let found = groups.flatMap(\.1)
      data = data?.filter { resource in found.contains { $0.key == resource.key } } ?? found
      meta.append(
        (name, .object(of: groups.map { ($0.0.text, JSONValue.array($0.1.map(writer.identifier))) })))
    }
    return ["data": try writer.resources(data ?? []), "meta": ["filters": .object(of: meta)]]
  }

  private func matches(_ type: ResourceType, _ filter: JSONValue.Member, _ value: ByteString) -> [Resource] {
    let all = place.permitted(place.all(type))
    switch filter.value {
    case "attribute": return all.filter { $0[filter.name] == .string(value) }
    // The resource itself, or the best equivalent that the storefront has.
    case "id":
      let best = all.first { $0.key.id == value } ?? all.first { $0.equivalents.contains(value) }
      return best.map { [$0] } ?? []
    default: return all.filter { $0.filters?[filter.name.text]?.list.contains(value) ?? false }
    }
  }
}

/// The endpoint `/v1/catalog/{storefront}/…`, `/v1/storefronts…` and `/v1/language/{storefront}/tag`
struct CatalogEndpoint {
  let request: APIRequest

  func respond() throws(AppleError) -> JSONValue {
    let segments = request.segments
    switch segments.first {
    case "catalog": return try catalog(segments.dropFirst())
    case "storefronts":
      guard let type = request.catalog.types["storefronts"] else { throw .pathNotFound }
      if let tag = request.query["l"], !Storefront.isPlausible(tag) {
        throw .invalidParameter("l", "Invalid language tag '\(tag.prefix(64))'")
      }
      return try ResourceEndpoint(request, try request.place("us")).respond(type, segments.dropFirst())
    case "language": return try bestLanguage(Array(segments.dropFirst()))
    default: throw .pathNotFound
    }
  }

  private func catalog(_ segments: ArraySlice<String>) throws(AppleError) -> JSONValue {
    guard let code = segments.first else { throw .pathNotFound }
    try request.require("GET", "HEAD")
    let place = try request.place(code)
    let rest = segments.dropFirst()
    switch rest.first {
    case nil: return try ResourceEndpoint(request, place).severalTypes(\.isOfCatalog)
    case "search": return try SearchEndpoint(request, place).respond(rest.dropFirst())
    case "charts" where rest.count == 1: return try ChartsEndpoint(place, request.query).respond()
    case let name?:
      guard let type = place.catalog.types[ByteString(name)], type.isOfCatalog else {
        throw .invalidPath("Unknown catalog resource type '\(name.prefix(64))'")
      }
      return try ResourceEndpoint(request, place).respond(type, rest.dropFirst())
    }
  }

  /// Returns the best language of a storefront: the first supported one in the list, otherwise the default.
  private func bestLanguage(_ segments: [String]) throws(AppleError) -> JSONValue {
    try request.require("GET", "HEAD")
    guard segments.count == 2, segments[1] == "tag" else { throw .pathNotFound }
    let storefront = try request.place(segments[0]).storefront
    guard let wanted = request.query["acceptLanguage"] else { throw .missingParameter("acceptLanguage") }
    // The format is that of Accept-Language (RFC 9110 §12.5.4). The weights only repeat the order that senders write.
    let tags = wanted.split(separator: ",").map { item in
      String(item.prefix { $0 != ";" }).filter { !$0.isWhitespace }
    }
    let tag = tags.lazy.compactMap(storefront.supported).first ?? storefront.defaultLanguageTag
    return ["results": ["tag": .text(tag)]]
  }
}
