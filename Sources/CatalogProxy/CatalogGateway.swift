import HTTP1
package import HTTPCache
package import HTTPMessages
package import HTTPTypes
import Locks
package import Memory
import Synchronization
package import UpstreamAdmission

/// The gateway to Apple's catalog for callers without a developer token. All event loops of the process share it.
///
/// A request passes ten phases (docs/architecture.md):
///
///     1 identify (AccessGate), 2 parse (CatalogTarget, HeaderPolicy): before the request becomes a CatalogCall
///     3 lookUp (ResponseCache) ─ 4 coalesce (RequestCoalescer)
///     5 admit (ConcurrencyLimit, UpstreamCircuit) ─ 6 authorize (ProxyToken) ─ 7 send (Upstream)
///     8 evaluate (RetryPolicy, TokenRefreshPolicy), again from 5 if another attempt is useful
///     9 store (ResponseCache) ─ 10 reply
///
/// ``start(_:for:content:contentLength:waited:by:then:)`` calls 3 and 4. From then on the request is a ``Flight``, with one
/// caller (``CatalogWaiter``) or several, and ``FlightDriver`` takes it through the others. The policies (circuit, limit,
/// retries, token refresh) are values that take the time as an argument. The gateway holds them behind a lock.
package final class CatalogGateway: Sendable {
  package struct Configuration: Sendable {
    /// Scheme and authority of the upstream, such as `https://api.music.apple.com`.
    package var upstream: String
    /// The upstream's host, for `Proxy-Status` and the text of errors.
    package var nextHop: String
    package var timeouts = UpstreamTimeouts(connect: .seconds(5), firstByte: .seconds(10), whole: .seconds(30))
    /// The longest time that a caller waits if the cache has a usable stale response.
    package var staleAfter: Duration = .milliseconds(500)
    package var cache = CacheSettings()
    package var concurrency = ConcurrencyLimits()
    /// The budget for responses while the gateway waits for the rest of them.
    package var memory = MemoryBudget.unlimited()

    package init(upstream: String, nextHop: String) { (self.upstream, self.nextHop) = (upstream, nextHop) }
  }

  let configuration: Configuration
  package let policy: HeaderPolicy
  let observer: any CatalogObserver
  let clock: CatalogClock
  package let cache: ResponseCache
  /// The server does not send a request with less time left than this: a response would hardly arrive in time.
  let leastTime: Duration

  /// Whether every caller may have the catalog, so that any cache may keep the responses.
  private let isPublic = Atomic(false)
  private let state: Locked<GatewayState>

  package init(_ configuration: Configuration, observer: any CatalogObserver, clock: CatalogClock = .system) {
    (self.configuration, self.observer, self.clock) = (configuration, observer, clock)
    policy = HeaderPolicy(upstream: configuration.upstream)
    cache = ResponseCache(settings: configuration.cache)
    leastTime = min(.seconds(1), configuration.timeouts.whole / 4)
    state = Locked(GatewayState(admission: Admission(configuration.concurrency, leastTime: leastTime)))
  }

  /// Reads or changes the state under the lock, and then does what that requires. The closure must be short. It must not
  /// wait or call other components.
  func withState<Result>(_ body: (inout GatewayState) -> sending Result) -> sending Result {
    let (result, duties) = state.withLock { state in (body(&state), state.admission.duties.take()) }
    if let duties { perform(duties) }
    return result
  }

  /// Reads or changes what decides about requests to Apple, like ``withState(_:)``.
  func withAdmission<Result>(_ body: (inout Admission) -> sending Result) -> sending Result {
    withState { body(&$0.admission) }
  }

  /// Sets the source of developer tokens from now on. Without a source, the gateway sends no request.
  package func use(_ tokens: any TokenSource) {
    withAdmission { admission in
      admission.tokenMint = TokenMint(source: tokens, serial: (admission.tokenMint?.serial ?? 0) + 1)
      admission.token = nil
      admission.tokenAcceptedAt = nil
      admission.hasNewKey = true
    }
  }

  /// Sets whether every caller may have the catalog, so that any cache may keep the responses. A change drops all stored
  /// responses.
  package func setPublic(_ isPublic: Bool) {
    if self.isPublic.exchange(isPublic, ordering: .acquiringAndReleasing) != isPublic { cache.removeAll() }
  }

  var cacheSettings: CacheSettings {
    var settings = configuration.cache
    settings.isPublic = isPublic.load(ordering: .acquiring)
    return settings
  }

  package var status: CatalogStatus {
    let now = clock.elapsed
    return withAdmission { admission in
      CatalogStatus(
        isTokenRejected: admission.tokenRefresh.isDegraded, tokenAcceptedAt: admission.tokenAcceptedAt,
        isCircuitOpen: !admission.circuit.isClosed,
        limit: admission.limit.limit,
        inFlight: admission.limit.inFlight, waiting: admission.limit.waiting,
        clockSkew: admission.clockSkew.seconds(now: now), rate: admission.limit.rate,
        isPaused: admission.limit.isPaused(now: now),
        recentRefusals: admission.limit.recentRefusals(now: now), counts: admission.counts,
        clients: admission.limit.clientCounts,
        cache: cache.statistics)
    }
  }

  /// Returns the response, or nil if it requires a request to Apple. Calls `refresh` if the response is stale, or if it is
  /// long and not compressed yet: call ``refresh(_:for:by:then:)``.
  package func respondImmediately(_ call: CatalogCall, refresh: () -> Void) -> CatalogReply? {
    guard call.isCacheable else { return nil }
    let now = clock.now
    return reply(to: call, from: lookUp(call, at: now), at: now, refresh: refresh)
  }

  /// Handles a request for which ``respondImmediately(_:refresh:)`` returned nil, and charges the quota to `payer`. `receive`
  /// takes the reply, once: within this call, later on the route's loop, or on the thread that cancels. Cancellation of the
  /// work ends this caller's wait; a shared request continues for the others. Returns nil if `receive` has the reply.
  package func start(
    _ call: CatalogCall, for payer: QuotaCaller, content: (any ContentReader)? = nil, contentLength: Int? = nil,
    waited: Duration = .zero, by route: UpstreamRoute,
    then receive: @escaping @Sendable (consuming CatalogReply) -> Void
  ) -> (any CancellableWork)? {
    let now = clock.now
    let end = now.elapsed + configuration.timeouts.whole
    guard call.isCacheable else {
      if call.directives.onlyIfCached {
        receive(.failure(UpstreamFailure.onlyIfCached.response(CacheStatus(.unforwarded))))
        return nil
      }
      let miss = CatalogMiss(call, for: payer, after: nil, waited: waited, end: end, route: route)
      let waiter = CatalogWaiter(miss, on: self, then: receive)
      waiter.fly(.passed, content: content, contentLength: contentLength)
      return waiter
    }
    // Another request may have stored the response since the first lookup.
    let lookup = lookUp(call, at: now, isRepeated: true)
    // This caller waits for the response itself, so no background request refreshes it.
    let forget = { self.withState { _ = $0.revalidating.remove(call.key) } }
    if let reply = reply(to: call, from: lookup, at: now, refresh: forget) {
      receive(reply)
      return nil
    }
    let miss = CatalogMiss(call, for: payer, after: lookup, waited: waited, end: end, route: route)
    let waiter = CatalogWaiter(miss, on: self, then: receive)
    coalesce(waiter, at: now)
    return waiter
  }

  /// Refreshes a stale response in the background, and calls `done` at the end. Compresses a long response that is fresh.
  package func refresh(
    _ call: CatalogCall, for payer: QuotaCaller, by route: UpstreamRoute,
    then done: @escaping @Sendable () -> Void = {}
  ) {
    let finish: @Sendable (consuming CatalogReply) -> Void = { _ in
      self.withState { _ = $0.revalidating.remove(call.key) }
      done()
    }
    let now = clock.now
    let lookup = lookUp(call, at: now, isRepeated: true)
    // It is only to be compressed, or another request has refreshed it already.
    if case .hit(let selection) = lookup {
      compressInTurns(selection.response, of: call, by: route)
      return finish(.cancelled)
    }
    let end = now.elapsed + configuration.timeouts.whole
    let miss = CatalogMiss(call, for: payer, after: lookup, waited: .zero, end: end, route: route)
    coalesce(CatalogWaiter(miss, isRefresh: true, on: self, then: finish), at: now)
  }
}

