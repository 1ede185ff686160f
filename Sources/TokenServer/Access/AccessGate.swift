import Access
import Bytes
import EventLoop
import Glibc
import HTTP1
import HTTPMessages
import HTTPServer
import HTTPTypes
import Locks
import Telemetry
import Tracing

/// The gate of every request for a token or for the catalog, with the policy of one generation. It identifies the caller,
/// applies the rate limits, and writes the audit log. The ``Principal`` of a caller states what the caller may have.
struct AccessGate: Sendable {
  let policy: AccessPolicy
  let keys: KeySetTable
  /// The CAs for client certificates; nil for plain HTTP.
  let clientAuthorities: [UInt8]?
  /// Recognizes the developer tokens of this server, which count as no credential.
  let ownTokens: OwnDeveloperTokens
  let service: AccessService

  enum DeferrableDecision {
    case immediate(AccessDecision)
    case deferred(Wait)
  }

  enum Wait: Sendable {
    case keys(AccessPolicy.WantedKeys, PresentedCredentials)
    /// The decision of the replicas' store about the rates of a strict client.
    case store(StrictTake, Principal)
  }

  struct AuthorizedCaller: Sendable {
    let caller: Principal
    let auditContext: AuditContext
    /// The remaining quota of the caller; nil if it has no limit.
    fileprivate(set) var limit: ServiceLimit?

    /// Names the client to the metrics, and adds the quota by the fields of draft-ietf-httpapi-ratelimit-headers.
    func mark(_ response: inout Response, showsLimit: Bool = true) {
      response.client = caller.client.id
      guard showsLimit, let limit else { return }
      let policy = caller.client.rates.policyField ?? ""
      // The names and ends of both fields take 33 bytes.
      response.encoded.reserveRoom(for: policy.utf8.count + ServiceLimit.mostBytes + 33)
      if !policy.isEmpty { policy.withUTF8Bytes { response.encoded.append("RateLimit-Policy", $0) } }
      response.encoded.append("RateLimit", upTo: ServiceLimit.mostBytes) { $0.append(limit) }
    }
  }

  /// Identifies the caller and counts the request, if that needs no fetch of keys. With `ignoresOwnOrigin`, the listener's
  /// own origin counts only if a client has it: a browser sends it with every `POST` of the listener's page, and no `GET`.
  func admit(_ request: Request, _ auditContext: AuditContext, ignoresOwnOrigin: Bool = false) -> DeferrableDecision {
    var presented = PresentedCredentials(request, to: policy, certificate: certificate(of: request))
    if case .malformed? = presented.credential { presented = withoutOwnToken(request, auditContext) }
    if ignoresOwnOrigin, case .present(let origin) = presented.origin, !policy.mayRead(origin),
      OwnPageRule.isOwn(origin.description, request)
    {
      presented.origin = .absent
    }
    switch identification(of: presented, auditContext) {
    case .known(let caller):
      noteWeakKey(presented, caller)
      if let take = strictTake(caller, auditContext) { return .deferred(.store(take, caller)) }
      return .immediate(count(caller, auditContext))
    case .denied(let denial): return .immediate(.refused(refuse(denial, auditContext)))
    case .keysWanted(let wanted):
      guard keys.mayFetch(wanted.sources) else { return .immediate(.refused(refuse(wanted.denial, auditContext))) }
      // A slice would keep the whole head.
      return .deferred(.keys(wanted, presented.copied()))
    }
  }

  func certificate(of request: Request) -> PresentedCredentials.Credential? {
    request.clientCertificate.map { .init($0, authorities: clientAuthorities) }
  }

  /// Warns of an API key that a program can guess. The settings have only its digest, so its first use shows its length.
  private func noteWeakKey(_ presented: PresentedCredentials, _ caller: Principal) {
    guard case .apiKeys = caller.client.credential else { return }
    switch presented.credential {
    case .apiKey(let key), .bearer(let key):
      if key.count < APIKeyForm.leastBytes { service.warn(ofWeakKeyOf: caller.client.id) }
    default: return
    }
  }

