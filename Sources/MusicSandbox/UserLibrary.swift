import Bytes
import JSON
import Locks

/// The library of one user: music, playlists, folders, ratings, favorites. In memory and bounded.
final class UserLibrary: Sendable {
  private let state: Locked<LibraryContents>

  init(_ catalog: Catalog) { state = Locked(LibraryContents(resources: catalog.library)) }

  var contents: LibraryContents { state.withLock { $0 } }

  /// Changes the contents. Throws an error, without a change, if they would exceed the limits.
  func change<Result>(_ body: (inout LibraryContents) throws(AppleError) -> Result) throws(AppleError) -> Result {
    try state.withLock { state throws(AppleError) in
      var new = state
      let result = try body(&new)
      guard new.isBounded else { throw .init(.libraryFull) }
      state = new
      return result
    }
  }
}

struct LibraryContents {
  static let most = (playlists: 100, tracks: 1000, resources: 2000, ratings: 1000)
  /// The key of the folder that contains all playlists.
  static let root = ResourceKey("library-playlist-folders", "p.playlistsroot")

  var resources: ResourceIndex
  var ratings: [ResourceKey: Int] = [:]
  var favorites: Set<ResourceKey> = []
  /// The number of playlists and folders that the user has made.
  var numberMade = 0

  fileprivate var isBounded: Bool {
    let playlists = resources.all("library-playlists")
    // The folder of all playlists does not count.
    return resources.count < Self.most.resources
      && playlists.count + resources.all("library-playlist-folders").count <= Self.most.playlists + 1
      && ratings.count + favorites.count <= Self.most.ratings
      && playlists.allSatisfy { ($0.related["tracks"]?.count ?? 0) <= Self.most.tracks }
  }

  func counterpart(_ key: ResourceKey) -> ResourceKey? {
    resources.listing(key, ["library-\(key.type)"], "catalog").first
  }

  /// Adds the counterpart of a resource of the catalog, with an album's songs. Returns its key; nil if the type has none.
  @discardableResult
  mutating func add(_ original: Resource, in place: Place) -> ResourceKey? {
    guard let type = place.types["library-\(original.key.type)"], let prefix = type.prefix else { return nil }
    var resource = Resource(type, ByteString(prefix.bytes + original.key.id.bytes), [place.dateAdded])
    guard resources.find(resource.key) == nil else { return resource.key }
    resource.related["catalog"] = [original.key]
    let isPlaylist = type.name == "library-playlists"
    if isPlaylist { resource.related["parent"] = [Self.root] }
    resources.add(resource)
    for relation in isPlaylist ? [] : ["tracks", "artists"] as [ByteString] {
      for other in place.related(original, relation) { add(other, in: place) }
    }
    return resource.key
  }
}

/// The requests of a user, with a valid music user token, that are not the same for all types.
extension Place {
  func change<Result>(_ body: (inout LibraryContents) throws(AppleError) -> Result) throws(AppleError) -> Result {
    try request.library.get().change(body)
  }

  /// Changes the library by `ids[albums]=…`, at once, with 202. Like Apple, it ignores identifiers that do not exist.
  func forEach(_ body: (inout LibraryContents, Resource) -> Void) throws(AppleError) -> APIRequest.Response {
    let listed = try listed { $0.isOfLibrary || types["library-\($0.name)"] != nil }
    let found = listed.flatMap { type, ids in ids.compactMap { find(ResourceKey(type.name, $0)) } }
    try change { contents in for resource in found { body(&contents, resource) } }
    return (202, nil)
  }

  /// The time of the request, in the form of RFC 3339.
  var dateAdded: JSONValue.Member {
    .init(name: "dateAdded", value: .text(CivilTime(secondsSinceEpoch: request.now).description))
  }

  func history(_ row: JSONValue, _ path: String) throws(AppleError) -> JSONValue {
    let wanted = query.list("types")
    if let unknown = wanted?.first(where: { row["of"]?[$0.text] == nil }) { throw .noMatch("types", unknown) }
    var all: [Resource] = []
    for (name, count) in row["of"]?.members.map({ ($0.name, $0.value.integer ?? 0) }) ?? [] {
      guard let type = types[name], wanted?.contains(name) ?? true else { continue }
      all += (type.isOfLibrary ? self.all(type).reversed() : self.all(type)).prefix(count)
    }
    return try bare.page(all, path, try Paging(query, PageSizes(row)))
  }

