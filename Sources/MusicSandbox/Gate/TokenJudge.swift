import Bytes
import Cryptography
public import DeveloperToken
import HTTPMessages
import Locks

/// Checks developer tokens against Apple's rules.
///
/// The rules are those of ``Inspector``. Its warnings have no effect here, and every failure means 401. This type adds
/// the checks that need more than the token: the key, its team, and the `Origin` of the request.
final class TokenJudge: Sendable {
  /// The maximum number of tokens whose signature need not be verified again. An app uses one token at a time, a test a
  /// few.
  private static let maximumRemembered = 64
  private static let scheme = "bearer "

  private let keys: [TrustedKey]
  private let accepted = Locked<[ByteString: AcceptedToken]>([:])

  init(keys: [TrustedKey]) {
    self.keys = keys
  }

  /// Returns the verdict on a request.
  ///
  /// - Parameter now: The emulator's time in seconds since 1970.
  func verdict(on fields: [SandboxField], now: Int) -> TokenVerdict {
    let values = fields.values(of: "authorization")
    guard let value = values.first else { return .refused("the request has no Authorization") }
    guard values.count == 1 else { return .refused("the request has several Authorization fields") }
    guard value.lowercased().hasPrefix(Self.scheme) else { return .refused("Authorization is not Bearer") }
    let compact = String(value.dropFirst(Self.scheme.count))
    let token: AcceptedToken
    do throws(Refused) { token = try self.token(compact, now: now) } catch { return .refused(error.reason) }
    guard token.times.contains(now) else { return .refused(token.reasonOutside(now)) }
    if let reason = token.origins.flatMap({ Self.refusal($0, fields) }) { return .refused(reason) }
    return .accepted(team: token.team, keyID: token.keyID, secondsLeft: token.times.upperBound - now)
  }

  private struct Refused: Error {
    let reason: String
  }

  private func token(_ compact: String, now: Int) throws(Refused) -> AcceptedToken {
    let compact = ByteString(compact)
    if let known = accepted.withLock({ $0[compact] }) { return known }
    let token = try examine(compact.bytes, now: now)
    accepted.withLock { accepted in
      if accepted.count >= Self.maximumRemembered { accepted.removeAll() }
      accepted[compact] = token
    }
    return token
  }

  private func examine(_ compact: [UInt8], now: Int) throws(Refused) -> AcceptedToken {
    do { _ = try JWS(compact: compact.span) } catch { throw Refused(reason: "form: \(error)") }
    let claimed = Inspector(now: now).inspect(compact.span)
    let known = keys.filter { claimed.keyID == ByteString($0.keyID.description) }
    guard let key = known.first(where: { claimed.issuer == ByteString($0.team.description) }) ?? known.first else {
      throw Refused(reason: Self.failure(claimed) ?? "header.kid: no such key")
    }
    let inspection = Inspector(key: key.key, now: now).inspect(compact.span)
    if let failure = Self.failure(inspection) { throw Refused(reason: failure) }
    guard inspection.issuer == ByteString(key.team.description) else {
      throw Refused(reason: "claims.iss: not the key's team")
    }
    guard let token = AcceptedToken(inspection, key) else { throw Refused(reason: "claims: no times") }
    return token
  }

  private static func failure(_ inspection: Inspection) -> String? {
    inspection.checks.first { $0.verdict == .fail }.map { "\($0.rule): \($0.explanation)" }
  }

  /// Returns the reason why no origin matches, or nil. Like Apple, it compares bytes and expands no wildcard. A missing
  /// `Origin` does not match.
  private static func refusal(_ origins: [ByteString], _ fields: [SandboxField]) -> String? {
    guard let origin = fields.single("origin") else { return "claims.origin: the request has no Origin" }
    let isAllowed = origins.contains { $0 == origin }
    return isAllowed ? nil : "claims.origin: the claim does not name the request's Origin"
  }
}

/// The verdict on a request's developer token.
enum TokenVerdict: Sendable, Equatable {
  /// The token is valid for this team.
  case accepted(team: String, keyID: String, secondsLeft: Int)
  /// The token is refused for this reason. Apple's response is always 401 with an empty body.
  case refused(String)

  /// The text that replaces the token in the log of requests.
  var summary: String {
    switch self {
    case .accepted(let team, let keyID, let left): "accepted: team \(team), key \(keyID), \(left) s left"
    case .refused(let reason): "refused: \(reason)"
    }
  }
}

/// A developer token that meets all rules that do not depend on the time or the request.
struct AcceptedToken: Sendable {
  let team: String
  let keyID: String
  /// The origins of the token; nil if it is not bound to any.
  let origins: [ByteString]?
  /// The validity in seconds since 1970. It begins at `iat`, or when `exp` is within Apple's limit if that is later.
  let times: Range<Int>
  private let issuedAt: Int

  /// Creates the token from an inspection without failures. Returns nil if the times are missing or leave no validity.
  init?(_ inspection: Inspection, _ key: TrustedKey) {
    guard let issuedAt = inspection.issuedAt, let expiresAt = inspection.expiresAt else { return nil }
    let start = max(issuedAt, expiresAt - TokenPolicy.maximumLifetime)
    guard start < expiresAt else { return nil }
    (team, keyID) = (key.team.description, key.keyID.description)
    origins = inspection.origins.isEmpty ? nil : inspection.origins
    times = start..<expiresAt
    self.issuedAt = issuedAt
  }

  /// Returns the reason why the token is not valid at that time.
  func reasonOutside(_ now: Int) -> String {
    if now >= times.upperBound { return "claims.exp.past: expired \(now - times.upperBound) s ago" }
    return now < issuedAt ? "claims.iat.future: issued \(issuedAt - now) s from now" : "claims.exp.cap.now"
  }
}

/// A MusicKit key that the emulator knows, as Apple knows the keys that it has issued.
public struct TrustedKey: Sendable {
  /// The team of the key.
  public let team: TeamID
  /// The identifier of the key.
  public let keyID: KeyID
  /// The public half of the key, with its identifier.
  let key: VerificationKey

  /// Trusts the public half of `key`, which signs for `team`.
  public init(team: TeamID, key: SigningKey) {
    (self.team, self.keyID, self.key) = (team, key.keyID, key.verificationKey)
  }
}
