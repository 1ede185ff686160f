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
    let limit: ServiceLimit?

    /// Names the client to the metrics, and adds the remaining quota to the response, by the fields of
    /// draft-ietf-httpapi-ratelimit-headers.
    ///
    /// - Parameter showsLimit: Whether the response may have the quota.
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

  /// Identifies the caller and counts the request, if that needs no fetch of keys.
  ///
  /// - Parameter ignoresOwnOrigin: Whether the listener's own origin counts only if a client has it. A browser sends it
  ///   with every `POST` of the listener's own page, and never with a `GET`.
  func admit(_ request: Request, _ auditContext: AuditContext, ignoresOwnOrigin: Bool = false) -> DeferrableDecision {
    var presented = PresentedCredentials(request, to: policy, authorities: clientAuthorities)
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

  /// Warns of an API key that a program can guess. The settings have only its digest, so its first use shows its length.
  private func noteWeakKey(_ presented: PresentedCredentials, _ caller: Principal) {
    switch presented.credential {
    case .apiKey(let key), .bearer(let key):
      guard key.count < APIKeyForm.leastBytes, case .apiKeys = caller.client.credential else { return }
      service.warn(ofWeakKeyOf: caller.client.id)
    default: return
    }
  }

  /// Decides about a request after a wait, whether that succeeded or failed, on the loop of the request.
  func admit(after wait: Wait, _ auditContext: AuditContext, on loop: IOLoop) async -> AccessDecision {
    switch wait {
    case .store(let take, let caller): return await count(caller, auditContext, take, on: loop)
    case .keys(let wanted, let presented):
      let caller: Principal
      do throws(Denial) {
        caller = try await identify(presented, auditContext, after: wanted)
      } catch {
        return .refused(refuse(error, auditContext))
      }
      guard let take = strictTake(caller, auditContext) else { return count(caller, auditContext) }
      return await count(caller, auditContext, take, on: loop)
    }
  }

  /// Identifies the caller of a request that an operator describes, as `admit` does, but counts and records nothing.
  func identify(_ presented: PresentedCredentials, _ auditContext: AuditContext) async throws(Denial) -> Principal {
    switch identification(of: presented, auditContext, isDescribed: true) {
    case .known(let caller): return caller
    case .denied(let denial): throw denial
    case .keysWanted(let wanted):
      return try await identify(presented, auditContext, after: wanted, isDescribed: true)
    }
  }

  private func identify(
    _ presented: PresentedCredentials, _ auditContext: AuditContext, after wanted: AccessPolicy.WantedKeys,
    isDescribed: Bool = false
  ) async throws(Denial) -> Principal {
    await keys.refresh(wanted.sources, lacking: wanted.lacking)
    switch identification(of: presented, auditContext, after: wanted, isDescribed: isDescribed) {
    case .known(let caller): return caller
    case .denied(let denial): throw denial
    case .keysWanted(let wanted): throw wanted.denial
    }
  }

  /// - Parameter isDescribed: Whether an operator describes the request, so that nothing is postponed.
  private func identification(
    of presented: PresentedCredentials, _ auditContext: AuditContext, after wanted: AccessPolicy.WantedKeys? = nil,
    isDescribed: Bool = false
  ) -> AccessPolicy.Identification {
    // Only a bearer token can be a JWT or a developer token of this server. Both cost a signature to verify.
    guard case .bearer(let token)? = presented.credential else {
      return policy.identify(presented, now: Glibc.time(nil), after: wanted, keys: keys.present)
    }
    return identification(
      ofBearer: token, presented, auditContext, after: wanted,
      from: isDescribed ? nil : auditContext.rateLimitPrefix)
  }

  /// Identifies the caller by a bearer token. One that belongs to no client may be a developer token of this server: then
  /// the request counts as one without a credential.
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

  /// Identifies the caller by the policy. A JWT of an address with too many failed attempts is not judged, because its
  /// signature costs as much as many requests, unless the same JWT was valid lately.
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

  /// Returns the facts behind a denial, for the operator only.
  func particulars(of denial: Denial, _ presented: PresentedCredentials) -> [String] {
    policy.particulars(of: denial, presented, now: Glibc.time(nil), keys: keys.present)
  }

  private func count(_ caller: Principal, _ auditContext: AuditContext) -> AccessDecision {
    let client = caller.client
    guard !client.rates.isUnlimited else { return admit(caller, auditContext, .unlimited) }
    let verdict = service.limiter.take(
      client.rates, for: caller.identity(at: auditContext.rateLimitPrefix), now: Deadline.now.nanoseconds)
    return admit(caller, auditContext, verdict)
  }

  private func strictTake(_ caller: Principal, _ auditContext: AuditContext) -> StrictTake? {
    guard caller.client.rates.isStrict else { return nil }
    return service.limiter.strictTake(
      caller.client.rates, for: caller.identity(at: auditContext.rateLimitPrefix), now: Deadline.now.nanoseconds)
  }

  /// Counts a request by the store's decision, or by what this replica knows if the store does not respond in time.
  private func count(
    _ caller: Principal, _ auditContext: AuditContext, _ take: StrictTake, on loop: IOLoop
  ) async -> AccessDecision {
    guard let reply = await service.sharedRates?.reply(to: take, on: loop),
      let verdict = service.limiter.verdict(reply, on: take, now: Deadline.now.nanoseconds)
    else { return count(caller, auditContext) }
    return admit(caller, auditContext, verdict)
  }

  private func admit(_ caller: Principal, _ auditContext: AuditContext, _ verdict: RateVerdict) -> AccessDecision {
    switch verdict {
    case .unlimited: return .admitted(AuthorizedCaller(caller: caller, auditContext: auditContext, limit: nil))
    case .allowed(let limit):
      return .admitted(AuthorizedCaller(caller: caller, auditContext: auditContext, limit: limit))
    case .limited(let limit):
      let client = caller.client.id
      let subject = limit.policy == .total ? "All callers of client \(client) together" : "The caller"
      let denial = Denial(
        .rateLimited, limit.policy == .total ? "client_rate" : "caller_rate",
        "\(subject) exceeded the rate limit. Send the request again in \(limit.seconds) s.", retryAfter: limit.seconds,
        client: client)
      return .refused(refuse(denial, AuthorizedCaller(caller: caller, auditContext: auditContext, limit: limit)))
    }
  }

  /// Records that a caller got what it requested.
  ///
  /// - Parameter token: The developer token in the response, or nil.
  /// - Returns: The refusal if the grant cannot be recorded and `audit.required` is true; nil if the caller gets it.
  func grant(_ admitted: AuthorizedCaller, token: @autoclosure () -> AuditRecord.Token? = nil) -> Response? {
    let (client, auditContext) = (admitted.caller.client.id, admitted.auditContext)
    let isRecorded = service.record(auditContext.record(.granted, of: client, token: token()))
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
    var response = Self.response(denial, admitted.auditContext)
    admitted.mark(&response)
    return response
  }

  private func refuse(_ denial: Denial, _ auditContext: AuditContext) -> Response {
    let denial = slowedDown(denial, auditContext)
    record(denial, of: denial.client ?? "-", auditContext)
    return Self.response(denial, auditContext)
  }

  /// Records that a preflight request was refused, because its page then never sends the request itself. The counts
  /// leave it out, because the page may not have wanted anything that needs a decision.
  func refusePreflight(of origin: String, _ auditContext: AuditContext) {
    service.recordRefusal(
      auditContext.record(.refused, of: "-", reason: "origin_not_allowed", origin: origin),
      of: auditContext.rateLimitPrefix)
  }

  private static func response(_ denial: Denial, _ auditContext: AuditContext) -> Response {
    errorResponse(denial, auditContext).response(id: auditContext.id)
  }

  static func errorResponse(_ denial: Denial, _ auditContext: AuditContext) -> ErrorResponse {
    var response = denial.response
    if let hint = denial.hint, !auditContext.isOfApple { response.detail += " \(hint)" }
    if auditContext.isOfApple, response.status == .forbidden { response.status = .notFound }
    return response
  }

  /// Records that an operator asked for the decision about a request, which grants nothing. The record shows who uses
  /// the admin listener to find valid credentials. The counts leave it out, because no caller sent the request.
  func recordExplanation(client: String?, _ denial: Denial?, _ auditContext: AuditContext) {
    service.record(auditContext.record(.explained, of: client ?? "-", reason: denial?.reason, origin: denial?.origin))
  }

  /// Returns a 429 for an address with many invalid credentials. Only failed attempts count. A valid API key or
  /// certificate from the same address never has to wait, and neither does a JWT that was valid lately.
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
    service.recordRefusal(
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

  init(_ request: Request) {
    id = request.id
    trace = request.trace
    address = request.client.name
    rateLimitPrefix = request.client.rateLimitPrefix
    route = request.route ?? "-"
  }

  /// Whether the path is one of Apple's. Below `/v1/`, the server's own refusals are never 403, because apps take a 403
  /// as the sign to fetch a new music user token.
  var isOfApple: Bool { route.description.hasPrefix("/v1/") }

  /// Returns the record of a decision about the request. Inlined, because every grant and every refusal makes one.
  ///
  /// - Parameter client: The client's id in the settings; `-` if the caller belongs to no client.
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
