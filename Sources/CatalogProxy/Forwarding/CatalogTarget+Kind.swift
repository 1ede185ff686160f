import HTTPTypes

extension CatalogTarget {
  /// Whose resource a target is.
  public enum Kind: Sendable, Equatable {
    /// `/v1/catalog/{storefront}` and what is below.
    case catalog
    /// `/v1/storefronts` and what is below.
    case storefronts
    /// `/v1/language/{storefront}/tag`.
    case language
    /// `/v1/test`, which only checks the developer token.
    case test
    /// Below `/v1/me`.
    case me

    /// Whether a method may be used on it: `GET` and `HEAD`; below `/v1/me`, what Apple documents there, too.
    func allows(_ method: HTTPRequest.Method) -> Bool {
      switch method {
      case .get, .head: true
      case .post, .put, .patch, .delete: self == .me
      default: false
      }
    }

    /// The value of `Allow` (RFC 9110 §10.2.1); `OPTIONS` is the server's own.
    var allow: StaticString {
      self == .me ? "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS" : "GET, HEAD, OPTIONS"
    }
  }
}
