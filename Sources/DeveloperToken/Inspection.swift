public import Bytes

/// What a developer token says, and how it stands to each of Apple's rules.
public struct Inspection: Sendable, Hashable {
  /// `alg` as it stands in the header; foreign text, like all byte strings here.
  public internal(set) var algorithm: ByteString?
  /// `kid` as it stands in the header.
  public internal(set) var keyID: ByteString?
  /// `iss` as it stands in the claims.
  public internal(set) var issuer: ByteString?
  /// `iat`, if it is a whole number.
  public internal(set) var issuedAt: Int?
  /// `exp`, if it is a whole number.
  public internal(set) var expiresAt: Int?
  /// The values of `origin` that are text.
  public internal(set) var origins: [ByteString] = []
  /// Every rule that could be held against it, in a fixed order.
  public internal(set) var checks: [Check] = []

  /// Whether Apple would probably accept the token: no check fails.
  public var isAcceptable: Bool { checks.allSatisfy { $0.verdict != .fail } }

  mutating func add(_ rule: String, _ verdict: Check.Verdict, _ explanation: String) {
    checks.append(Check(rule: rule, verdict: verdict, explanation: explanation))
  }

  /// Adds what a rule with a single way to fail finds.
  mutating func add(_ rule: String, _ isKept: Bool, pass: String, fail: String) {
    add(rule, isKept ? .pass : .fail, isKept ? pass : fail)
  }
}
