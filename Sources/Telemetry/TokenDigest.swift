/// The SHA-256 of a token in its compact form: names it where the token itself must not stand.
///
/// A type of its own, and not a string, so that nothing else can be put into its place by mistake.
public struct TokenDigest: Sendable, Equatable {
  let hexadecimal: String

  /// The digest in 64 lower-case hexadecimal digits; nil if `text` is anything else.
  public init?(hexadecimal text: String) {
    guard text.utf8.count == 64, text.utf8.allSatisfy(\.isLowercaseHexadecimal) else { return nil }
    hexadecimal = text
  }
}

extension UInt8 {
  fileprivate var isLowercaseHexadecimal: Bool {
    (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(self) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(self)
  }
}
