import Bytes
import JSON

/// The requests that are the same for all types, in the catalog as in the library of a user: `…/{type}`,
/// `…/{type}/{id}`, `…/{type}/{id}/{relationship}`, `…/{type}/{id}/view/{view}`, and `?ids[type]=`.
extension Place {
  /// Responds to a request for resources of a type, with the segments after it.
  func resources(_ type: ResourceType, _ segments: ArraySlice<String>) throws(AppleError) -> JSONValue {
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
    // Of what such a path leads to, only tracks and artists show relationships that the request does not include.
    let isBare = relation.heading != nil || !(name == "tracks" || relation.types == ["artists"])
    let heading = query.values("with").contains("attributes") ? relation.heading : nil
    return try (isBare ? bare : self).page(
      all, href(resource, relation), paging, head: [("attributes", heading)], showsTotal: relation.isOfLibrary)
  }

  /// Responds to `?ids[songs]=…&ids[albums]=…`
  func severalTypes(_ accepts: (ResourceType) -> Bool) throws(AppleError) -> JSONValue {
    let found = try listed(accepts).map { type, ids throws(AppleError) in
      try resources(type, ids, "ids[\(type.name)]")
    }
    return ["data": try documents(found.joined())]
  }

  /// Returns the identifiers of each `ids[…]`. Throws if the request names none, or a type that it may not name.
  func listed(_ accepts: (ResourceType) -> Bool) throws(AppleError) -> [(type: ResourceType, ids: [ByteString])] {
    let groups = query.bracketed("ids")
    guard !groups.isEmpty else { throw Self.noIDs }
    return try groups.map { name, value throws(AppleError) in
      guard let type = types[ByteString(name)], accepts(type) else {
        throw .init(.unknownParameter, parameter: "ids[\(name)]")
      }
      return (type, Query.elements(value))
    }
  }

  static let noIDs = AppleError(.missingParameter, "No id(s) supplied on the request", parameter: "ids")

  /// Responds with what `ids` and filters select, without missing resources, or with a page of all.
  private func collection(_ type: ResourceType) throws(AppleError) -> JSONValue {
    let listed: [Resource]? = if let ids = query.list("ids") { try resources(type, ids, "ids") } else { nil }
    let filters = query.bracketed("filter")
    guard filters.isEmpty else { return try filtered(type, filters, listed) }
    if let listed { return ["data": try documents(listed)] }
    guard let sizes = type.list else { throw Self.noIDs }
    return try (type.isOfLibrary ? bare : self).page(
      sorted(all(type).filter(Self.isListed)), path(type), try Paging(query, sizes), showsTotal: type.isOfLibrary)
  }

  /// Only paths and `meta` lead to the root of the folders.
  private static func isListed(_ resource: Resource) -> Bool { resource.key != LibraryContents.root }

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

  private func filtered(
    _ type: ResourceType, _ filters: [(inner: String, value: String)], _ listed: [Resource]?
  ) throws(AppleError) -> JSONValue {
    var (data, meta): ([Resource]?, [(String, JSONValue?)]) = (listed, [])
    for (name, value) in filters {
      let (values, parameter) = (Query.elements(value), "filter[\(name)]")
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
    return ["data": try documents((data ?? []).filter(Self.isListed)), "meta": ["filters": .object(of: meta)]]
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

  /// The response of `/v1/language/{storefront}/tag`: the first supported language, otherwise the default.
  func bestLanguage() throws(AppleError) -> JSONValue {
    guard let wanted = query["acceptLanguage"] else { throw .init(.missingParameter, parameter: "acceptLanguage") }
    // The format is that of Accept-Language (RFC 9110 §12.5.4). The weights only repeat the order that senders write.
    let tags = wanted.split(separator: ",").map { $0.prefix { $0 != ";" }.filter { !$0.isWhitespace } }
    return ["results": ["tag": .text(storefront.bestTag(tags))]]
  }

  private static let chart = "most-played"
  /// Apple's bound of the offset: "offset must be less than 200".
  private static let offsetBound = 200

  /// The response of `/v1/catalog/{storefront}/charts`.
  func charts() throws(AppleError) -> JSONValue {
    guard let names = query.list("types"), !names.isEmpty else { throw .init(.missingParameter, parameter: "types") }
    let paging = try Paging(query, PageSizes(20, most: 50), offsetBelow: Self.offsetBound)
    let genre = query["genre"].map { ResourceKey("genres", ByteString($0)) }
    if let genre, find(genre) == nil { throw .noMatch("genre", genre.id) }
    if let chart = query["chart"], chart != Self.chart { throw .noMatch("chart", ByteString(chart)) }
    var groups: [(String, JSONValue?)] = []
    func add(
      _ group: ByteString, _ ranked: [Resource], _ chart: JSONValue?, _ title: JSONValue?,
      _ parameters: [(name: String, value: String?)]
    ) throws(AppleError) {
      let order = "\(chart?.string?.text ?? ""):\(group)"
      let page = try self.group(
        Array(ranked.prefix(Self.offsetBound)), "/v1/catalog/\(storefront.key.id)/charts", paging,
        parameters: [("chart", Self.chart)] + parameters,
        head: [("chart", chart), ("name", title), ("orderId", .text(order))])
      groups.append((group.text, [page]))
    }
    for name in names where !groups.contains(where: { name == $0.0 }) {
      guard let type = types[name], let title = type.chart else { throw .noMatch("types", name) }
      let ranked = permitted(all(type)).filter { resource in
        resource.filters == nil
          && (genre.map { genre in related(resource, "genres").contains { $0.key == genre } } ?? true)
      }
      try add(name, ranked, .text(Self.chart), title, [("genre", genre?.id.text), ("types", name.text)])
    }
    for row in types.charts {
      guard let type = types["playlists"], let name = row["with"]?.string, query.values("with").contains(name)
      else { continue }
      let ranked = all(type).filter { $0.has(name, of: "with") }
      try add(name, ranked, row["chart"], row["name"], [("types", type.name.text), ("with", name.text)])
    }
    let order = groups.compactMap { $0.1?.elements.first?["orderId"] }
    return ["results": .object(of: groups), "meta": ["results": ["order": .array(order)]]]
  }
}
