import Bytes

/// The endpoint `/v1/catalog/{storefront}/charts`
struct ChartsEndpoint {
  private static let chart = "most-played"
  /// Apple's bound of the offset: "offset must be less than 200".
  private static let offsetBound = 200

  private let place: Place
  private let query: Query

  init(_ place: Place, _ query: Query) {
    (self.place, self.query) = (place, query)
  }

  func respond() throws(AppleError) -> Document {
    let types = try requestedTypes()
    let paging = try Paging(query, standard: 20, maximum: 50, offsetBelow: Self.offsetBound)
    let genre = query["genre"]
    if let genre, place.catalog.item(ResourceKey(.genres, genre), in: place.storefront.id) == nil {
      throw .invalidParameter("genre", "No genre found matching '\(genre.prefix(64))'")
    }
    if let chart = query["chart"], chart != Self.chart {
      throw .invalidParameter("chart", "No chart found matching '\(chart.prefix(64))'")
    }
    let writer = ResourceWriter(place: place, selection: try Selection(query, for: types))
    var groups: [(String, Document?)] = []
    for type in types {
      groups.append((type.rawValue, [try group(type, genre, paging, writer)]))
    }
    return [
      "results": .object(groups), "meta": ["results": ["order": .strings(types.map(\.rawValue))]],
    ]
  }

  private func group(
    _ type: ResourceType, _ genre: String?, _ paging: Paging, _ writer: ResourceWriter
  ) throws(AppleError) -> Document {
    let ranked = place.catalog.all(type, in: place.storefront.id)
      .filter { genre.map($0.genres.contains) ?? true }.prefix(Self.offsetBound)
    let path = "/v1/catalog/\(place.storefront.id)/charts?chart=\(Self.chart)"
    let genreQuery = genre.map { "&genre=\($0)" } ?? ""
    let rest = "&types=\(type.rawValue)"
    let next = paging.nextOffset(count: ranked.count).map {
      Document.string("\(path)\(genreQuery)&offset=\($0)\(rest)")
    }
    return .object([
      ("chart", .string(Self.chart)), ("name", .string(type.chartName ?? "")),
      ("orderId", .string("\(Self.chart):\(type.rawValue)")),
      ("href", .string("\(path)\(genreQuery)&limit=\(paging.limit)\(rest)")), ("next", next),
      ("data", try writer.resources(paging.page(of: Array(ranked)))),
    ])
  }

  private func requestedTypes() throws(AppleError) -> [ResourceType] {
    guard let names = query.list("types"), !names.isEmpty else { throw .missingParameter("types") }
    var types: [ResourceType] = []
    for name in names {
      guard let type = ResourceType(rawValue: name), type.chartName != nil else {
        throw .invalidParameter("types", "No type found matching '\(name.prefix(64))'")
      }
      if !types.contains(type) { types.append(type) }
    }
    return types
  }
}

/// The endpoints `/v1/storefronts…` and `/v1/language/{storefront}/tag`
struct StorefrontEndpoint {
  private static let maximumIDs = 25

  let request: APIRequest

  /// Returns one storefront, several, or a page of all.
  func storefronts() throws(AppleError) -> Document {
    try request.require("GET", "HEAD")
    let segments = Array(request.segments.dropFirst())
    if let tag = request.query["l"], !Storefront.isPlausible(tag) {
      throw .invalidParameter("l", "Invalid language tag '\(tag.prefix(64))'")
    }
    guard segments.count <= 1 else { throw .pathNotFound }
    if let id = segments.first {
      guard let storefront = Storefront[id] else { throw .resourceNotFound }
      return ["data": [storefront.document]]
    }
    if let ids = request.query.list("ids") {
      guard (1...Self.maximumIDs).contains(ids.count) else {
        throw .invalidParameter("ids", "Between 1 and \(Self.maximumIDs) ids may be given, but were: \(ids.count)")
      }
      return ["data": .array(ids.compactMap { Storefront[$0]?.document })]
    }
    return try list()
  }

  private func list() throws(AppleError) -> Document {
    let paging = try Paging(request.query, standard: 100, maximum: 200)
    let next = paging.nextOffset(count: Storefront.all.count).map { Document.string("/v1/storefronts?offset=\($0)") }
    return .object([("next", next), ("data", .array(paging.page(of: Storefront.all).map(\.document)))])
  }

  /// Returns the best language of a storefront: the first supported one in the list, otherwise the default.
  func bestLanguage() throws(AppleError) -> Document {
    try request.require("GET", "HEAD")
    let segments = Array(request.segments.dropFirst())
    guard segments.count == 2, segments[1] == "tag" else { throw .pathNotFound }
    guard let storefront = Storefront[segments[0]] else {
      throw .invalidPath("Unknown storefront '\(segments[0].prefix(32))'")
    }
    guard let wanted = request.query["acceptLanguage"] else { throw .missingParameter("acceptLanguage") }
    // The format is that of Accept-Language (RFC 9110 §12.5.4). The weights only repeat the order that senders write.
    let tags = wanted.split(separator: ",").map { item in
      String(item.prefix { $0 != ";" }).filter { !$0.isWhitespace }
    }
    let tag = tags.lazy.compactMap(storefront.supported).first ?? storefront.defaultLanguageTag
    return ["results": ["tag": .string(tag)]]
  }
}
