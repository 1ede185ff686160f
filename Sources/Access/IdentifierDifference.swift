public import Bytes

/// The difference between two identifiers that people take for the same: an `iss` or `aud` and the configured one.
///
/// The server compares such identifiers byte for byte, as OpenID Connect Core §3.1.3.7 and RFC 7519 §2 require. A
/// difference that the eye passes over needs a name.
public struct IdentifierDifference: Sendable, Hashable, CustomStringConvertible {
  /// The differences, as the end of a sentence: `only by a slash at the end`.
  public let description: String

  /// Compares two identifiers. Returns nil if they are equal, or differ in anything else than their scheme, slashes at
  /// their end, and upper and lower case.
  public init?(_ one: ByteString, _ other: ByteString) {
    guard one != other else { return nil }
    let (one, other) = (Parts(one), Parts(other))
    guard one.rest.lowercasedASCII == other.rest.lowercasedASCII else { return nil }
    var differences: [String] = []
    switch (one.scheme, other.scheme) {
    case let (a?, b?) where a != b: differences.append("by http:// in place of https://")
    case (nil, let scheme?), (let scheme?, nil): differences.append("by \(scheme) at the beginning, which one lacks")
    default: break
    }
    if one.slashes != other.slashes {
      let isOne = abs(one.slashes - other.slashes) == 1
      differences.append("by \(isOne ? "a slash" : "slashes") at the end")
    }
    let sameScheme = one.scheme == other.scheme && one.schemeText != other.schemeText
    if one.rest != other.rest || sameScheme { differences.append("by upper and lower case") }
    description = "only \(differences.joined(separator: " and "))"
  }

  /// Returns what is left of an identifier without these differences, to find the similar ones among many.
  static func core(_ identifier: ByteString) -> ByteString { Parts(identifier).rest.lowercasedASCII }

  private struct Parts {
    /// The scheme in lower case; nil if it is neither http nor https.
    let scheme: String?
    let schemeText: ByteString
    let rest: ByteString
    let slashes: Int

    init(_ identifier: ByteString) {
      let bytes = identifier.bytes
      let scheme = ["https://", "http://"].first { scheme in
        bytes.count >= scheme.utf8.count && ByteString(Array(bytes[..<scheme.utf8.count])).lowercasedASCII == scheme
      }
      let start = scheme?.utf8.count ?? 0
      var end = bytes.count
      while end > start, bytes[end - 1] == UInt8(ascii: "/") { end -= 1 }
      self.scheme = scheme
      schemeText = ByteString(scheme == nil ? [] : Array(bytes[..<start]))
      rest = ByteString(Array(bytes[start..<end]))
      slashes = bytes.count - end
    }
  }
}
