public import Bytes
import Cryptography
import Glibc
public import HTTPMessages
import JSON

/// Checks a developer token against each of Apple's rules and explains each failure. Apple answers 401 with an empty
/// body for every error. The inspector finds the cause from the token alone, without a network.
public struct Inspector: Sendable {
  private let key: VerificationKey?
  private let origin: Origin?
  private let now: Int

  /// Creates an inspector with the key that should have signed, the browser's origin, and the seconds since 1970.
  public init(key: VerificationKey? = nil, origin: Origin? = nil, now: Int) {
    (self.key, self.origin, self.now) = (key, origin, now)
  }

  /// Inspects a token, which may come from anywhere.
  public func inspect(_ token: String) -> Inspection { inspect(Array(token.utf8).span) }

  /// Inspects a token, which may come from anywhere, without white space, quotes and `Bearer` around it. Time and
  /// memory are linear in the length; a token longer than 16 KiB fails at once.
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
    } catch { inspection.add("form", .fail, range.isEmpty ? "It is empty." : "\(error)") }
    return inspection
  }

  private func inspect(_ jws: JWS, into inspection: inout Inspection) {
    if let header = jws.header {
      inspection.checkHeader(header, key)
    } else {
      inspection.add("header", .fail, "The header is not a JSON object.")
    }
    if let claims = JSONReader.read(jws.payload), claims.isObject {
      inspection.checkClaims(claims, now: now)
      inspection.checkOrigins(claims["origin"], origin)
    } else {
      inspection.add("claims", .fail, "The claims are not a JSON object.")
    }
    inspection.checkSignature(of: jws, by: key)
  }
}

/// The content of a developer token, and the result of each of Apple's rules.
public struct Inspection: Sendable, Hashable {
  /// The `alg` of the header. Like all byte strings here, it is text from outside.
  public internal(set) var algorithm: ByteString?
  /// The `kid` of the header.
  public internal(set) var keyID: ByteString?
  /// The `iss` of the claims.
  public internal(set) var issuer: ByteString?
  /// The `iat`; nil if it is not a whole number.
  public internal(set) var issuedAt: Int?
  /// The `exp`; nil if it is not a whole number.
  public internal(set) var expiresAt: Int?
  /// The values of `origin` that are strings.
  public internal(set) var origins: [ByteString] = []
  /// The results of all rules that apply, in a fixed order.
  public internal(set) var checks: [Check] = []

  /// Whether Apple would probably accept the token: no check fails.
  public var isAcceptable: Bool { checks.allSatisfy { $0.verdict != .fail } }

  mutating func add(_ rule: String, _ verdict: Check.Verdict, _ explanation: String) {
    checks.append(Check(rule: rule, verdict: verdict, explanation: explanation))
  }

  mutating func add(_ rule: String, _ isKept: Bool, pass: String, fail: String) {
    add(rule, isKept ? .pass : .fail, isKept ? pass : fail)
  }
}

/// The result of one rule for one token.
public struct Check: Sendable, Hashable {
  /// The verdict of a rule on a token.
  public enum Verdict: String, Sendable, Hashable {
    case pass
    /// The token breaks the rule, so Apple would refuse it.
    case fail
    /// Apple would accept the token, but something about it is unusual.
    case warning
    /// The given facts are not enough to decide.
    case unknown
  }

  /// The identifier of the rule, in dotted lower case; it never changes for the same rule.
  public let rule: String
  /// The verdict of the rule.
  public let verdict: Verdict
  /// One or two sentences: what was found and, for a failure, what would be right.
  public let explanation: String
}

/// A MusicKit key as Apple knows it: its identifier, its team, and its public half.
package struct TrustedKey: Sendable {
  package let team: TeamID
  package let keyID: KeyID
  let key: VerificationKey

  /// Trusts the public half of `key`, which signs for `team`.
  package init(team: TeamID, key: SigningKey) {
    (self.team, self.keyID, self.key) = (team, key.keyID, key.verificationKey)
  }
}

/// A developer token that Apple would accept now from one of its origins, or from any if it names none.
package struct AcceptedToken: Sendable {
  /// The key that made the token.
  package let key: TrustedKey
  /// Seconds since 1970.
  package let expiry: Int
  /// The values of `origin`.
  package let origins: [ByteString]

  /// The first of Apple's rules that a token breaks.
  package struct Refusal: Error {
    /// The rule, and what is wrong.
    package let reason: String

    package init(_ reason: String) { self.reason = reason }
  }

  /// Judges a token as Apple does, which knows all keys, at `now` in seconds since 1970. Nothing may surround it.
  package init(_ compact: [UInt8], of keys: [TrustedKey], now: Int) throws(Refusal) {
    do { _ = try JWS(compact: compact.span) } catch { throw Refusal("form: \(error)") }
    let claimed = Inspector(now: now).inspect(compact.span)
    let known = keys.filter { claimed.keyID == ByteString($0.keyID.description) }
    guard let key = known.first(where: { claimed.issuer == ByteString($0.team.description) }) ?? known.first else {
      throw Self.refusal(claimed) ?? Refusal("header.kid: no such key")
    }
    let inspection = Inspector(key: key.key, now: now).inspect(compact.span)
    if let refusal = Self.refusal(inspection) { throw refusal }
    guard inspection.issuer == ByteString(key.team.description), let expiry = inspection.expiresAt else {
      throw Refusal("claims.iss: not the key's team")
    }
    (self.key, self.expiry, origins) = (key, expiry, inspection.origins)
  }

  private static func refusal(_ inspection: Inspection) -> Refusal? {
    inspection.checks.first { $0.verdict == .fail }.map { Refusal("\($0.rule): \($0.explanation)") }
  }
}