/// The upstream connections of one event loop, and that loop.
package final class UpstreamRoute: Sendable {
  package let upstream: any Upstream
  package let executor: any TaskExecutor
  /// The cache that this replica shares with others; nil without one.
  package let shared: (any SharedCache)?

  package init(_ upstream: any Upstream, executor: any TaskExecutor, shared: (any SharedCache)? = nil) {
    (self.upstream, self.executor, self.shared) = (upstream, executor, shared)
  }
}

package struct CatalogClock: Sendable {
  private let read: @Sendable () -> CacheTime

  package init(_ read: @escaping @Sendable () -> CacheTime) { self.read = read }

  package static let system = CatalogClock { .now }

  var now: CacheTime { read() }
  var elapsed: Duration { read().elapsed }
}

extension CacheTime {
  var elapsed: Duration { .nanoseconds(Int64(monotonic)) }
}

/// Phases 3 and 10: the lookup in the cache, and the reply to the caller.
extension CatalogGateway {
  func lookUp(_ call: CatalogCall, at now: CacheTime, isRepeated: Bool = false) -> Lookup {
    cache.lookup(call.key, sending: call.fields, request: call.directives, now: now, isRepeated: isRepeated)
  }

  func reply(to call: CatalogCall, from lookup: Lookup, at now: CacheTime, refresh: () -> Void) -> CatalogReply? {
    switch lookup {
    case .hit(let selection):
      if call.coding == .gzip, selection.response.awaitsCompression, selection.response.isLong { refresh() }
      cache.countHit()
      return .response(hit(selection, call, at: now))
    case .staleWhileRevalidate(let selection):
      if withState({ $0.revalidating.insert(call.key).inserted }) { refresh() }
      cache.countHit()
      return .response(hit(selection, call, at: now))
    case .unsatisfiable: return .failure(UpstreamFailure.onlyIfCached.response(CacheStatus(.unforwarded)))
    case .validate, .miss: return nil
    }
  }

