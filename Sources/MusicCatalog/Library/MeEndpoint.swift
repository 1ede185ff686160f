import Bytes
import JSON

/// The endpoint `/v1/me/…`, for requests with a valid music user token.
struct MeEndpoint {
  typealias Response = (status: Int, document: JSONValue?)

  private let request: APIRequest
  private let library: UserLibrary
  private let place: Place
  private let segments: [String]

  /// Creates the endpoint. Throws 403 with code 40300 without a valid music user token, before any other check.
  init(_ request: APIRequest) throws(AppleError) {
    self.request = request
    library = try request.library.get()
    // The storefront of every user of the emulator.
    place = try request.place("us")
    segments = Array(request.segments.dropFirst())
  }

  func respond() throws(AppleError) -> Response {
    let path = segments.joined(separator: "/")
    if let history = place.types.histories.first(where: { $0["path"] == .text(path) }) {
      try request.require("GET", "HEAD")
      return (200, try self.history(history, "/v1/me/\(path)"))
    }
    switch (segments.first, segments.count) {
    case ("storefront", 1):
      try request.require("GET", "HEAD")
      return (200, ["data": try place.plain.documents([place.storefront])])
    case ("library", 1):
      if request.method == "POST" { return try forEach { $0.add($1, in: place) } }
      return (200, try place.severalTypes(\.isOfLibrary))
    case ("library", 2) where segments[1] == "search":
      try request.require("GET", "HEAD")
      return (200, try Search(place, isOfLibrary: true).respond())
    case ("library", _): return try inLibrary(segments[1])
    case ("ratings", 2...3): return try rating(segments[1])
    case ("favorites", 1):
      try request.require("POST")
      return try forEach { $0.favorites.insert($1.key) }
    case ("stations", 3) where segments[1] == "next-tracks":
      try request.require("POST")
      return (200, try nextTracks(segments[2]))
    case (let name?, _):
      let path = "/v1/me/\(name)"
      guard let type = place.types.all.first(where: { $0.path.head == path }) else { throw .init(.pathNotFound) }
      return (200, try place.resources(type, segments.dropFirst()))
    default: throw .init(.pathNotFound)
    }
  }

  /// Handles `ids[albums]=…` of a request that changes the library: the response is 202, and the change is immediate.
  /// Like Apple, it ignores identifiers that do not exist.
  private func forEach(_ body: (inout LibraryContents, Resource) -> Void) throws(AppleError) -> Response {
    let groups = request.query.bracketed("ids")
    guard !groups.isEmpty else { throw Place.noIDs }
    var keys: [ResourceKey] = []
    for (name, value) in groups {
      let type = ByteString(name)
      guard place.types[type]?.isOfLibrary == true || place.types["library-\(name)"] != nil else {
        throw .init(.unknownParameter, parameter: "ids[\(name)]")
      }
      keys += Query.elements(value).map { ResourceKey(type, $0) }
    }
    let found = keys.compactMap(place.find)
    try library.change { contents in for resource in found { body(&contents, resource) } }
    return (202, nil)
  }

  private func history(_ row: JSONValue, _ path: String) throws(AppleError) -> JSONValue {
    var all: [Resource] = []
    for (name, count) in zip(row["of"]?.strings ?? [], row["each"]?.elements.compactMap(\.integer) ?? []) {
      guard let type = place.types[name] else { continue }
      all += (type.isOfLibrary ? place.all(type).reversed() : place.all(type)).prefix(count)
    }
    return try place.page(all, path, try Paging(request.query, PageSizes(row)))
  }

  /// Returns songs for a station: those of the artist or song that it is named after, or the first of all.
  private func nextTracks(_ id: String) throws(AppleError) -> JSONValue {
    guard place.find(ResourceKey("stations", ByteString(id))) != nil, let songs = place.types["songs"] else {
      throw .init(.resourceNotFound)
    }
    let all = place.permitted(place.all(songs))
    let start = all.firstIndex { id == "ra.\($0.key.id)" } ?? 0
    return ["data": try place.bare.documents(all.dropFirst(start).prefix(10))]
  }

  // MARK: Ratings

  private func rating(_ name: String) throws(AppleError) -> Response {
    guard let type = place.types[ByteString(name)], type.isRated else {
      throw .init(.invalidPath, "Unknown rating resource type '\(name.prefix(64))'")
    }
    let ids = segments.count == 3 ? [ByteString(segments[2])] : request.query.list("ids")
    guard let keys = ids?.map({ ResourceKey(type.name, $0) }) else { throw Place.noIDs }
    let isOne = segments.count == 3
    try isOne ? request.require("GET", "HEAD", "PUT", "DELETE") : request.require("GET", "HEAD")
    guard !isOne || keys.allSatisfy({ place.find($0) != nil }) else { throw .init(.resourceNotFound) }
    switch request.method {
    case "PUT":
      guard let value = try request.object()["attributes"]?["value"]?.integer, value == 1 || value == -1 else {
        throw .init(.invalidContent, "attributes.value must be 1 or -1")
      }
      try library.change { contents in for key in keys { contents.ratings[key] = value } }
    case "DELETE":
      try library.change { contents in for key in keys { contents.ratings[key] = nil } }
      return (204, nil)
    default: break
    }
    let ratings = library.contents.ratings
    let rated = keys.compactMap { key in ratings[key].map { rating(key, $0) } }
    guard !isOne || !rated.isEmpty else { throw .init(.resourceNotFound) }
    return (200, ["data": .array(rated)])
  }

