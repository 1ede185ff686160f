/// `/v1/catalog/{storefront}/{type}` with `ids`, or with a filter by code, or the list of all genres.
struct CollectionEndpoint {
  private let place: Place
  private let query: Query
  private let type: ResourceType

  init(_ place: Place, _ query: Query, _ type: ResourceType) {
    (self.place, self.query, self.type) = (place, query, type)
  }

  /// Resources that are not there are left out: only a single one is answered with 404.
  func answer() throws(AppleError) -> Document {
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

  /// Throws for no identifiers, or more than the type allows.
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
