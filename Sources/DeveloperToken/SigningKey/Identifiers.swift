import Bytes

/// What key IDs and team IDs have in common: exactly ten characters of `A`–`Z` and `0`–`9`.
enum AppleIdentifier {
  static let length = 10

  static func isValid(_ text: some StringProtocol) -> Bool {
    text.utf8.count == length && text.utf8.allSatisfy(isIdentifierByte)
  }

  static func check(_ text: String, as name: String) throws(IdentifierError) {
    guard !isValid(text) else { return }
    throw IdentifierError(name: name, text: text)
  }

  private static func isIdentifierByte(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
  }
}

/// A key ID or team ID that Apple cannot have given out.
public struct IdentifierError: Error, Sendable, Hashable, CustomStringConvertible {
  /// "key ID" or "team ID".
  let name: String
  /// The value given. It may be the key itself by mistake, so the error shows it only when it is short.
  let text: String

  /// One sentence that names what is wrong.
  public var description: String {
    "The \(name) \(Printable.quote(text, limit: 16)) is not one: Apple's are exactly \(AppleIdentifier.length)"
      + " characters of A–Z and 0–9\(hint)."
  }

  private var hint: String {
    let count = text.utf8.count
    if count == 0 { return ", and this is empty" }
    if count != AppleIdentifier.length { return ", and this has \(count)" }
    return AppleIdentifier.isValid(text.uppercased()) ? ", and this has lower-case letters" : ""
  }
}

/// The ten-character identifier of Apple's for a MusicKit private key: the `kid` of a token.
public struct KeyID: Sendable, Hashable, CustomStringConvertible {
  /// The ten characters.
  public let description: String

  /// - Throws: `IdentifierError` unless the text is exactly ten characters of `A`–`Z` and `0`–`9`.
  public init(_ text: String) throws(IdentifierError) {
    try AppleIdentifier.check(text, as: "key ID")
    description = text
  }
}

/// The ten-character identifier of Apple's for a developer team: the `iss` of a token.
public struct TeamID: Sendable, Hashable, CustomStringConvertible {
  /// The ten characters.
  public let description: String

  /// - Throws: `IdentifierError` unless the text is exactly ten characters of `A`–`Z` and `0`–`9`.
  public init(_ text: String) throws(IdentifierError) {
    try AppleIdentifier.check(text, as: "team ID")
    description = text
  }
}
