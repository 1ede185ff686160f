/// `/v1/me/library/…`
struct LibraryEndpoint {
  private static let path = "/v1/me/library"

  private let request: APIRequest
  private let library: UserLibrary
  private let place: Place
  private let writer: LibraryWriter
  /// The segments behind `library`.
  private let segments: [String]
  private let now: Int

  init(_ request: APIRequest, _ library: UserLibrary, _ place: Place, now: Int) {
    (self.request, self.library, self.place, self.now) = (request, library, place, now)
    writer = LibraryWriter(place: place)
    segments = Array(request.segments.dropFirst(2))
  }

  func answer() throws(AppleError) -> SandboxAnswer {
    guard let name = segments.first else { return try add() }
    switch (name, segments.count) {
    case ("search", 1): return try get(search())
    case ("recently-added", 1): return try get(list(.albums, name: name))
    case ("playlists", _): return try PlaylistEndpoint(request, library, place, now: now).answer()
    default:
      guard let type = ResourceType(rawValue: name), LibraryWriter.prefix(type) != nil else {
        throw .invalidPath("Unknown library resource type '\(name.prefix(64))'")
      }
      switch segments.count {
      case 1: return try get(list(type, name: name))
      case 2: return try get(["data": [writer.resource(item(type, segments[1]))]])
      case 3: return try get(related(item(type, segments[1]), segments[2]))
      default: throw .pathNotFound
      }
    }
  }

  private func get(_ document: @autoclosure () throws(AppleError) -> Document) throws(AppleError) -> SandboxAnswer {
    try request.require("GET", "HEAD")
    return .json(try document())
  }

  // MARK: Reading

  private func list(_ type: ResourceType, name: String) throws(AppleError) -> Document {
    if let ids = request.query.list("ids") {
      guard !ids.isEmpty else {
        throw .invalidParameter("ids", "No id(s) supplied in the 'ids' query parameter")
      }
      return ["data": .array(ids.compactMap { find(type, $0) }.map(writer.resource))]
    }
    let all = items(type)
    let paging = try Paging(request.query, standard: 25, maximum: 100)
    return .object([
      ("next", place.next("\(Self.path)/\(name)", paging, count: all.count)),
      ("data", .array(paging.page(of: all).map(writer.resource))), ("meta", ["total": .number(all.count)]),
    ])
  }

  private func items(_ type: ResourceType) -> [Item] {
    let keys = type == .artists ? [AmericanTeen.artist] : library.resources(type)
    return keys.compactMap { place.catalog.item($0, in: place.storefront.id) }
  }

  private func find(_ type: ResourceType, _ id: String) -> Item? {
    guard let prefix = LibraryWriter.prefix(type), id.hasPrefix(prefix) else { return nil }
    return items(type).first { $0.key.id == id.dropFirst(prefix.count) }
  }

  private func item(_ type: ResourceType, _ id: String) throws(AppleError) -> Item {
    guard let item = find(type, id) else { throw .resourceNotFound }
    return item
  }

  /// A relationship: to other library resources, or under `catalog` to where it came from.
  private func related(_ item: Item, _ name: String) throws(AppleError) -> Document {
    if name == "catalog" {
      return ["data": [try ResourceWriter(place: place, selection: .standard).resource(item)]]
    }
    guard ["albums", "artists", "tracks"].contains(name), let rule = item.key.type.relationship(name) else {
      throw .relationshipNotFound(name)
    }
    let owned = Set((items(.songs) + items(.albums) + items(.artists)).map(\.key))
    let all = place.catalog.related(item, name, in: place.storefront.id).filter { owned.contains($0.key) }
    let paging = try Paging(request.query, standard: 100, maximum: rule.maximumLimit)
    let id = (LibraryWriter.prefix(item.key.type) ?? "") + item.key.id
    let path = "\(Self.path)/\(item.key.type.rawValue)/\(id)/\(name)"
    return .object([
      ("next", place.next(path, paging, count: all.count)),
      ("data", .array(paging.page(of: all).map(writer.resource))), ("meta", ["total": .number(all.count)]),
    ])
  }

  private func search() throws(AppleError) -> Document {
    guard let term = request.query["term"] else { throw .missingParameter("term") }
    guard let types = request.query.list("types"), !types.isEmpty else { throw .missingParameter("types") }
    let paging = try Paging(request.query, standard: 5, maximum: 25)
    let matches = Matches(of: term, in: place)
    var groups: [(String, Document?)] = []
    for name in types {
      guard name.hasPrefix("library-"), let type = ResourceType(rawValue: String(name.dropFirst(8))) else {
        throw .invalidParameter("types", "No type found matching '\(name.prefix(64))'")
      }
      let owned = Set(items(type).map(\.key))
      let found = matches.of(type).map(\.item).filter { owned.contains($0.key) }
      guard !found.isEmpty else { continue }
      groups.append((name, ["data": .array(paging.page(of: found).map(writer.resource))]))
    }
    return ["results": .object(groups)]
  }

  // MARK: Adding

  /// `POST /v1/me/library?ids[albums]=…`: accepted, and done at once.
  private func add() throws(AppleError) -> SandboxAnswer {
    try request.require("POST")
    let groups = request.query.bracketed("ids")
    guard !groups.isEmpty else { throw .missingParameter("ids", "No id(s) supplied on the request") }
    for (name, value) in groups {
      guard let type = ResourceType(rawValue: name), LibraryWriter.prefix(type) != nil else {
        throw .unknownParameter("ids[\(name)]")
      }
      for id in value.split(separator: ",") {
        guard let item = place.catalog.item(ResourceKey(type, String(id)), in: place.storefront.id) else { continue }
        let songs = type == .albums ? item.related["tracks"] ?? [] : []
        guard library.add(item.key, songs: songs) else { throw .libraryFull }
      }
    }
    return SandboxAnswer(202)
  }
}
