import Bytes
import JSON

/// The requests that are the same for all types, in the catalog as in the library of a user: `…/{type}`,
/// `…/{type}/{id}`, `…/{type}/{id}/{relationship}`, `…/{type}/{id}/view/{view}`, and `?ids[type]=`.
extension Place {
  /// Responds to `/v1/catalog/{storefront}/…`
  func catalog(_ segments: ArraySlice<String>) throws(AppleError) -> JSONValue {
    try request.require("GET", "HEAD")
    let rest = segments.dropFirst()
    switch segments.first {
    case nil: return try severalTypes(\.isOfCatalog)
    case "search": return try Search(self).respond(rest)
    case "charts" where rest.isEmpty: return try bare.charts()
    case let name?:
      guard let type = types[ByteString(name)], type.isOfCatalog else {
        throw .init(.invalidPath, "Unknown catalog resource type '\(name.prefix(64))'")
      }
      return try resources(type, rest)
    }
  }

  /// Responds to a request for resources of a type.
  ///
  /// - Parameter segments: The segments after the type.
  func resources(_ type: ResourceType, _ segments: some Collection<String>) throws(AppleError) -> JSONValue {
    try request.require("GET", "HEAD")
    guard let id = segments.first else { return try collection(type) }
    guard let resource = find(ResourceKey(type.name, ByteString(id))) else { throw .init(.resourceNotFound) }
    let rest = Array(segments.dropFirst())
    switch (rest.first, rest.count) {
    case (nil, _): return ["data": try documents([resource])]
    case (let name?, 1):
      if type.name == "songs", name == "lyrics" || name == "syllable-lyrics" { throw .init(.noLyrics) }
      return try related(resource, type.relationships, name, "relationship")
    case ("view", 2): return try related(resource, type.views, rest[1], "view")
    default: throw .init(.pathNotFound)
    }
  }

  private func related(
    _ resource: Resource, _ relations: [Relation], _ name: String, _ word: String
  ) throws(AppleError) -> JSONValue {
    guard let relation = relations.first(where: { $0.name == name }) else {
      throw .init(.invalidPath, "No \(word) found matching '\(name.prefix(64))'")
    }
    let paging = try Paging(query, relation.sizes)
    let all = related(resource, relation)
    guard !paging.page(of: all).isEmpty else {
      throw .init(.noRelatedResources, "No related resources found for \(name)")
    }
    let showsTotal = relation.types.contains { $0.bytes.starts(with: "library-".utf8) }
    return try page(all, href(resource, relation), paging, showsTotal: showsTotal)
  }

  // MARK: Several resources

  /// Responds to `?ids[songs]=…&ids[albums]=…`
  ///
  /// - Parameter accepts: Whether the request may name a type.
  func severalTypes(_ accepts: (ResourceType) -> Bool) throws(AppleError) -> JSONValue {
    try request.require("GET", "HEAD")
    let groups = query.bracketed("ids")
    guard !groups.isEmpty else { throw Self.noIDs }
    var found: [Resource] = []
    for (name, value) in groups {
      guard let type = types[ByteString(name)], accepts(type) else {
        throw .init(.unknownParameter, parameter: "ids[\(name)]")
      }
      found += try resources(type, Query.elements(value), "ids[\(name)]")
    }
    return ["data": try documents(found)]
  }

  static let noIDs = AppleError(.missingParameter, "No id(s) supplied on the request", parameter: "ids")

  /// Responds with the resources that `ids` and filters select, or with a page of all. The response leaves out missing
  /// resources; only a request for a single one gets 404.
  private func collection(_ type: ResourceType) throws(AppleError) -> JSONValue {
    let listed: [Resource]? = if let ids = query.list("ids") { try resources(type, ids, "ids") } else { nil }
    let filters = query.bracketed("filter")
    guard filters.isEmpty else { return try filtered(type, filters, listed) }
    if let listed { return ["data": try documents(listed)] }
    guard let sizes = type.list else { throw Self.noIDs }
    return try page(sorted(all(type)), path(type), try Paging(query, sizes), showsTotal: type.isOfLibrary)
  }

  private func sorted(_ all: [Resource]) -> [Resource] {
    guard let order = query["sort"] else { return all }
    let name = ByteString(order.drop { $0 == "-" })
    let values = all.map { resource in
      (value: (resource[name] ?? original(resource)?[name])?.string ?? "", resource: resource)
    }
    let rising = values.sorted { $0.value < $1.value }.map(\.resource)
    return order.hasPrefix("-") ? rising.reversed() : rising
  }

  /// Returns the existing resources with these identifiers, whose number must be from 1 to the maximum of the type.
  private func resources(
    _ type: ResourceType, _ ids: [ByteString], _ parameter: String
  ) throws(AppleError) -> [Resource] {
    guard !ids.isEmpty else { throw .invalid(parameter, "No id(s) supplied in the '\(parameter)' query parameter") }
    guard ids.count <= type.maximumIDs else {
      throw .invalid(
        parameter, "Too many ids: at most \(type.maximumIDs) \(type.name) may be fetched, but were: \(ids.count)")
    }
    return permitted(ids.compactMap { find(ResourceKey(type.name, $0)) })
  }

  // MARK: Filters

  private func filtered(
    _ type: ResourceType, _ filters: [(inner: String, value: String)], _ listed: [Resource]?
  ) throws(AppleError) -> JSONValue {
    var data = listed
    var meta: [(String, JSONValue?)] = []
    for (name, value) in filters {
      let values = Query.elements(value)
      let parameter = "filter[\(name)]"
      guard let filter = type.filters.first(where: { $0.name == name }) else {
        throw .init(.unknownParameter, parameter: parameter)
      }
      guard (1...25).contains(values.count) else {
        throw .invalid(parameter, "Between 1 and 25 values may be given, but were: \(values.count)")
      }
      let groups = values.map { value in (name: value.text, found: matches(type, filter, value)) }
      let found = groups.flatMap(\.found)
      data = data?.filter { resource in found.contains { $0.key == resource.key } } ?? found
      meta.append((name, .object(of: groups.map { ($0.name, .array($0.found.map(identifier))) })))
    }
    return ["data": try documents(data ?? []), "meta": ["filters": .object(of: meta)]]
  }

  private func matches(_ type: ResourceType, _ filter: JSONValue.Member, _ value: ByteString) -> [Resource] {
    let all = permitted(all(type))
    switch filter.value {
    case "attribute": return all.filter { $0[filter.name] == .string(value) }
    // The resource itself, or the best equivalent that the storefront has.
    case "id":
      let best = all.first { $0.key.id == value } ?? all.first { $0.equivalents.contains(value) }
      return best.map { [$0] } ?? []
    default: return all.filter { $0.has(value, of: filter.name) }
    }
  }
}
