import Bytes
import DeveloperToken
import Locks

/// Holds developer tokens against Apple's rules.
///
/// The rules themselves are ``Inspector``'s, whose remarks count for nothing here and whose failures all mean 401. What
/// it cannot know is added: whose key it is, whose team, and which `Origin` the request bears.
final class TokenJudge: @unchecked Sendable {
  // Sendable: `accepted` is only touched inside the mutex, the rest never changes.

  /// Tokens whose signature need not be verified again. An app has one token at a time, a test a few.
  private static let maximumRemembered = 64
  private static let scheme = "bearer "

  private let keys: [TrustedKey]
  private let mutex = Mutex()
  private var accepted: [ByteString: AcceptedToken] = [:]

  init(keys: [TrustedKey]) {
    self.keys = keys
  }

  /// The verdict on a request.
  ///
  /// - Parameter now: The emulator's time in seconds since 1970.
  func verdict(on fields: [SandboxField], now: Int) -> TokenVerdict {
    let values = fields.values(of: "authorization")
    guard let value = values.first else { return .refused("there is no Authorization") }
    guard values.count == 1 else { return .refused("there are several Authorization fields") }
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
    if let known = mutex.withLock({ accepted[compact] }) { return known }
    let token = try examine(compact.bytes, now: now)
    mutex.withLock {
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

  /// Apple compares byte for byte and expands no wildcard. A missing `Origin` does not match.
  private static func refusal(_ origins: [ByteString], _ fields: [SandboxField]) -> String? {
    guard let origin = fields.single("origin") else { return "claims.origin: the request bears no Origin" }
    let isAllowed = origins.contains { $0 == origin }
    return isAllowed ? nil : "claims.origin: it does not name the request's Origin"
  }
}