  func account() -> JSONValue {
    let subscription: JSONValue = ["active": true, "storefront": .string(storefront.key.id)]
    let capabilities = query.list("challenge[subscriptionCapabilities]")?.map(JSONValue.string)
    let meta = JSONValue.object(of: [
      ("subscription", query.values("meta").contains("subscription") ? subscription : nil),
      ("challenge", capabilities.map { ["subscriptionCapabilities": .array($0)] }),
    ])
    let account: JSONValue = [
      "id": "me", "type": "accounts", "href": "/v1/me/account", "attributes": ["restrictions": .object([])],
    ]
    return .object(of: [("data", [account]), ("meta", meta.members.isEmpty ? nil : meta)])
  }

  func nextTracks() throws(AppleError) -> JSONValue {
    let station = ResourceKey("stations", ByteString(request.segments[3]))
    guard find(station) != nil else { throw .init(.resourceNotFound) }
    return ["data": try tracks(of: station, try Paging(query, PageSizes(10, most: 10)))]
  }

  /// Responds with the station of the last song in the content, and its tracks if the request asks for them.
  func continuousStation() throws(AppleError) -> JSONValue {
    let stations = try request.object()["data"]?.elements.compactMap { element -> Resource? in
      let song = find(ResourceKey(element["type"]?.string ?? "", element["id"]?.string ?? ""))
      return song.flatMap { related(original($0) ?? $0, "station").first }
    }
    guard let station = stations?.last else { throw .init(.invalidContent, "data must name songs that exist") }
    let paging = try Paging(of: "results:tracks", query, PageSizes(10, most: 10))
    let tracks = query.values("with").contains("tracks") ? try tracks(of: station.key, paging) : nil
    return ["results": .object(of: [("station", try bare.document(station)), ("tracks", tracks)])]
  }

  /// Returns songs for a station: those of the artist or song that it is named after, or the first of all.
  private func tracks(of station: ResourceKey, _ paging: Paging) throws(AppleError) -> JSONValue {
    let all = types["songs"].map { permitted(self.all($0)) } ?? []
    let start = all.firstIndex { station.id == "ra.\($0.key.id)" } ?? 0
    return try bare.documents(paging.page(of: Array(all.dropFirst(start))))
  }

  /// Responds to `ratings/{type}?ids=…` and `ratings/{type}/{id}`
  func rating() throws(AppleError) -> APIRequest.Response {
    let (name, id) = (request.segments[2], request.segments.dropFirst(3).first)
    guard let type = types[ByteString(name)], type.isRated else {
      throw .init(.invalidPath, "Unknown rating resource type '\(name.prefix(64))'")
    }
    guard let ids = id.map({ [ByteString($0)] }) ?? query.list("ids") else { throw Self.noIDs }
    let keys = ids.map { ResourceKey(type.name, $0) }
    guard id == nil || keys.allSatisfy({ find($0) != nil }) else { throw .init(.resourceNotFound) }
    // A resource of a library has the rating of its original: "ratings stay synced".
    let owners = keys.map { find($0).flatMap(original)?.key ?? $0 }
    var new: Int?
    if request.method == "PUT" {
      new = try request.object()["attributes"]?["value"]?.integer
      guard new == 1 || new == -1 else { throw .init(.invalidContent, "attributes.value must be 1 or -1") }
    }
    if new != nil || request.method == "DELETE" {
      try change { contents in for key in owners { contents.ratings[key] = new } }
      if new == nil { return (204, nil) }
    }
    let rated = zip(keys, owners).compactMap { key, owner -> JSONValue? in
      guard let value = new ?? library?.ratings[owner] else { return nil }
      return [
        "id": .string(key.id), "type": "ratings", "href": "/v1/me/ratings/\(key.type)/\(key.id)",
        "attributes": ["value": .whole(value)],
      ]
    }
    guard id == nil || !rated.isEmpty else { throw .init(.resourceNotFound) }
    return (200, ["data": .array(rated)])
  }

  func addTracks() throws(AppleError) -> APIRequest.Response {
    try replace { playlist, contents throws(AppleError) in
      let listed = related(playlist, "tracks").map(\.key)
      playlist.related["tracks"] = listed + (try tracks(in: try request.object()["data"], &contents))
      return playlist
    }
  }

