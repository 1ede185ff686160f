/// One rule held against one token.
public struct Check: Sendable, Hashable {
  /// How the token stands to a rule.
  public enum Verdict: String, Sendable, Hashable {
    /// It keeps the rule.
    case pass
    /// It breaks the rule: Apple would refuse it.
    case fail
    /// Apple would take it, and something about it is odd.
    case warning
    /// It cannot be told from what is given.
    case unknown
  }

  /// The rule, in dotted lower case; never changes for the same rule.
  public let rule: String
  /// How the token stands to it.
  public let verdict: Verdict
  /// One or two sentences: what was found, and for a failure what would be right.
  public let explanation: String
}
