import Bytes
import JSON

/// The endpoint `/v1/me/library/playlists…`
struct PlaylistEndpoint {
  private static let path = "/v1/me/library/playlists"

  private let request: APIRequest
  private let library: UserLibrary
  private let place: Place
  private let writer: LibraryWriter
  /// The segments after `playlists`.
  private let segments: [String]
  private let now: Int

  init(_ request: APIRequest, _ library: UserLibrary, _ place: Place, now: Int) {
    (self.request, self.library, self.place, self.now) = (request, library, place, now)
    writer = LibraryWriter(place: place)
    segments = Array(request.segments.dropFirst(3))
  }

  func respond() throws(AppleError) -> SandboxResponse {
    guard let id = segments.first else { return try collection() }
    guard let playlist = library.playlist(id) else { throw .resourceNotFound }
    switch segments.dropFirst().first {
    case nil: return try single(playlist)
    case "tracks" where segments.count == 2: return try tracks(playlist)
    case let name?: throw .relationshipNotFound(name)
    }
  }

  private func collection() throws(AppleError) -> SandboxResponse {
    try request.require("GET", "HEAD", "POST")
    if request.method == "POST" { return try make() }
    let all = library.playlists
    let paging = try Paging(request.query, standard: 25, maximum: 100)
    return .json(
      .object([
        ("next", place.next(Self.path, paging, count: all.count)),
        ("data", .array(paging.page(of: all).map(writer.playlist))), ("meta", ["total": .number(all.count)]),
      ]))
  }

  private func single(_ playlist: UserLibrary.Playlist) throws(AppleError) -> SandboxResponse {
    try request.require("GET", "HEAD", "PUT", "PATCH", "DELETE")
    switch request.method {
    case "PUT", "PATCH": return try change(playlist)
    case "DELETE":
      guard library.removePlaylist(playlist.id) else { throw .resourceNotFound }
      return SandboxResponse(204)
    default: return .json(["data": [writer.playlist(playlist)]])
    }
  }

  private func tracks(_ playlist: UserLibrary.Playlist) throws(AppleError) -> SandboxResponse {
    try request.require("GET", "HEAD", "POST")
    if request.method == "POST" {
      let added = try tracks(in: object()["data"])
      guard library.changePlaylist(playlist.id, { $0.tracks += added }) else { throw .libraryFull }
      return SandboxResponse(204)
    }
    let items = playlist.tracks.compactMap { place.catalog.item($0, in: place.storefront.id) }
    let paging = try Paging(request.query, standard: 100, maximum: 100)
    return .json(
      .object([
        ("next", place.next("\(Self.path)/\(playlist.id)/tracks", paging, count: items.count)),
        ("data", .array(paging.page(of: items).map(writer.resource))), ("meta", ["total": .number(items.count)]),
      ]))
  }

  // MARK: Writing

  private func make() throws(AppleError) -> SandboxResponse {
    let object = try object()
    guard let name = try text("name", in: object), !name.isEmpty else {
      throw .invalidContent("A playlist needs attributes.name")
    }
    let tracks = try tracks(in: object["relationships"]?["tracks"]?["data"])
    let description = try text("description", in: object)
    guard let made = library.makePlaylist(name: name, description: description, tracks: tracks, now: now) else {
      throw .libraryFull
    }
    return .json(["data": [writer.playlist(made)]], status: 201)
  }

  private func change(_ playlist: UserLibrary.Playlist) throws(AppleError) -> SandboxResponse {
    let object = try object()
    let name = try text("name", in: object)
    let description = try text("description", in: object)
    let isWhole = request.method == "PUT"
    if isWhole && name == nil { throw .invalidContent("A playlist needs attributes.name") }
    let isChanged = library.changePlaylist(playlist.id) { playlist in
      if let name { playlist.name = name }
      if isWhole || description != nil { playlist.description = description }
    }
    guard isChanged else { throw .resourceNotFound }
    return SandboxResponse(204)
  }

