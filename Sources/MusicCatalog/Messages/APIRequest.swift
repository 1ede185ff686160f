import Bytes
package import JSON

/// A request with a valid token, as endpoints need it.
package struct APIRequest {
  let method: String
  /// The decoded segments after `v1`.
  package let segments: [String]
  let query: Query
  let content: [UInt8]
  let catalog: Catalog
  /// The beginning of the emulator's absolute URLs.
  package let base: String
  /// The user according to the music user token.
  let user: UserAccess
  /// Whether a fault lets the user change and delete playlists.
  let allowsChanges: Bool
  /// The time in seconds since 1970.
  let now: Int
  /// Whether the response may depend on the user: by its path, its relationships, attributes or filters.
  package let isPersonal: Bool

  /// Creates a request.
  package init(
    method: String, segments: [String], query: Query, content: [UInt8], catalog: Catalog, base: String,
    user: UserAccess, allowsChanges: Bool, now: Int
  ) {
    (self.method, self.segments, self.query, self.content) = (method, segments, query, content)
    (self.catalog, self.base, self.user) = (catalog, base, user)
    (self.allowsChanges, self.now) = (allowsChanges, now)
    isPersonal = segments.first == "me" || segments.last == "library" || Selection(query).isPersonal
  }

  /// Returns the response.
  package func respond() throws(AppleError) -> APIResponse {
    switch (segments.first, segments.count) {
    case ("me", _): return try MeEndpoint(self).respond()
    case ("test", 1):
      try require("GET", "HEAD")
      return APIResponse(200)
    default: return APIResponse(200, try CatalogEndpoint(request: self).respond())
    }
  }

  /// The result of checking the music user token.
  package enum UserAccess {
    case user(UserLibrary)
    case withoutSubscription
    case unknown
  }

  /// Returns the library of the user. Throws 403 if the user has no library.
  func library() throws(AppleError) -> UserLibrary {
    switch user {
    case .user(let library): return library
    case .withoutSubscription: throw .noSubscription
    case .unknown: throw .invalidUserToken
    }
  }

  /// Throws 405 unless the method is one of `methods`.
  func require(_ methods: String...) throws(AppleError) {
    guard !methods.contains(method) else { return }
    throw .methodNotAllowed(methods.joined(separator: ", "))
  }

  /// Returns the place for a storefront's code and the parameter `l`. Two public programs send the code in upper case.
  func place(_ code: String) throws(AppleError) -> Place {
    let key = ResourceKey("storefronts", ByteString(code).lowercasedASCII)
    guard let resource = catalog.find(key) else { throw .invalidPath("Unknown storefront '\(code.prefix(32))'") }
    let storefront = Storefront(resource: resource)
    return Place(
      catalog: catalog, storefront: storefront, language: try storefront.language(for: query["l"]),
      requestedLanguage: query["l"], base: base, library: isPersonal ? try library().contents : nil,
      isRestricted: query.values("restrict").contains("explicit"))
  }

  /// Returns the JSON object in the content.
  func object() throws(AppleError) -> JSONValue {
    guard let value = JSONReader.read(content), value.isObject else {
      throw .invalidContent("Unable to parse request body")
    }
    return value
  }
}

/// A response: its status, and its document unless it is empty.
package struct APIResponse {
  /// The status code.
  package let status: Int
  /// The content.
  package let document: JSONValue?

  init(_ status: Int, _ document: JSONValue? = nil) {
    (self.status, self.document) = (status, document)
  }

  static func json(_ document: JSONValue, status: Int = 200) -> APIResponse { APIResponse(status, document) }
}
