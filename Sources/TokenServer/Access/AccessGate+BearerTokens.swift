import Access
import EventLoop
import Glibc
import HTTPMessages
import HTTPServer

/// Bearer tokens: JWTs of identity providers, and developer tokens of this server. Both cost a signature to verify.
extension AccessGate {
  /// Identifies the caller. A JWT of an address with too many failed attempts is not judged, because its signature costs
  /// as much as many requests, unless the same JWT was valid lately.
  ///
  /// - Parameter address: The address for rate limits; nil for a request that an operator describes.
  private func judge(
    _ presented: PresentedCredentials, after wanted: AccessPolicy.WantedKeys?, from address: String?
  ) -> AccessPolicy.Identification {
    let limiter = service.limiter
    var judged: ArraySlice<UInt8>?
    let identification = policy.identify(
      presented, now: Glibc.time(nil), after: wanted,
      postpones: { token in
        guard let address else { return nil }
        judged = token
        let now = Deadline.now.nanoseconds
        guard let seconds = limiter.failureWait(of: address, now: now), !limiter.validJWTs.remembers(token, now: now)
        else { return nil }
        return Self.tooManyFailures("The server has not judged this one.", retryAfter: seconds)
      }, keys: keys.present)
    if case .known = identification, let judged {
      limiter.validJWTs.remember(judged, now: Deadline.now.nanoseconds)
    }
    return identification
  }

  /// Identifies the caller by the policy. A bearer token that belongs to no client may be a developer token of this
  /// server: then the request counts as one without a credential.
  ///
  /// - Parameter isDescribed: Whether an operator describes the request, so that nothing is postponed.
  func identification(
    of presented: PresentedCredentials, _ auditContext: AuditContext, after wanted: AccessPolicy.WantedKeys? = nil,
    isDescribed: Bool = false
  ) -> AccessPolicy.Identification {
    // Only a bearer token can be a JWT or a developer token.
    guard case .bearer(let token)? = presented.credential else {
      return policy.identify(presented, now: Glibc.time(nil), after: wanted, keys: keys.present)
    }
    return identification(
      ofBearer: token, presented, auditContext, after: wanted,
      from: isDescribed ? nil : auditContext.rateLimitPrefix)
  }

  @inline(never)
  private func identification(
    ofBearer token: ArraySlice<UInt8>, _ presented: PresentedCredentials, _ auditContext: AuditContext,
    after wanted: AccessPolicy.WantedKeys?, from address: String?
  ) -> AccessPolicy.Identification {
    let identification = judge(presented, after: wanted, from: address)
    guard case .denied(var denial) = identification,
      denial.response.code == .invalidCredentials || denial.response.code == .rateLimited
    else { return identification }
    switch ownTokens.judge(token, now: Glibc.time(nil), mayVerify: { mayVerify(auditContext) }) {
    case .own:
      var rest = presented
      rest.credential = nil
      return judge(rest, after: wanted, from: address)
    case .refused(let reason, let isGuess) where denial.response.code == .invalidCredentials:
      denial.response.detail = "\(reason) \(denial.response.detail)"
      denial.isGuess = isGuess
      return .denied(denial)
    case .refused, .other: return identification
    }
  }

  /// Returns whether a bearer token is a developer token of this server, which counts as no credential.
  func isOwn(_ token: ArraySlice<UInt8>, _ auditContext: AuditContext) -> Bool {
    ownTokens.judge(token, now: Glibc.time(nil), mayVerify: { mayVerify(auditContext) }) == .own
  }

  /// Returns whether an address may cause another verification of a developer token: as many as it may have failures, so
  /// that forged tokens cannot use up processor time.
  private func mayVerify(_ auditContext: AuditContext) -> Bool {
    let verdict = service.verifications.take(
      Self.verifications, for: .address(auditContext.rateLimitPrefix), now: Deadline.now.nanoseconds)
    if case .limited = verdict { return false }
    return true
  }

  private static let verifications = ClientRates(client: "verifications", perCaller: RateLimits.failures, total: nil)

  /// Reads the credentials of a request again, as if it had no developer token of this server beside another credential.
  ///
  /// Apart from `admit`, because what a closure captures there costs every request 600 instructions.
  @inline(never)
  func withoutOwnToken(_ request: Request, _ auditContext: AuditContext) -> PresentedCredentials {
    PresentedCredentials(request, to: policy, authorities: clientAuthorities) { isOwn($0, auditContext) }
  }
}