  /// Changes or deletes a resource. Only a fault allows it.
  func changeResource() throws(AppleError) -> APIRequest.Response {
    try replace { resource, _ throws(AppleError) in
      guard request.allowsChanges else { throw .init(.unchangeable) }
      if request.method == "DELETE" { return nil }
      let isWhole = request.method == "PUT"
      let new = try attributes(in: try request.object(), isWhole: isWhole)
      let kept = resource.attributes.filter { old in
        !new.contains { $0.name == old.name } && !(isWhole && old.name == "description")
      }
      resource.attributes = (kept + new).sorted { $0.name < $1.name }
      return resource
    }
  }

  /// Replaces the resource of the path with the result of `body`; nil removes it.
  private func replace(
    _ body: (inout Resource, inout LibraryContents) throws(AppleError) -> Resource?
  ) throws(AppleError) -> APIRequest.Response {
    let key = ResourceKey("library-\(request.segments[2])", ByteString(request.segments[3]))
    try change { contents throws(AppleError) in
      guard var resource = contents.resources.find(key) else { throw .init(.resourceNotFound) }
      contents.resources.replace(key, with: try body(&resource, &contents))
    }
    return (204, nil)
  }

  /// Makes a playlist or a folder.
  func make() throws(AppleError) -> APIRequest.Response {
    guard let type = types["library-\(request.segments[2])"] else { throw .init(.pathNotFound) }
    let object = try request.object()
    let attributes = try attributes(in: object, isWhole: true)
    let relationships = object["relationships"]
    let parent = relationships?["parent"]?["data"]?.elements.first?["id"]?.string
    let folder = parent.map { ResourceKey("library-playlist-folders", $0) } ?? LibraryContents.root
    guard find(folder) != nil else {
      throw .init(.invalidContent, "relationships.parent must name a folder that exists")
    }
    let made = try change { contents throws(AppleError) in
      contents.numberMade += 1
      let id: ByteString = "p.sandbox\(contents.numberMade)"
      let filler = AttributeFiller(key: ResourceKey(type.name, id), own: attributes + [dateAdded])
      var made = Resource(type, id, filler.filled(with: type.template))
      made.related["parent"] = [folder]
      if type.name == "library-playlists" {
        made.related["tracks"] = try tracks(in: relationships?["tracks"]?["data"], &contents)
      }
      contents.resources.add(made)
      return made
    }
    return (201, ["data": try plain.documents([made])])
  }

  /// Returns the attributes in the content; a name is needed unless the content only changes something.
  private func attributes(in object: JSONValue, isWhole: Bool) throws(AppleError) -> [JSONValue.Member] {
    var attributes: [JSONValue.Member] = []
    for name in ["name", "description", "isPublic"] {
      let value: JSONValue
      switch (name, object["attributes"]?[name]) {
      case (_, nil): continue
      case ("isPublic", .bool(let isPublic)?): value = .bool(isPublic)
      case ("name", .string(let text)?) where text.count <= 1000: value = .string(text)
      case ("description", .string(let text)?) where text.count <= 1000: value = ["standard": .string(text)]
      default:
        let form = name == "isPublic" ? "true or false" : "a string of at most 1000 bytes"
        throw .init(.invalidContent, "attributes.\(name) must be \(form)")
      }
      attributes.append(.init(name: ByteString(name), value: value))
    }
    if isWhole, object["attributes"]?["name"]?.string.map({ $0.count == 0 }) ?? true {
      throw .init(.invalidContent, "attributes.name must be a string that is not empty")
    }
    return attributes
  }

  /// Returns the keys of tracks. Songs and videos of the catalog are added to the library.
  private func tracks(in data: JSONValue?, _ contents: inout LibraryContents) throws(AppleError) -> [ResourceKey] {
    guard case .array(let elements) = data ?? [] else { throw .init(.invalidContent, "data must be an array") }
    let accepted = types["library-playlists"]?.relationships.first { $0.name == "tracks" }?.types ?? []
    return try elements.map { element throws(AppleError) in
      guard let id = element["id"]?.string, let name = element["type"]?.string, accepted.contains(name),
        let found = find(ResourceKey(name, id)),
        let key = found.type.isOfLibrary ? found.key : contents.add(found, in: self)
      else { throw .init(.invalidContent, "data must name songs that exist") }
      return key
    }
  }
}
