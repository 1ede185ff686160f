import Bytes
import JSON

/// A request with a valid token, as endpoints need it.
struct APIRequest {
  typealias Response = (status: Int, document: JSONValue?)

  let method: String
  /// The segments of the path below `/v1`.
  let segments: [String]
  let query: Query
  let content: [UInt8]
  let catalog: Catalog
  /// The beginning of the emulator's absolute URLs, such as `http://localhost:8081`.
  let base: String
  /// The library of the user, or the error of a request without one.
  let library: Result<UserLibrary, AppleError>
  let allowsChanges: Bool
  let now: Int

  /// Whether the response may depend on the user: by its path, its relationships, attributes or filters.
  var isPersonal: Bool { segments.first == "me" || segments.last == "library" || ResourceSelection(query).isPersonal }

  func respond() throws(AppleError) -> Response {
    // Before any other check of a path of the user's.
    if segments.first == "me" { _ = try library.get() }
    let routes = Route.all.filter { $0.matches(segments) }
    guard !routes.isEmpty else { throw .init(.pathNotFound) }
    guard let route = routes.first(where: { $0.methods.contains(method) }) else {
      let allowed = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"].filter { method in
        routes.contains { $0.methods.contains(method) }
      }
      throw .init(.methodNotAllowed, allow: allowed.joined(separator: ", "))
    }
    // Two public programs send the storefront's code in upper case. Every user's storefront is "us".
    let code = ["catalog", "language"].contains(segments[0]) ? segments[1] : "us"
    guard let storefront = catalog.find(ResourceKey("storefronts", ByteString(code).lowercasedASCII)) else {
      throw .init(.invalidPath, "Unknown storefront '\(code.prefix(32))'")
    }
    return try route.respond(Place(self, storefront, library: isPersonal ? try library.get().contents : nil))
  }

  func object() throws(AppleError) -> JSONValue {
    guard let value = JSONReader.read(content), value.isObject else {
      throw .init(.invalidContent, "Unable to parse request body")
    }
    return value
  }
}

/// A kind of requests, and what answers them.
struct Route: Sendable {
  typealias Handler = @Sendable (Place) throws(AppleError) -> APIRequest.Response

  let methods: [String]
  /// The segments of the path below `/v1`. `*` is any segment, `**` at the end any number of them.
  private let pattern: [Substring]
  let respond: Handler

  private init(_ methods: String, _ path: String, _ respond: @escaping Handler) {
    self.methods = methods.split(separator: " ").map(String.init)
    (pattern, self.respond) = (path.split(separator: "/"), respond)
  }

  private init(_ path: String, _ read: @escaping @Sendable (Place) throws(AppleError) -> JSONValue?) {
    self.init("GET HEAD", path) { place throws(AppleError) in (200, try read(place)) }
  }

  func matches(_ segments: [String]) -> Bool {
    let isOpen = pattern.last == "**"
    let count = isOpen ? pattern.count - 1 : pattern.count
    guard isOpen ? segments.count >= count : segments.count == count else { return false }
    return zip(pattern, segments).allSatisfy { part, segment in part == "**" || part == "*" || part == segment }
  }

  /// All routes, of which the first that matches answers. Those of types and histories are rows of `Data/types.json`.
  static let all = TypeTable.builtIn.histories.map(ofHistory) + special + TypeTable.builtIn.all.map(ofType) + unknown

  private static let special = [
    Route("test") { _ in nil },
    Route("catalog/*") { place throws(AppleError) in try place.severalTypes(\.isOfCatalog) },
    Route("catalog/*/charts") { place throws(AppleError) in try place.bare.charts() },
    Route("catalog/*/search/**") { place throws(AppleError) in try Search(place).respond() },
    Route("language/*/tag") { place throws(AppleError) in try place.bestLanguage() },
    Route("me/storefront") { place throws(AppleError) in ["data": try place.plain.documents([place.storefront])] },
    Route("me/account") { place in place.account() },
    Route("me/library") { place throws(AppleError) in try place.severalTypes(\.isOfLibrary) },
    Route("me/library/search") { place throws(AppleError) in try Search(place, isOfLibrary: true).respond() },
    Route("POST", "me/library") { place throws(AppleError) in try place.forEach { $0.add($1, in: place) } },
    Route("POST", "me/favorites") { place throws(AppleError) in try place.forEach { $0.favorites.insert($1.key) } },
    Route("POST", "me/library/playlists") { place throws(AppleError) in try place.make() },
    Route("POST", "me/library/playlist-folders") { place throws(AppleError) in try place.make() },
    Route("POST", "me/library/playlists/*/tracks") { place throws(AppleError) in try place.addTracks() },
    Route("PUT PATCH DELETE", "me/library/playlists/*/tracks") { _ throws(AppleError) in throw .init(.unchangeable) },
    Route("PUT PATCH DELETE", "me/library/*/*") { place throws(AppleError) in try place.changeResource() },
    Route("POST", "me/stations/next-tracks/*") { place throws(AppleError) in (200, try place.nextTracks()) },
    Route("POST", "me/stations/continuous") { place throws(AppleError) in (200, try place.continuousStation()) },
    Route("me/ratings/*") { place throws(AppleError) in try place.rating().document },
    Route("GET HEAD PUT DELETE", "me/ratings/*/*") { place throws(AppleError) in try place.rating() },
  ]

  private static let unknown = ["catalog", "library"].map { word in
    Route(word == "catalog" ? "catalog/*/*/**" : "me/library/*/**") { place throws(AppleError) in
      let name = place.request.segments[2].prefix(64)
      throw .init(.invalidPath, "Unknown \(word) resource type '\(name)'")
    }
  }

  private static func ofHistory(_ row: JSONValue) -> Route {
    let path = row["path"]?.string?.text ?? ""
    return Route("me/\(path)") { place throws(AppleError) in try place.history(row, "/v1/me/\(path)") }
  }

  private static func ofType(_ type: ResourceType) -> Route {
    let path = (type.path.head + (type.path.tail.map { "*\($0)" } ?? "")).dropFirst("/v1/".count)
    let count = path.split(separator: "/").count
    return Route("\(path)/**") { place throws(AppleError) in
      try place.resources(type, place.request.segments.dropFirst(count))
    }
  }
}