  private func object() throws(AppleError) -> JSONValue {
    guard let value = JSONReader.read(request.content), value.isObject else {
      throw .invalidContent("Unable to parse request body")
    }
    return value
  }

  private func text(_ name: String, in object: JSONValue) throws(AppleError) -> String? {
    switch object["attributes"]?[name] {
    case nil: return nil
    case .string(let text)? where text.count <= 1000: return text.text
    default: throw .invalidContent("attributes.\(name) must be a string of at most 1000 bytes")
    }
  }

  /// Returns the keys of songs and videos of the catalog or the library.
  private func tracks(in data: JSONValue?) throws(AppleError) -> [ResourceKey] {
    guard let data else { return [] }
    guard case .array(let elements) = data else { throw .invalidContent("data must be an array") }
    var keys: [ResourceKey] = []
    for element in elements {
      guard case .string(let id)? = element["id"], case .string(let name)? = element["type"],
        let key = key(id, name), place.catalog.item(key, in: place.storefront.id) != nil
      else { throw .invalidContent("data must name songs that exist") }
      keys.append(key)
    }
    return keys
  }

  private func key(_ id: ByteString, _ name: ByteString) -> ResourceKey? {
    guard id.isASCII else { return nil }
    let id = id.text
    switch name {
    case "songs": return ResourceKey(.songs, id)
    case "music-videos": return ResourceKey(.musicVideos, id)
    case "library-songs" where id.hasPrefix("i."): return ResourceKey(.songs, String(id.dropFirst(2)))
    default: return nil
    }
  }
}

/// The endpoint `/v1/me/ratings/{type}/{id}` and `/v1/me/ratings/{type}?ids=`
struct RatingsEndpoint {
  private let request: APIRequest
  private let library: UserLibrary
  private let place: Place

  init(_ request: APIRequest, _ library: UserLibrary, _ place: Place) {
    (self.request, self.library, self.place) = (request, library, place)
  }

  func respond() throws(AppleError) -> SandboxResponse {
    let segments = Array(request.segments.dropFirst(2))
    guard let name = segments.first, segments.count <= 2 else { throw .pathNotFound }
    guard let type = ResourceType(rawValue: name), type.playKind != nil else {
      throw .invalidPath("Unknown rating resource type '\(name.prefix(64))'")
    }
    guard segments.count == 2 else { return try list(type) }
    try request.require("GET", "HEAD", "PUT", "DELETE")
    let key = ResourceKey(type, segments[1])
    guard place.catalog.item(key, in: place.storefront.id) != nil else { throw .resourceNotFound }
    switch request.method {
    case "PUT": return try put(key)
    case "DELETE":
      _ = library.rate(key, nil)
      return SandboxResponse(204)
    default:
      guard let value = library.rating(key) else { throw .resourceNotFound }
      return .json(["data": [document(key, value)]])
    }
  }

  private func list(_ type: ResourceType) throws(AppleError) -> SandboxResponse {
    try request.require("GET", "HEAD")
    guard let ids = request.query.list("ids") else {
      throw .missingParameter("ids", "No id(s) supplied on the request")
    }
    let ratings = ids.map { ResourceKey(type, $0) }.compactMap { key in
      library.rating(key).map { document(key, $0) }
    }
    return .json(["data": .array(ratings)])
  }

  private func put(_ key: ResourceKey) throws(AppleError) -> SandboxResponse {
    guard let value = JSONReader.read(request.content), case .number(let text)? = value["attributes"]?["value"],
      let rating = Int(text), rating == 1 || rating == -1
    else { throw .invalidContent("attributes.value must be 1 or -1") }
    guard library.rate(key, rating) else { throw .libraryFull }
    return .json(["data": [document(key, rating)]])
  }

  private func document(_ key: ResourceKey, _ value: Int) -> Document {
    [
      "id": .string(key.id), "type": "ratings",
      "href": .string("/v1/me/ratings/\(key.type.rawValue)/\(key.id)"), "attributes": ["value": .number(value)],
    ]
  }
}
