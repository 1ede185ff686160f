import Bytes

/// The endpoint `/v1/me/library/…`
struct LibraryEndpoint {
  private static let path = "/v1/me/library"

  private let request: APIRequest
  private let library: UserLibrary
  private let place: Place
  private let writer: LibraryWriter
  /// The segments after `library`.
  private let segments: [String]
  private let now: Int

  init(_ request: APIRequest, _ library: UserLibrary, _ place: Place, now: Int) {
    (self.request, self.library, self.place, self.now) = (request, library, place, now)
    writer = LibraryWriter(place: place)
    segments = Array(request.segments.dropFirst(2))
  }

  func respond() throws(AppleError) -> SandboxResponse {
    guard let name = segments.first else { return try add() }
    switch (name, segments.count) {
    case ("search", 1): return try get(search())
    case ("recently-added", 1): return try get(list(.albums, name: name))
    case ("playlists", _): return try PlaylistEndpoint(request, library, place, now: now).respond()
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

  private func get(_ document: @autoclosure () throws(AppleError) -> Document) throws(AppleError) -> SandboxResponse {
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

  /// Returns a relationship: to other library resources, or for `catalog` to the resource of the catalog.
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

  /// Handles `POST /v1/me/library?ids[albums]=…`: the response is 202, and the change is immediate.
  private func add() throws(AppleError) -> SandboxResponse {
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
    return SandboxResponse(202)
  }
}

/// The part of a catalog response about the user's library: `relate=library`, `/library` after a resource, and
/// `filter[identity]=personal`. Such a request needs a music user token.
struct LibraryRelation {
  private let request: APIRequest
  private let isWanted: Bool

  /// Throws 403 if the request needs the library and has no valid music user token.
  init(_ request: APIRequest) throws(AppleError) {
    self.request = request
    let isPersonal = request.query.bracketed("filter").contains { $0.inner == "identity" && $0.value == "personal" }
    isWanted = request.query.list("relate")?.contains("library") ?? false
    if isWanted || isPersonal { _ = try request.library() }
  }

  /// Returns the response to a request for the relationship itself.
  func respond(_ item: Item) throws(AppleError) -> Document {
    let library = try request.library()
    return ["data": data(item, library)]
  }

  /// Returns a resource, with the relationship if the request has `relate=library`.
  func added(to resource: Document, _ item: Item) throws(AppleError) -> Document {
    guard isWanted else { return resource }
    let library = try request.library()
    let relation = Document.Member(name: "library", value: ["data": data(item, library)])
    var members = resource.members
    if let index = members.firstIndex(where: { $0.name == "relationships" }) {
      members[index] = .init(name: "relationships", value: .object(members[index].value.members + [relation]))
    } else {
      members.append(.init(name: "relationships", value: .object([relation])))
    }
    return .object(members)
  }

  private func data(_ item: Item, _ library: UserLibrary) -> Document {
    let type = item.key.type
    guard let prefix = LibraryWriter.prefix(type), library.resources(type).contains(item.key) else { return [] }
    let id = prefix + item.key.id
    return [
      [
        "id": .string(id), "type": .string("library-\(type.rawValue)"),
        "href": .string("/v1/me/library/\(type.rawValue)/\(id)"),
      ]
    ]
  }
}

/// Writes the resources of a library. They are like those of the catalog, but have their own identifiers, types and
/// play parameters.
struct LibraryWriter {
  let place: Place

  /// Returns the prefix of the identifiers of a library type; nil if a library cannot contain the type.
  static func prefix(_ type: ResourceType) -> String? {
    switch type {
    case .albums: "l."
    case .artists: "r."
    case .songs, .musicVideos: "i."
    case .playlists: "p."
    default: nil
    }
  }

  /// The attributes that library resources share with resources of the catalog.
  private static let shared: Set<String> = [
    "albumName", "artistName", "artwork", "contentRating", "discNumber", "durationInMillis", "genreNames", "hasLyrics",
    "name", "releaseDate", "trackCount", "trackNumber",
  ]

  /// Returns a resource of the catalog in its library form.
  func resource(_ item: Item) -> Document {
    let type = item.key.type
    let id = (Self.prefix(type) ?? "") + item.key.id
    let writer = ResourceWriter(place: place, selection: .standard)
    var attributes = writer.attributes(item).members.filter { Self.shared.contains($0.name) }
    if type == .artists { attributes = attributes.filter { $0.name == "name" } }
    if let kind = type.playKind {
      attributes.append(
        .init(
          name: "playParams",
          value: [
            "id": .string(id), "kind": .string(kind), "isLibrary": true, "catalogId": .string(item.key.id),
          ]))
      attributes.append(.init(name: "dateAdded", value: "2025-01-01T00:00:00Z"))
    }
    return [
      "id": .string(id), "type": .string("library-\(type.rawValue)"),
      "href": .string("/v1/me/library/\(type.rawValue)/\(id)"), "attributes": .object(attributes),
    ]
  }

  /// Returns a playlist of the user.
  func playlist(_ playlist: UserLibrary.Playlist) -> Document {
    .object([
      ("id", .string(playlist.id)), ("type", "library-playlists"),
      ("href", .string("/v1/me/library/playlists/\(playlist.id)")),
      (
        "attributes",
        .object([
          ("canEdit", true), ("dateAdded", .string(CivilTime(secondsSinceEpoch: playlist.added).description)),
          ("description", playlist.description.map { ["standard": .string($0)] }), ("hasCatalog", false),
          ("isPublic", false), ("name", .string(playlist.name)),
          ("playParams", ["id": .string(playlist.id), "kind": "playlist", "isLibrary": true]),
        ])
      ),
    ])
  }
}