  private func hit(
    _ selection: Selection, _ call: CatalogCall, _ detail: String? = nil, at now: CacheTime
  ) -> Response {
    var status = CacheStatus(.hit, timeToLive: selection.timeToLive)
    status.detail = detail
    return fromCache(selection, to: call, status, at: now, isValidated: false)
  }

  @inline(never)
  func reply(to miss: CatalogMiss, _ outcome: Outcome, isCollapsed: Bool) -> CatalogReply {
    let (call, now) = (miss.call, clock.now)
    var status = CacheStatus(.forwarded(miss.reason))
    status.isCollapsed = isCollapsed
    switch outcome {
    case .response(let response, let isStored, let forwardStatus):
      let selection = Selection(response, now: now)
      (status.isStored, status.forwardStatus) = (isStored, forwardStatus)
      if isStored { status.timeToLive = selection.timeToLive }
      // For other replicas, ``share(_:of:as:at:)`` compresses it.
      if isStored, response.isLong, call.coding == .gzip, miss.route.shared == nil {
        compressInTurns(response, of: call, by: miss.route)
      }
      return .response(fromCache(selection, to: call, status, at: now, isValidated: true))
    case .found(let response):
      return .response(hit(Selection(response, now: now), call, "shared", at: now))
    case .stream(let response): return .response(passThrough(response, to: call, status))
    case .failure(let failure, mayBeReplaced: false): return .failure(failure.response(status))
    case .failure(let failure, mayBeReplaced: true):
      return serveStale(stored(for: miss, at: now), for: failure, to: call, status, at: now)
    case .late:
      guard let stored = miss.stored else { return .cancelled }
      withAdmission { $0.counts.staleWhileWaiting += 1 }
      return .response(stale(stored.response, to: call, status, "stale-after", at: now))
    case .alone, .unshared, .cancelled: return .cancelled
    }
  }

  /// The stored response that may replace a failure. Another replica may have stored it since the lookup.
  private func stored(for miss: CatalogMiss, at now: CacheTime) -> Selection? {
    miss.stored ?? (miss.route.shared == nil ? nil : lookUp(miss.call, at: now, isRepeated: true).stored)
  }

