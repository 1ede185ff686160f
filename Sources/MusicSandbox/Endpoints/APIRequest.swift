/// A request whose token is good: what an endpoint needs of it.
struct APIRequest {
  let method: String
  /// The decoded segments behind `v1`.
  let segments: ArraySlice<String>
  let query: Query
  let content: [UInt8]
  let catalog: Catalog
  /// What absolute URLs of the emulator begin with.
  let base: String
  /// The user whose music user token came along, if it is a good one.
  let user: UserAccess

  /// Whether a good music user token came along.
  enum UserAccess {
    case user(UserLibrary)
    case withoutSubscription
    case unknown
  }

  /// The library of the user. Throws 403 if the user has no library.
  func library() throws(AppleError) -> UserLibrary {
    switch user {
    case .user(let library): return library
    case .withoutSubscription: throw .noSubscription
    case .unknown: throw .invalidUserToken
    }
  }

  /// Whether the answer may depend on the user.
  var isPersonal: Bool { query["relate"] != nil || !query.bracketed("filter").isEmpty || segments.last == "library" }

  /// Throws 405 unless the method is one of these.
  func require(_ methods: String...) throws(AppleError) {
    guard !methods.contains(method) else { return }
    throw .methodNotAllowed(methods.joined(separator: ", "))
  }

  /// The place that a storefront's code and `l` make.
  func place(_ code: String) throws(AppleError) -> Place {
    guard let storefront = Storefront[code] else { throw .invalidPath("Unknown storefront '\(code.prefix(32))'") }
    return Place(
      catalog: catalog, storefront: storefront, language: try storefront.language(for: query["l"]),
      requestedLanguage: query["l"], base: base)
  }
}
