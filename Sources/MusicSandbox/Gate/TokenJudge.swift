import Bytes
import Cryptography
public import DeveloperToken
import HTTPMessages
import HTTPTypes
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

  /// A refused token. Apple's response is always 401 with an empty body.
  struct Refusal: Error {
    let reason: String
  }

  /// Returns the token of a request. Throws if it is not valid.
  ///
  /// - Parameter now: The emulator's time in seconds since 1970.
  func token(_ fields: HTTPFields, now: Int) throws(Refusal) -> AcceptedToken {
    let values = fields.plain(.authorization)
    guard let value = values.first else { throw Refusal(reason: "the request has no Authorization") }
    guard values.count == 1 else { throw Refusal(reason: "the request has several Authorization fields") }
    guard value.lowercased().hasPrefix(Self.scheme) else { throw Refusal(reason: "Authorization is not Bearer") }
    let token = try verified(ByteString(value.dropFirst(Self.scheme.count)), now: now)
    try token.check(now)
    // Like Apple, it compares bytes and expands no wildcard.
    if let origins = token.origins {
      guard let origin = fields.single(.origin) else {
        throw Refusal(reason: "claims.origin: the request has no Origin")
      }
      guard origins.contains(where: { $0 == origin }) else {
        throw Refusal(reason: "claims.origin: the claim does not name the request's Origin")
      }
    }
    return token
  }

  private func verified(_ compact: ByteString, now: Int) throws(Refusal) -> AcceptedToken {
    if let known = accepted.withLock({ $0[compact] }) { return known }
    let token = try examine(compact.bytes, now: now)
    accepted.withLock { accepted in
      if accepted.count >= Self.maximumRemembered { accepted.removeAll() }
      accepted[compact] = token
    }
    return token
  }

  private func examine(_ compact: [UInt8], now: Int) throws(Refusal) -> AcceptedToken {
    do { _ = try JWS(compact: compact.span) } catch { throw Refusal(reason: "form: \(error)") }
    let claimed = Inspector(now: now).inspect(compact.span)
    let known = keys.filter { claimed.keyID == ByteString($0.keyID.description) }
    guard let key = known.first(where: { claimed.issuer == ByteString($0.team.description) }) ?? known.first else {
      throw Refusal(reason: Self.failure(claimed) ?? "header.kid: no such key")
    }
    let inspection = Inspector(key: key.key, now: now).inspect(compact.span)
    if let failure = Self.failure(inspection) { throw Refusal(reason: failure) }
    guard inspection.issuer == ByteString(key.team.description) else {
      throw Refusal(reason: "claims.iss: not the key's team")
    }
    guard let token = AcceptedToken(inspection, key) else { throw Refusal(reason: "claims: no times") }
    return token
  }

  private static func failure(_ inspection: Inspection) -> String? {
    inspection.checks.first { $0.verdict == .fail }.map { "\($0.rule): \($0.explanation)" }
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

  /// Throws unless the token is valid at that time.
  func check(_ now: Int) throws(TokenJudge.Refusal) {
    guard !times.contains(now) else { return }
    if now >= times.upperBound { throw .init(reason: "claims.exp.past: expired \(now - times.upperBound) s ago") }
    let isFuture = now < issuedAt
    throw .init(reason: isFuture ? "claims.iat.future: issued \(issuedAt - now) s from now" : "claims.exp.cap.now")
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