  /// Responds after a wait, whether that succeeded or failed: with the refusal, or as `respond` does.
  func reply(
    after wait: Wait, _ auditContext: AuditContext,
    _ respond: @escaping @Sendable (AuthorizedCaller, RequestContext) -> Reply
  ) -> Reply {
    .deferred(
      DeferredWork { context in
        switch await admit(after: wait, auditContext, on: context.loop) {
        case .refused(let response): return response
        case .admitted(let admitted):
          switch respond(admitted, context) {
          case .immediate(let response): return response
          case .deferred(let work): return await work.perform(context)
          }
        }
      })
  }

  private func admit(after wait: Wait, _ auditContext: AuditContext, on loop: IOLoop) async -> AccessDecision {
    let caller: Principal
    let take: StrictTake?
    switch wait {
    case .store(let strict, let known): (take, caller) = (strict, known)
    case .keys(let wanted, let presented):
      do throws(Denial) { caller = try await identify(presented, auditContext, after: wanted) } catch {
        return .refused(refuse(error, auditContext))
      }
      take = strictTake(caller, auditContext)
    }
    // Without the store's decision in time, what this replica knows decides.
    guard let take, let reply = await service.sharedRates?.reply(to: take, on: loop),
      let verdict = service.limiter.verdict(reply, on: take, now: Deadline.now.nanoseconds)
    else { return count(caller, auditContext) }
    return admit(caller, auditContext, verdict)
  }

  /// Identifies the caller as `admit` does, after a fetch of the keys that it wanted. Counts and records nothing.
  func identify(
    _ presented: PresentedCredentials, _ auditContext: AuditContext, after wanted: AccessPolicy.WantedKeys? = nil
  ) async throws(Denial) -> Principal {
    if let wanted { await keys.refresh(wanted.sources, lacking: wanted.lacking) }
    switch identification(of: presented, auditContext, after: wanted) {
    case .known(let caller): return caller
    case .denied(let denial): throw denial
    // Only the first try wants keys.
    case .keysWanted(let wanted): return try await identify(presented, auditContext, after: wanted)
    }
  }

  private func identification(
    of presented: PresentedCredentials, _ auditContext: AuditContext, after wanted: AccessPolicy.WantedKeys? = nil
  ) -> AccessPolicy.Identification {
    // Only a bearer token can be a JWT or a developer token of this server. Both cost a signature to verify.
    guard case .bearer(let token)? = presented.credential else {
      return policy.identify(presented, now: Glibc.time(nil), after: wanted, keys: keys.present)
    }
    return identification(ofBearer: token, presented, auditContext, after: wanted)
  }

  /// Identifies the caller by a bearer token. A developer token of this server counts as no credential.
  @inline(never)
  private func identification(
    ofBearer token: ArraySlice<UInt8>, _ presented: PresentedCredentials, _ auditContext: AuditContext,
    after wanted: AccessPolicy.WantedKeys?
  ) -> AccessPolicy.Identification {
    let identification = judge(presented, auditContext, after: wanted)
    guard case .denied(var denial) = identification,
      denial.response.code == .invalidCredentials || denial.response.code == .rateLimited
    else { return identification }
    switch ownTokens.judge(token, now: Glibc.time(nil), mayVerify: { mayVerify(auditContext) }) {
    case .own:
      var rest = presented
      rest.credential = nil
      return judge(rest, auditContext, after: wanted)
    case .refused(let reason, let isGuess) where denial.response.code == .invalidCredentials:
      denial.response.detail = "\(reason) \(denial.response.detail)"
      denial.isGuess = isGuess
      return .denied(denial)
    case .refused, .other: return identification
    }
  }

