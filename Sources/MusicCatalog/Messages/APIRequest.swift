import Bytes
package import JSON

/// A request with a valid token, as endpoints need it.
package struct APIRequest {
  let method: String
  package let segments: [String]
  let query: Query
  let content: [UInt8]
  let catalog: Catalog
  /// The beginning of the emulator's absolute URLs, such as `http://localhost:8081`.
  package let base: String
  /// The library of the user, or the error of a request without one.
  let library: Result<UserLibrary, AppleError>
  let allowsChanges: Bool
  let now: Int
  /// Whether the response may depend on the user: by its path, its relationships, attributes or filters.
  package let isPersonal: Bool

  package init(
    method: String, segments: [String], query: Query, content: [UInt8], catalog: Catalog, base: String,
    library: Result<UserLibrary, AppleError>, allowsChanges: Bool, now: Int
  ) {
    (self.method, self.segments, self.query, self.content) = (method, segments, query, content)
    (self.catalog, self.base, self.library) = (catalog, base, library)
    (self.allowsChanges, self.now) = (allowsChanges, now)
    isPersonal = segments.first == "me" || segments.last == "library" || Selection(query).isPersonal
  }

  package func respond() throws(AppleError) -> (status: Int, document: JSONValue?) {
    switch (segments.first, segments.count) {
    case ("me", _): return try MeEndpoint(self).respond()
    case ("catalog", 2...): return (200, try place(segments[1]).catalog(segments.dropFirst(2)))
    case ("storefronts", _):
      guard let type = catalog.types["storefronts"] else { throw .init(.pathNotFound) }
      return (200, try place("us").resources(type, segments.dropFirst()))
    case ("language", 3) where segments[2] == "tag": return (200, try place(segments[1]).bestLanguage())
    case ("test", 1):
      try require("GET", "HEAD")
      return (200, nil)
    default: throw .init(.pathNotFound)
    }
  }

  func require(_ methods: String...) throws(AppleError) {
    guard !methods.contains(method) else { return }
    throw .init(.methodNotAllowed, allow: methods.joined(separator: ", "))
  }

  /// Returns the place for a storefront's code and the parameter `l`. Two public programs send the code in upper case.
  func place(_ code: String) throws(AppleError) -> Place {
    guard let storefront = catalog.find(ResourceKey("storefronts", ByteString(code).lowercasedASCII)) else {
      throw .init(.invalidPath, "Unknown storefront '\(code.prefix(32))'")
    }
    return try Place(self, storefront, library: isPersonal ? try library.get().contents : nil)
  }

  func object() throws(AppleError) -> JSONValue {
    guard let value = JSONReader.read(content), value.isObject else {
      throw .init(.invalidContent, "Unable to parse request body")
    }
    return value
  }
}