  /// Returns a stale response that replaces the failure (RFC 5861 §4) and is marked as stale, or else the failure.
  private func serveStale(
    _ stored: Selection?, for failure: UpstreamFailure, to call: CatalogCall, _ status: CacheStatus, at now: CacheTime
  ) -> CatalogReply {
    var status = status
    status.forwardStatus = failure.proxyStatus.receivedStatus
    guard let stored, Selection(stored.response, now: now).mayServeOnError(call.directives) else {
      return .failure(failure.response(status))
    }
    withAdmission { $0.counts.staleOnError += 1 }
    var response = stale(stored.response, to: call, status, "stale-if-error", at: now)
    response.fields[.proxyStatus] = failure.proxyStatus.fieldValue
    if let replaced = failure.error.replaced { response.note(replaced) }
    return .response(response)
  }

  /// Returns a response for a request that the server has no time to forward: a stored one that may replace an error
  /// (RFC 5861 §4). Nil without one.
  package func staleReply(to call: CatalogCall) -> CatalogReply? {
    guard call.isCacheable else { return nil }
    let now = clock.now
    guard let stored = lookUp(call, at: now, isRepeated: true).stored, stored.mayServeOnError(call.directives) else {
      return nil
    }
    withAdmission { $0.counts.staleOnError += 1 }
    return .response(hit(stored, call, "stale-if-error", at: now))
  }

  private func stale(
    _ stored: StoredResponse, to call: CatalogCall, _ status: CacheStatus, _ detail: String, at now: CacheTime
  ) -> Response {
    let selection = Selection(stored, now: now)
    var status = status
    status.timeToLive = selection.timeToLive
    status.detail = detail
    return fromCache(selection, to: call, status, at: now, isValidated: false)
  }

  private func fromCache(
    _ selection: Selection, to call: CatalogCall, _ status: CacheStatus, at now: CacheTime, isValidated: Bool
  ) -> Response {
    var response = selection.response
    if call.coding == .gzip, response.awaitsCompression { response = cache.compress(response, for: call.key) }
    let representation = response.representation(call.coding)
    let encoded = selection.fields(status, isValidated: isValidated)
    if response.isNotModified(call.preconditions, now: now) {
      return Response(.notModified, prepared: representation.notModified, encoded: encoded)
    }
    return Response(
      response.status, prepared: representation.fields, encoded: encoded, body: representation.body)
  }

  /// Compresses a long stored response, a part in each turn of the loop. Then calls `done` with the response.
  func compressInTurns(
    _ response: StoredResponse, of call: CatalogCall, by route: UpstreamRoute,
    then done: @escaping @Sendable (StoredResponse) -> Void = { _ in }
  ) {
    guard response.isLong, let work = cache.beginCompression(of: response, for: call.key) else { return done(response) }
    advance(work, by: route, then: done)
  }

  private func advance(
    _ work: ResponseCompression, by route: UpstreamRoute, then done: @escaping @Sendable (StoredResponse) -> Void
  ) {
    if let response = work.advance() { return done(response) }
    // The least time after which a timer ends in another turn: one that is due ends in the present turn.
    _ = route.upstream.alarm(after: .nanoseconds(1)) { self.advance(work, by: route, then: done) }
  }

  func passThrough(_ response: UpstreamResponse, to call: CatalogCall, _ status: CacheStatus) -> Response {
    var encoded = FieldSection.empty
    encoded.append(policy.responseFields(response.fields, version: response.version)) { _, _ in true }
    let isUncacheable = call.target.wantsUserToken || call.target.kind == .test
    encoded.append("Cache-Control", isUncacheable ? "no-store" : "private, no-cache")
    encoded.append(HTTPField(name: .cacheStatus, value: status.fieldValue))
    encoded.append("X-Content-Type-Options", "nosniff")
    // Apple's content is data. A browser that opens it runs nothing, whatever it contains.
    encoded.append("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
    var passed = Response(response.status, encoded: encoded)
    (passed.stream, passed.streamLength) = (response.content, response.contentLength)
    return passed
  }
}

extension CacheOwner {
  init(_ subject: CircuitSubject) { self.init(client: subject.client, caller: subject.caller) }
}

extension HTTPField.Name {
  /// The field that describes what caches did (RFC 9211).
  package static let cacheStatus = HTTPField.Name.literal("Cache-Status")
}
