import Dispatch
package import HTTPCache
package import HTTPMessages
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

    package init(upstream: String, nextHop: String) {
      (self.upstream, self.nextHop) = (upstream, nextHop)
    }
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
  /// The lock that one task holds while it signs a developer token.
  let minting = Locked(())
  /// Where a remote signer's tokens are minted, one after the other.
  let signing = DispatchQueue(label: "signer")
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
      admission.tokenSource = tokens
      admission.tokenSourceVersion += 1
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
        recentRefusals: admission.recentRefusals.count(now: now), counts: admission.counts,
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
      let waiter = CatalogWaiter(miss, for: .reply(receive), on: self)
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
    let waiter = CatalogWaiter(miss, for: .reply(receive), on: self)
    coalesce(waiter, at: now)
    return waiter
  }

  /// Refreshes a stale response in the background, and calls `done` at the end. Compresses a long response that is fresh.
  package func refresh(
    _ call: CatalogCall, for payer: QuotaCaller, by route: UpstreamRoute,
    then done: @escaping @Sendable () -> Void = {}
  ) {
    let finish: @Sendable () -> Void = {
      self.withState { _ = $0.revalidating.remove(call.key) }
      done()
    }
    let now = clock.now
    let lookup = lookUp(call, at: now, isRepeated: true)
    // It is only to be compressed, or another request has refreshed it already.
    if case .hit(let selection) = lookup {
      compressInTurns(selection.response, of: call, by: route)
      return finish()
    }
    let end = now.elapsed + configuration.timeouts.whole
    let miss = CatalogMiss(call, for: payer, after: lookup, waited: .zero, end: end, route: route)
    coalesce(CatalogWaiter(miss, for: .refresh(finish), on: self), at: now)
  }
}

/// What a gateway knows behind its lock: the flights, and what decides about requests to Apple.
struct GatewayState {
  var coalescer = RequestCoalescer<CatalogWaiter>()
  var unsharedTargets = UnsharedTargets()
  /// The keys of stale responses that background requests refresh.
  var revalidating: Set<CacheKey> = []
  var admission: Admission
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
