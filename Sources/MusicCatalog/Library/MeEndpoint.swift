import Bytes
import JSON

/// The endpoint `/v1/me/…`, for requests with a valid music user token.
struct MeEndpoint {
  /// The storefront of every user of the emulator.
  private static let storefront = "us"

  private let request: APIRequest
  private let library: UserLibrary
  private let place: Place
  private let resources: ResourceEndpoint
  private let segments: [String]

  /// Creates the endpoint. Throws 403 with code 40300 without a valid music user token, before any other check.
  init(_ request: APIRequest) throws(AppleError) {
    self.request = request
    library = try request.library()
    place = try request.place(Self.storefront)
    resources = ResourceEndpoint(request, place)
    segments = Array(request.segments.dropFirst())
  }

  func respond() throws(AppleError) -> APIResponse {
    let path = ByteString(segments.joined(separator: "/"))
    if let history = place.catalog.types.histories.first(where: { $0.path == path }) {
      return try get(try self.history(history))
    }
    switch (segments.first, segments.count) {
    case ("storefront", 1):
      let writer = ResourceWriter(place: place, selection: .none)
      return try get(["data": [try writer.resource(place.storefront.resource)]])
    case ("library", 1):
      if request.method == "POST" { return try forEach { $0.add($1, in: place, now: request.now) } }
      return .json(try resources.severalTypes(\.isOfLibrary))
    case ("library", 2) where segments[1] == "search":
      return try get(try SearchEndpoint(request, place, isOfLibrary: true).respond([]))
    case ("library", _): return try inLibrary(segments[1])
    case ("ratings", 2...3): return try rating(segments[1])
    case ("favorites", 1):
      try request.require("POST")
      return try forEach { $0.favor($1.key) }
    case ("stations", 3) where segments[1] == "next-tracks":
      try request.require("POST")
      return .json(try nextTracks(segments[2]))
    case (let name?, _):
      let path = "/v1/me/\(name)"
      guard let type = place.catalog.types.all.first(where: { $0.path.head == path }) else { throw .pathNotFound }
      return .json(try resources.respond(type, segments.dropFirst()))
    default: throw .pathNotFound
    }
  }

  private func get(_ document: @autoclosure () throws(AppleError) -> JSONValue) throws(AppleError) -> APIResponse {
    try request.require("GET", "HEAD")
    return .json(try document())
  }

  /// Handles `ids[albums]=…` of a request that changes the library: the response is 202, and the change is immediate.
  /// Like Apple, it ignores identifiers that do not exist.
  private func forEach(_ body: (inout LibraryContents, Resource) -> Void) throws(AppleError) -> APIResponse {
    let groups = request.query.bracketed("ids")
    guard !groups.isEmpty else { throw .missingParameter("ids", "No id(s) supplied on the request") }
    var keys: [ResourceKey] = []
    for (name, value) in groups {
      let type = ByteString(name)
      guard place.catalog.types[type]?.isOfLibrary == true || place.catalog.types["library-\(name)"] != nil else {
        throw .unknownParameter("ids[\(name)]")
      }
      keys += Query.elements(value).map { ResourceKey(type, $0) }
    }
    let found = keys.compactMap(place.find)
    try library.change { contents in for resource in found { body(&contents, resource) } }
    return APIResponse(202)
  }

  private func history(_ history: TypeTable.History) throws(AppleError) -> JSONValue {
    var all: [Resource] = []
    for (name, count) in zip(history.types, history.counts) {
      guard let type = place.catalog.types[name] else { continue }
      all += (type.isOfLibrary ? place.all(type).reversed() : place.all(type)).prefix(count)
    }
    return try resources.page(all, path: "/v1/me/\(history.path)", history.limit, history.most)
  }

  /// Returns songs for a station: those of the artist or song that it is named after, or the first of all.
  private func nextTracks(_ id: String) throws(AppleError) -> JSONValue {
    guard place.find(ResourceKey("stations", ByteString(id))) != nil else { throw .resourceNotFound }
    guard let songs = place.catalog.types["songs"] else { throw .pathNotFound }
    let writer = ResourceWriter(place: place, selection: Selection(request.query), isBare: true)
    let all = place.permitted(place.all(songs))
    let start = all.firstIndex { id == "ra.\($0.key.id)" } ?? 0
    return ["data": try writer.resources(all.dropFirst(start).prefix(10))]
  }

  // MARK: Ratings

  private func rating(_ name: String) throws(AppleError) -> APIResponse {
    guard let type = place.catalog.types[ByteString(name)], type.isRated else {
      throw .invalidPath("Unknown rating resource type '\(name.prefix(64))'")
    }
    guard segments.count == 3 else {
      guard let ids = request.query.list("ids") else {
        throw .missingParameter("ids", "No id(s) supplied on the request")
      }
      let ratings = library.contents.ratings
      let rated = ids.map { ResourceKey(type.name, $0) }.compactMap { key in ratings[key].map { rating(key, $0) } }
      return try get(["data": .array(rated)])
    }
    let key = ResourceKey(type.name, ByteString(segments[2]))
    try request.require("GET", "HEAD", "PUT", "DELETE")
    guard place.find(key) != nil else { throw .resourceNotFound }
    switch request.method {
    case "PUT":
      guard let value = try request.object()["attributes"]?["value"]?.integer, value == 1 || value == -1 else {
        throw .invalidContent("attributes.value must be 1 or -1")
      }
      try library.change { $0.rate(key, value) }
      return .json(["data": [rating(key, value)]])
    case "DELETE":
      try library.change { $0.rate(key, nil) }
      return APIResponse(204)
    default:
      guard let value = library.contents.ratings[key] else { throw .resourceNotFound }
      return .json(["data": [rating(key, value)]])
    }
  }

