import Bytes
import DeveloperToken

/// A developer token that breaks none of the rules that do not depend on time or request.
struct AcceptedToken: Sendable {
  let team: String
  let keyID: String
  /// Nil if the token is not bound to origins.
  let origins: [ByteString]?
  /// When it is good, in seconds since 1970: from `iat`, or from when `exp` is no longer past Apple's cap.
  let times: Range<Int>
  private let issuedAt: Int

  /// What an inspection without failures found; nil if there was one.
  init?(_ inspection: Inspection, _ key: TrustedKey) {
    guard let issuedAt = inspection.issuedAt, let expiresAt = inspection.expiresAt else { return nil }
    let start = max(issuedAt, expiresAt - TokenPolicy.maximumLifetime)
    guard start < expiresAt else { return nil }
    (team, keyID) = (key.team.description, key.keyID.description)
    origins = inspection.origins.isEmpty ? nil : inspection.origins
    times = start..<expiresAt
    self.issuedAt = issuedAt
  }

  /// Why it is not good at that time.
  func reasonOutside(_ now: Int) -> String {
    if now >= times.upperBound { return "claims.exp.past: expired \(now - times.upperBound) s ago" }
    return now < issuedAt ? "claims.iat.future: issued \(issuedAt - now) s from now" : "claims.exp.cap.now"
  }
}
