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
