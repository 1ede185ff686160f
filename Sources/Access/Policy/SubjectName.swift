/// A name that a certificate is for: one of its subject alternative names (RFC 5280 §4.2.1.6).
///
/// The server ignores the subject's common name, because its meaning was never defined (RFC 9525 §2).
public enum SubjectName: Sendable, Hashable, CustomStringConvertible {
  /// A URI, byte for byte: `spiffe://example.com/partner`.
  case uri(String)
  /// A DNS name, in lower case.
  case dns(String)
  /// An e-mail address, byte for byte.
  case email(String)

  /// The name that an operator writes: what has `://` is a URI, what has `@` an e-mail address, all else a DNS name. Nil
  /// if it can be none of these.
  public init?(_ text: String) {
    guard (1...1024).contains(text.utf8.count), text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else { return nil }
    if text.contains("://") || text.hasPrefix("urn:") {
      self = .uri(text)
    } else if text.contains("@") {
      self = .email(text)
    } else {
      let isName = text.utf8.allSatisfy {
        (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0) || $0 == 0x2D
          || $0 == 0x2E || $0 == 0x5F
      }
      // A star in a certificate would be anybody's below that domain.
      guard isName else { return nil }
      self = .dns(text.lowercased())
    }
  }

  /// As it is written.
  public var description: String {
    switch self {
    case .uri(let name), .dns(let name), .email(let name): name
    }
  }
}
