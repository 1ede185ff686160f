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
