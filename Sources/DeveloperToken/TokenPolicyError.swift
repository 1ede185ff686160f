/// A policy that would not give sound tokens.
public struct TokenPolicyError: Error, Sendable, Hashable, CustomStringConvertible {
  /// One sentence that names the setting and what would be right.
  public let description: String
}
