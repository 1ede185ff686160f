package import HTTPMessages

/// The address of a key set. Only `https` is allowed, because an attacker who can change the keys can sign as the
/// issuer.
package struct KeySetURL: Sendable, Hashable, CustomStringConvertible {
  /// Why a text is not such an address.
  package struct Invalid: Error, Equatable, CustomStringConvertible {
    /// What is wrong with it, to follow the text itself: `is not https://…`.
    package let description: String
  }

  /// Scheme, host and port.
  package let origin: Origin
  /// Path and query, in origin form (RFC 9112 §3.2.1).
  package let target: String

  /// The address in one spelling, without its query, which may hold a secret.
  package var description: String { "\(origin)\(target.prefix { $0 != "?" })" }

  /// Longest text that is looked at, in bytes.
  static let limit = 2048

  /// The parts of an `https` URL without credentials and fragment.
  package init(_ text: String) throws(Invalid) {
    guard text.utf8.count <= Self.limit, text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
      throw Invalid(description: "is not a URL: it has spaces or letters that must be percent-encoded, or is too long")
    }
    let scheme = text.prefix("https://".count)
    guard scheme.lowercased() == "https://" else { throw Invalid(description: "does not begin with https://") }
    guard !text.contains("#") else { throw Invalid(description: "has a fragment (“#…”), which no server sees") }
    let rest = text[scheme.endIndex...]
    let authority = rest.prefix { $0 != "/" && $0 != "?" }
    do throws(OriginError) { origin = try Origin("https://\(authority)") } catch {
      throw Invalid(description: "has no host and port that can be asked")
    }
    let target = rest[authority.endIndex...]
    self.target = target.hasPrefix("/") ? String(target) : "/\(target)"
  }
}