  /// Identifies the caller by the policy. A JWT of an address with too many failed attempts is not judged, because its
  /// signature costs as much as many requests, unless the same JWT was valid lately.
  private func judge(
    _ presented: PresentedCredentials, _ auditContext: AuditContext, after wanted: AccessPolicy.WantedKeys?
  ) -> AccessPolicy.Identification {
    let limiter = service.limiter
    var judged: ArraySlice<UInt8>?
    let identification = policy.identify(
      presented, now: Glibc.time(nil), after: wanted,
      postpones: { token in
        guard !auditContext.isDescribed else { return nil }
        judged = token
        let (address, now) = (auditContext.rateLimitPrefix, Deadline.now.nanoseconds)
        guard let seconds = limiter.failureWait(of: address, now: now), !limiter.validJWTs.remembers(token, now: now)
        else { return nil }
        return Self.tooManyFailures("The server has not judged this one.", retryAfter: seconds)
      }, keys: keys.present)
    if case .known = identification, let judged { limiter.validJWTs.remember(judged, now: Deadline.now.nanoseconds) }
    return identification
  }

  private func count(_ caller: Principal, _ auditContext: AuditContext) -> AccessDecision {
    let rates = caller.client.rates
    guard !rates.isUnlimited else { return admit(caller, auditContext, .unlimited) }
    let verdict = service.limiter.take(
      rates, for: caller.identity(at: auditContext.rateLimitPrefix), now: Deadline.now.nanoseconds)
    return admit(caller, auditContext, verdict)
  }

  private func strictTake(_ caller: Principal, _ auditContext: AuditContext) -> StrictTake? {
    guard caller.client.rates.isStrict else { return nil }
    return service.limiter.strictTake(
      caller.client.rates, for: caller.identity(at: auditContext.rateLimitPrefix), now: Deadline.now.nanoseconds)
  }

  private func admit(_ caller: Principal, _ auditContext: AuditContext, _ verdict: RateVerdict) -> AccessDecision {
    var admitted = AuthorizedCaller(caller: caller, auditContext: auditContext, limit: nil)
    switch verdict {
    case .unlimited: return .admitted(admitted)
    case .allowed(let limit):
      admitted.limit = limit
      return .admitted(admitted)
    case .limited(let limit):
      admitted.limit = limit
      let client = caller.client.id
      let subject = limit.policy == .total ? "All callers of client \(client) together" : "The caller"
      let denial = Denial(
        .rateLimited, limit.policy == .total ? "client_rate" : "caller_rate",
        "\(subject) exceeded the rate limit. Send the request again in \(limit.seconds) s.", retryAfter: limit.seconds,
        client: client)
      return .refused(refuse(denial, admitted))
    }
  }

  /// Records that a caller got what it requested, with the developer token in the response, if any. Returns the refusal if
  /// the grant cannot be recorded and `audit.required` is true; nil if the caller gets it.
  func grant(_ admitted: AuthorizedCaller, token: @autoclosure () -> AuditRecord.Token? = nil) -> Response? {
    let client = admitted.caller.client.id
    let isRecorded = service.audit.record(admitted.auditContext.record(.granted, of: client, token: token()))
    guard isRecorded else { return refuse(Self.unrecordable, admitted) }
    service.tally.withLock { $0.count(client: client, .granted, reason: nil) }
    return nil
  }

  private static let unrecordable = Denial(
    .auditUnavailable, "not_recorded",
    "The server cannot record grants at present, and grants nothing without a record. Send the request again in 5 s.",
    retryAfter: 5)

  /// Records a refusal after admission, and returns the response.
  func refuse(_ denial: Denial, _ admitted: AuthorizedCaller) -> Response {
    record(denial, of: admitted.caller.client.id, admitted.auditContext)
    var response = Self.errorResponse(denial, admitted.auditContext).response(id: admitted.auditContext.id)
    admitted.mark(&response)
    return response
  }

  private func refuse(_ denial: Denial, _ auditContext: AuditContext) -> Response {
    let denial = slowedDown(denial, auditContext)
    record(denial, of: denial.client ?? "-", auditContext)
    return Self.errorResponse(denial, auditContext).response(id: auditContext.id)
  }

