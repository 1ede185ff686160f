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
  /// The beginning of the emulator's absolute URLs, such as `http://localhost:8081`.
  package let base: String
  /// The user according to the music user token.
  let user: UserAccess
  /// Whether a fault lets the user change and delete playlists.
  let allowsChanges: Bool
  /// The time in seconds since 1970.
  let now: Int
  /// Whether the response may depend on the user: by its path, its relationships, attributes or filters.
  package let isPersonal: Bool

  package init(
    method: String, segments: [String], query: Query, content: [UInt8], catalog: Catalog, base: String,
    user: UserAccess, allowsChanges: Bool, now: Int
  ) {
    (self.method, self.segments, self.query, self.content) = (method, segments, query, content)
    (self.catalog, self.base, self.user) = (catalog, base, user)
    (self.allowsChanges, self.now) = (allowsChanges, now)
    isPersonal = segments.first == "me" || segments.last == "library" || Selection(query).isPersonal
  }

  package enum UserAccess {
    case user(UserLibrary)
    case withoutSubscription
    case unknown
  }

  /// Returns the status and the document of the response.
  package func respond() throws(AppleError) -> (status: Int, document: JSONValue?) {
    switch (segments.first, segments.count) {
    case ("me", _): return try MeEndpoint(self).respond()
    case ("test", 1):
      try require("GET", "HEAD")
      return (200, nil)
    default: return (200, try CatalogEndpoint(request: self).respond())
    }
  }

  func library() throws(AppleError) -> UserLibrary {
    switch user {
    case .user(let library): return library
    case .withoutSubscription: throw .init(.noSubscription)
    case .unknown: throw .init(.invalidUserToken)
    }
  }

  func require(_ methods: String...) throws(AppleError) {
    guard !methods.contains(method) else { return }
    throw .init(.methodNotAllowed, allow: methods.joined(separator: ", "))
  }

  /// Returns the place for a storefront's code and the parameter `l`. Two public programs send the code in upper case.
  func place(_ code: String) throws(AppleError) -> Place {
    guard let resource = catalog.find(ResourceKey("storefronts", ByteString(code).lowercasedASCII)) else {
      throw .init(.invalidPath, "Unknown storefront '\(code.prefix(32))'")
    }
    return try Place(self, Storefront(resource: resource), library: isPersonal ? try library().contents : nil)
  }

  func object() throws(AppleError) -> JSONValue {
    guard let value = JSONReader.read(content), value.isObject else {
      throw .init(.invalidContent, "Unable to parse request body")
    }
    return value
  }
}