  private func rating(_ key: ResourceKey, _ value: Int) -> JSONValue {
    [
      "id": .string(key.id), "type": "ratings", "href": "/v1/me/ratings/\(key.type)/\(key.id)",
      "attributes": ["value": .whole(value)],
    ]
  }

  // MARK: Resources of the library

  private func inLibrary(_ name: String) throws(AppleError) -> APIResponse {
    guard let type = place.catalog.types["library-\(name)"], type.isOfLibrary else {
      throw .invalidPath("Unknown library resource type '\(name.prefix(64))'")
    }
    let isOfPlaylists = name == "playlists" || name == "playlist-folders"
    switch (request.method, segments.count) {
    case ("POST", 2) where isOfPlaylists: return try make(type)
    case ("POST", 4) where name == "playlists" && segments[3] == "tracks":
      return try change(type) { playlist, contents throws(AppleError) in
        let added = try tracks(in: try request.object()["data"], &contents)
        playlist.related["tracks"] = place.listedTracks(playlist) + added
      }
    case ("PUT", 3), ("PATCH", 3), ("DELETE", 3):
      guard place.find(ResourceKey(type.name, ByteString(segments[2]))) != nil else { throw .resourceNotFound }
      guard request.allowsChanges else { throw .unchangeable }
      if request.method == "DELETE" { return try change(type, nil) }
      let new = try attributes(in: try request.object(), isWhole: request.method == "PUT")
      return try change(type) { playlist, _ in
        playlist.attributes.removeAll { old in
          new.contains { $0.name == old.name } || (request.method == "PUT" && old.name == "description")
        }
        playlist.attributes = (playlist.attributes + new).sorted { $0.name < $1.name }
      }
    default: return .json(try resources.respond(type, segments.dropFirst(2)))
    }
  }

  /// Changes the resource of the path; nil removes it.
  private func change(
    _ type: ResourceType, _ body: ((inout Resource, inout LibraryContents) throws(AppleError) -> Void)?
  ) throws(AppleError) -> APIResponse {
    let key = ResourceKey(type.name, ByteString(segments[2]))
    try library.change { contents throws(AppleError) in
      guard var resource = contents.find(key) else { throw .resourceNotFound }
      try body?(&resource, &contents)
      contents.replace(key, with: body == nil ? nil : resource)
    }
    return APIResponse(204)
  }

  private func make(_ type: ResourceType) throws(AppleError) -> APIResponse {
    let object = try request.object()
    var attributes = try attributes(in: object, isWhole: true)
    attributes.append(.init(name: "dateAdded", value: .time(request.now)))
    let relationships = object["relationships"]
    let parent = relationships?["parent"]?["data"]?.elements.first?["id"]?.string
    let folder = parent.map { ResourceKey("library-playlist-folders", $0) } ?? LibraryContents.root
    guard place.find(folder) != nil else {
      throw .invalidContent("relationships.parent must name a folder that exists")
    }
    let made = try library.change { contents throws(AppleError) in
      let isPlaylist = type.name == "library-playlists"
      let tracks = isPlaylist ? try tracks(in: relationships?["tracks"]?["data"], &contents) : nil
      return contents.make(type.name, attributes, tracks: tracks, parent: folder)
    }
    let writer = ResourceWriter(place: place, selection: .none)
    return .json(["data": [try writer.resource(made)]], status: 201)
  }

  /// Returns the name and the description; a name is needed unless the content only changes something.
  private func attributes(in object: JSONValue, isWhole: Bool) throws(AppleError) -> [JSONValue.Member] {
    var attributes: [JSONValue.Member] = []
    for name in ["name", "description"] {
      switch object["attributes"]?[name] {
      case nil: break
      case .string(let text)? where text.count <= 1000:
        let value: JSONValue = name == "name" ? .string(text) : ["standard": .string(text)]
        attributes.append(.init(name: ByteString(name), value: value))
      default: throw .invalidContent("attributes.\(name) must be a string of at most 1000 bytes")
      }
    }
    if isWhole, object["attributes"]?["name"]?.string.map({ $0.count == 0 }) ?? true {
      throw .invalidContent("attributes.name must be a string that is not empty")
    }
    return attributes
  }

  /// Returns the keys of tracks. Songs and videos of the catalog are added to the library.
  private func tracks(in data: JSONValue?, _ contents: inout LibraryContents) throws(AppleError) -> [ResourceKey] {
    guard let data else { return [] }
    guard case .array(let elements) = data else { throw .invalidContent("data must be an array") }
    var keys: [ResourceKey] = []
    for element in elements {
      guard let id = element["id"]?.string, let name = element["type"]?.string,
        ["songs", "music-videos", "library-songs", "library-music-videos"].contains(name),
        let found = place.find(ResourceKey(name, id)),
        let key = name.bytes.starts(with: "library-".utf8)
          ? found.key : contents.add(found, in: place, now: request.now)
      else { throw .invalidContent("data must name songs that exist") }
      keys.append(key)
    }
    return keys
  }
}

extension Place {
  /// Returns the keys of the tracks of a playlist.
  fileprivate func listedTracks(_ playlist: Resource) -> [ResourceKey] {
    guard let tracks = catalog.types[playlist.key.type]?.relationship("tracks") else { return [] }
    return related(playlist, tracks).map(\.key)
  }
}