  /// Records that a preflight request was refused, because its page then never sends the request itself. The counts
  /// leave it out, because the page may not have wanted anything that needs a decision.
  func refusePreflight(of origin: String, _ auditContext: AuditContext) {
    service.audit.recordRefusal(
      auditContext.record(.refused, of: "-", reason: "origin_not_allowed", origin: origin),
      of: auditContext.rateLimitPrefix)
  }

  static func errorResponse(_ denial: Denial, _ auditContext: AuditContext) -> ErrorResponse {
    var response = denial.response
    if let hint = denial.hint, !auditContext.isOfApple { response.detail += " \(hint)" }
    if auditContext.isOfApple, response.status == .forbidden { response.status = .notFound }
    return response
  }

  /// Records that an operator asked for the decision about a request: the record shows who uses the admin listener to find
  /// valid credentials. The counts leave it out, because no caller sent the request.
  func recordExplanation(client: String?, _ denial: Denial?, _ auditContext: AuditContext) {
    service.audit.record(
      auditContext.record(.explained, of: client ?? "-", reason: denial?.reason, origin: denial?.origin))
  }

  /// Returns a 429 for an address with many invalid credentials. A valid API key or certificate from the same address
  /// never has to wait, and neither does a JWT that was valid lately.
  private func slowedDown(_ denial: Denial, _ auditContext: AuditContext) -> Denial {
    guard denial.isGuess else { return denial }
    let (address, now) = (auditContext.rateLimitPrefix, Deadline.now.nanoseconds)
    for _ in 1..<denial.attempts { _ = service.limiter.takeFailure(from: address, now: now) }
    guard let seconds = service.limiter.takeFailure(from: address, now: now) else { return denial }
    return Self.tooManyFailures(
      denial.response.detail, retryAfter: seconds, client: denial.client, origin: denial.origin)
  }

  private static func tooManyFailures(
    _ detail: String, retryAfter seconds: Int, client: String? = nil, origin: String? = nil
  ) -> Denial {
    Denial(
      .rateLimited, "failed_attempts",
      "This address sent too many invalid credentials. \(detail) Send a valid one in \(seconds) s.",
      retryAfter: seconds, client: client, origin: origin)
  }

  private func record(_ denial: Denial, of client: String, _ auditContext: AuditContext) {
    let outcome: AuditOutcome = denial.response.code == .rateLimited ? .limited : .refused
    service.tally.withLock { $0.count(client: client, outcome, reason: denial.reason) }
    service.audit.recordRefusal(
      auditContext.record(outcome, of: client, reason: denial.reason, origin: denial.origin),
      of: auditContext.rateLimitPrefix)
  }
}

enum AccessDecision {
  case admitted(AccessGate.AuthorizedCaller)
  case refused(Response)
}

/// The facts of a request that the audit log needs, even after the request ends.
struct AuditContext: Sendable {
  let id: RequestID
  let trace: RequestTrace
  let address: String
  /// The address for rate limits: an IPv4 address, an IPv6 network of /64, or `unix`.
  let rateLimitPrefix: String
  let route: StaticString
  /// Whether an operator describes the request, so that none of its credentials is postponed.
  let isDescribed: Bool

  init(_ request: Request, isDescribed: Bool = false) {
    (id, trace, address) = (request.id, request.trace, request.client.name)
    (rateLimitPrefix, route) = (request.client.rateLimitPrefix, request.route ?? "-")
    self.isDescribed = isDescribed
  }

  /// Whether the path is one of Apple's: there a refusal is never 403, which apps take for an invalid music user token.
  var isOfApple: Bool { route.description.hasPrefix("/v1/") }

  /// Returns the record of a decision about the request of a client, or `-`. Inlined, because every decision makes one.
  @inline(__always)
  func record(
    _ outcome: AuditOutcome, of client: String, reason: StaticString? = nil, origin: String? = nil,
    token: AuditRecord.Token? = nil
  ) -> AuditRecord {
    AuditRecord(
      requestID: id, trace: trace, client: client, address: address, route: route, outcome: outcome, reason: reason,
      origin: origin, token: token)
  }
}
