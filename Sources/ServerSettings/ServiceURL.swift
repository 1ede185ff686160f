import Access
package import HTTPMessages

/// The URL of a service that the server uses: of a key set, of a discovery document, or of a collector of spans.
package struct ServiceURL: Sendable, Hashable, CustomStringConvertible {
  /// Scheme, host and port.
  package let origin: Origin
  /// Path and query, in origin form (RFC 9112 §3.2.1).
  package private(set) var target: String

  /// The URL in a canonical form, without its query, which may contain a secret.
  package var description: String { "\(origin)\(target.prefix { $0 != "?" })" }
  /// In bytes.
  static let limit = 2048

  /// Creates the URL of the discovery document of an issuer, which has neither a query nor a fragment (OpenID Connect
  /// Discovery §2).
  package init(discoveryOf issuer: String) throws(InvalidValue) {
    guard !issuer.contains("?") else { throw InvalidValue("has a query (“?…”)", remedy: nil) }
    // The problem is the issuer's, not that of the whole URL.
    _ = try ServiceURL(issuer)
    try self.init(ProviderMetadata.url(of: issuer))
  }

  /// Parses the URL of keys, without credentials and fragment. Only `https` is allowed, because an attacker who can change
  /// the keys can sign as the issuer.
  package init(_ text: String) throws(InvalidValue) { try self.init(text, schemes: ["https://"]) }

  /// Parses the URL of a collector: `http` or `https`, without credentials, query and fragment. Returns nil for any other.
  init?(ofCollector text: String) {
    guard !text.contains(where: { "?@".contains($0) }),
      let url = try? ServiceURL(text, schemes: ["http://", "https://"])
    else { return nil }
    self = url
  }

  private init(_ text: String, schemes: [String]) throws(InvalidValue) {
    guard text.utf8.count <= Self.limit, text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
      throw InvalidValue(
        "is not a URL: it has spaces or letters that must be percent-encoded, or is too long", remedy: nil)
    }
    guard let scheme = schemes.first(where: { text.lowercased().hasPrefix($0) }) else {
      throw InvalidValue("does not begin with https://", remedy: nil)
    }
    guard !text.contains("#") else {
      throw InvalidValue("has a fragment (“#…”), which clients do not send to servers", remedy: nil)
    }
    let rest = text.dropFirst(scheme.count)
    let authority = rest.prefix { $0 != "/" && $0 != "?" }
    do throws(OriginError) { origin = try Origin("\(scheme)\(authority)") } catch {
      throw InvalidValue("has no valid host and port", remedy: nil)
    }
    let target = rest[authority.endIndex...]
    self.target = target.hasPrefix("/") ? String(target) : "/\(target)"
  }

  func appending(_ path: String) -> ServiceURL {
    var url = self
    url.target += target.hasSuffix("/") ? path : "/\(path)"
    return url
  }
}
