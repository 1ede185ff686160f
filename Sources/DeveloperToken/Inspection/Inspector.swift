public import Bytes
import Cryptography
import Glibc
public import HTTPMessages
import JSON

/// Holds a developer token against each rule of Apple's and explains each failure.
///
/// Apple answers 401 with an empty body whatever is wrong. This says what it is, from the token alone: no network.
public struct Inspector: Sendable {
  /// The key that should have signed; nil leaves the signature unknown.
  public let key: VerificationKey?
  /// The browser origin that is to use the token; nil leaves the match unknown.
  public let origin: Origin?
  /// The time in seconds since 1970.
  public let now: Int

  /// An inspector with what is known beside the token itself.
  public init(key: VerificationKey? = nil, origin: Origin? = nil, now: Int) {
    (self.key, self.origin, self.now) = (key, origin, now)
  }

  /// What there is to say about a token, which may come from anywhere; see the other `inspect`.
  public func inspect(_ token: String) -> Inspection { inspect(Array(token.utf8).span) }

  /// What there is to say about a token, which may come from anywhere.
  ///
  /// White space, quotes and `Bearer` around it are taken off with a remark. It takes time and memory linear in the
  /// first 16 KiB and refuses to look at more.
  public func inspect(_ token: Span<UInt8>) -> Inspection {
    var inspection = Inspection()
    guard token.count <= JWS.limit else {
      inspection.add("form", .fail, "\(JWSError.tooLong(limit: JWS.limit))")
      return inspection
    }
    let (range, remark) = PastedTokenTrimmer.strip(token)
    if let remark { inspection.add("form.wrapping", .warning, remark) }
    do {
      let jws = try JWS(compact: token.extracting(range))
      inspection.add("form", .pass, "It has three parts of base64url.")
      inspect(jws, into: &inspection)
    } catch {
      inspection.add("form", .fail, range.isEmpty ? "It is empty." : "\(error)")
    }
    return inspection
  }

  private func inspect(_ jws: JWS, into inspection: inout Inspection) {
    if let header = jws.header {
      HeaderRules(header: header, key: key).check(into: &inspection)
    } else {
      inspection.add("header", .fail, "The header is not a JSON object.")
    }
    if let claims = JSONReader.read(jws.payload), claims.isObject {
      ClaimRules(claims: claims, now: now).check(into: &inspection)
      OriginRules(claim: claims["origin"], origin: origin).check(into: &inspection)
    } else {
      inspection.add("claims", .fail, "The claims are not a JSON object.")
    }
    SignatureRules(jws: jws, key: key).check(into: &inspection)
  }
}

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