  private func rating(_ key: ResourceKey, _ value: Int) -> JSONValue {
    [
      "id": .string(key.id), "type": "ratings", "href": "/v1/me/ratings/\(key.type)/\(key.id)",
      "attributes": ["value": .whole(value)],
    ]
  }

  // MARK: Resources of the library

  private func inLibrary(_ name: String) throws(AppleError) -> Response {
    guard let type = place.types["library-\(name)"] else {
      throw .init(.invalidPath, "Unknown library resource type '\(name.prefix(64))'")
    }
    let key = ResourceKey(type.name, ByteString(segments.dropFirst(2).first ?? ""))
    switch (request.method, segments.count) {
    case ("POST", 2) where name == "playlists" || name == "playlist-folders": return try make(type)
    case ("POST", 4) where name == "playlists" && segments[3] == "tracks":
      return try change(key) { playlist, contents throws(AppleError) in
        let listed = place.related(playlist, "tracks").map(\.key)
        playlist.related["tracks"] = listed + (try tracks(in: try request.object()["data"], &contents))
        return playlist
      }
    case ("PUT", 3), ("PATCH", 3), ("DELETE", 3):
      guard place.find(key) != nil else { throw .init(.resourceNotFound) }
      guard request.allowsChanges else { throw .init(.unchangeable) }
      if request.method == "DELETE" { return try change(key) { _, _ in nil } }
      let isWhole = request.method == "PUT"
      let new = try attributes(in: try request.object(), isWhole: isWhole)
      return try change(key) { resource, _ in
        let kept = resource.attributes.filter { old in
          !new.contains { $0.name == old.name } && !(isWhole && old.name == "description")
        }
        resource.attributes = (kept + new).sorted { $0.name < $1.name }
        return resource
      }
    default: return (200, try place.resources(type, segments.dropFirst(2)))
    }
  }

  /// Replaces a resource with the result of `body`; nil removes it.
  private func change(
    _ key: ResourceKey, _ body: (inout Resource, inout LibraryContents) throws(AppleError) -> Resource?
  ) throws(AppleError) -> Response {
    try library.change { contents throws(AppleError) in
      guard var resource = contents.resources.find(key) else { throw .init(.resourceNotFound) }
      contents.resources.replace(key, with: try body(&resource, &contents))
    }
    return (204, nil)
  }

  private func make(_ type: ResourceType) throws(AppleError) -> Response {
    let object = try request.object()
    let attributes = try attributes(in: object, isWhole: true)
    let relationships = object["relationships"]
    let parent = relationships?["parent"]?["data"]?.elements.first?["id"]?.string
    let folder = parent.map { ResourceKey("library-playlist-folders", $0) } ?? LibraryContents.root
    guard place.find(folder) != nil else {
      throw .init(.invalidContent, "relationships.parent must name a folder that exists")
    }
    let made = try library.change { contents throws(AppleError) in
      contents.numberMade += 1
      let id: ByteString = "p.sandbox\(contents.numberMade)"
      let filler = AttributeFiller(key: ResourceKey(type.name, id), own: attributes + [place.dateAdded])
      var made = Resource(type, id, filler.filled(with: type.template))
      made.related["parent"] = [folder]
      if type.name == "library-playlists" {
        made.related["tracks"] = try tracks(in: relationships?["tracks"]?["data"], &contents)
      }
      contents.resources.add(made)
      return made
    }
    return (201, ["data": try place.plain.documents([made])])
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
      default: throw .init(.invalidContent, "attributes.\(name) must be a string of at most 1000 bytes")
      }
    }
    if isWhole, object["attributes"]?["name"]?.string.map({ $0.count == 0 }) ?? true {
      throw .init(.invalidContent, "attributes.name must be a string that is not empty")
    }
    return attributes
  }

  /// Returns the keys of tracks. Songs and videos of the catalog are added to the library.
  private func tracks(in data: JSONValue?, _ contents: inout LibraryContents) throws(AppleError) -> [ResourceKey] {
    guard case .array(let elements) = data ?? [] else { throw .init(.invalidContent, "data must be an array") }
    let accepted = place.types["library-playlists"]?.relationships.first { $0.name == "tracks" }?.types ?? []
    return try elements.map { element throws(AppleError) in
      guard let id = element["id"]?.string, let name = element["type"]?.string, accepted.contains(name),
        let found = place.find(ResourceKey(name, id)),
        let key = found.type.isOfLibrary ? found.key : contents.add(found, in: place)
      else { throw .init(.invalidContent, "data must name songs that exist") }
      return key
    }
  }
}
