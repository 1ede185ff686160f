import HTTP1
public import HTTPCache
public import HTTPMessages
import HTTPTypes
import Locks
public import Memory
public import UpstreamAdmission

/// Apple's catalog for callers who hold no developer token: one for the process, shared by its event loops.
///
/// A request passes through these phases, each in a file of its own:
///
///     judged (CatalogTarget) ─ cached? (ResponseCache) ─ collapsed (RequestCoalescer) ─ admitted (ConcurrencyLimit, UpstreamCircuit)
///     ─ authorized (ProxyToken) ─ sent (Upstream) ─ judged again (RetryPolicy, TokenRefreshPolicy) ─ stored ─ answered
///
/// Everything that decides is a value that is given the time; this object holds those values behind a lock and does the
/// waiting between them.
public final class CatalogGateway: Sendable {
  /// What a proxy is made with.
  public struct Configuration: Sendable {
    /// Scheme and authority of the upstream: `https://api.music.apple.com`.
    public var upstream: String
    /// The upstream's host, for errors.
    public var nextHop: String
    /// How long one request may take.
    public var timeouts = UpstreamTimeouts(connect: .seconds(5), firstByte: .seconds(10), whole: .seconds(30))
    /// How long a caller waits for whom there is a usable stale response.
    public var staleAfter: Duration = .milliseconds(500)
    /// What is kept, and for how long.
    public var cache = CacheSettings()
    /// How many requests may be at the upstream, and wait for that.
    public var concurrency = ConcurrencyLimits()
    /// What is charged for responses that are being collected.
    public var memory = MemoryBudget.unlimited()

    /// A configuration with the defaults.
    public init(upstream: String, nextHop: String) {
      self.upstream = upstream
      self.nextHop = nextHop
    }
  }

  let configuration: Configuration
  /// What passes between callers and the upstream.
  public let policy: HeaderPolicy
  let observer: any CatalogObserver
  let clock: CatalogClock
  /// What is kept of responses.
  public let cache: ResponseCache

  /// Held while a developer token is signed.
  let minting = Locked(())
  private let state: Locked<State>

  /// All that decides, and all who wait.
  struct State {
    var flights = RequestCoalescer<OneShot<Outcome>>()
    var tasks: [FlightID: Task<Void, Never>] = [:]
    var unshared = UnsharedTargets()
    var limit: ConcurrencyLimit<OneShot<Admission>>
    /// Whether a task lets requests go at the pacer's times, and by which way it waits.
    var isPacing = false
    var pacingRoute: UpstreamRoute?
    var expiries = DeadlineQueue()
    /// Responses that background requests are refreshing.
    var revalidating: Set<CacheKey> = []
    var circuit = UpstreamCircuit()
    var budget = RetryBudget()
    let retries = RetryPolicy()
    var random = SystemRandomNumberGenerator()
    var remint = TokenRefreshPolicy()
    var token: ProxyToken?
    var tokens: (any TokenSource)?
    /// Counts the changes of `tokens`.
    var tokensSerial = 0
    /// The tokens that come now are signed with another key than the last one was.
    var hasNewKey = true
    var isPublic = false
    var skew = ClockSkew()
    var counts = CatalogCounts()
    /// For each client; their names are the operator's.
    var clientCounts: [String: ClientCounts] = [:]
    var recentRefusals = RecentRefusals()
  }

  /// A proxy that has asked for nothing yet.
  ///
  /// - Parameters:
  ///   - observer: Who hears of what the operator should know.
  public init(
    _ configuration: Configuration, observer: any CatalogObserver, clock: CatalogClock = .system
  ) {
    self.configuration = configuration
    self.observer = observer
    self.clock = clock
    policy = HeaderPolicy(upstream: configuration.upstream)
    cache = ResponseCache(settings: configuration.cache)
    state = Locked(State(limit: ConcurrencyLimit(configuration.concurrency)))
  }

  /// Changes or reads the state under the lock. The closure must be short, must not call other components, and must not
  /// wait.
  func withState<Result>(_ body: (inout sending State) -> sending Result) -> sending Result {
    state.withLock(body)
  }

  /// From now on developer tokens come from `tokens`. Without any, nothing goes upstream.
  public func use(_ tokens: any TokenSource) {
    withState { state in
      state.tokens = tokens
      state.tokensSerial += 1
      state.token = nil
      state.hasNewKey = true
    }
  }

  /// From now on the responses are for anybody, or are not: those that are kept say otherwise, and are forgotten.
  public func share(publicly isPublic: Bool) {
    let hasChanged = withState { state in
      defer { state.isPublic = isPublic }
      return state.isPublic != isPublic
    }
    if hasChanged { cache.removeAll() }
  }

  /// How responses that come now are kept.
  var cacheSettings: CacheSettings {
    var settings = configuration.cache
    settings.isPublic = withState { $0.isPublic }
    return settings
  }

  /// How it is, for readiness and metrics.
  public var status: CatalogStatus {
    let now = clock.elapsed
    return withState { state in
      CatalogStatus(
        isTokenRejected: state.remint.isDegraded, isCircuitOpen: !state.circuit.isClosed, limit: state.limit.limit,
        inFlight: state.limit.inFlight, waiting: state.limit.waiting,
        clockSkew: state.skew.seconds(now: now), rate: state.limit.rate, isPaused: state.limit.isPaused(now: now),
        recentRefusals: state.recentRefusals.count(now: now), counts: state.counts, clients: state.clientCounts,
        cache: cache.statistics)
    }
  }
}

/// Hears of what the operator should know. Called on an event loop: it must not block.
public protocol CatalogObserver: Sendable {
  /// Something happened.
  func noticed(_ notice: CatalogNotice)
}

/// Something about the upstream that the operator should know. There is no secret in it.
public enum CatalogNotice: Sendable {
  /// Apple refuses the developer token, and also a fresh one. A sentence says the likely reason.
  case tokenRejected(TokenRejection)
  /// Apple takes our tokens again.
  case tokenAccepted
  /// No developer token can be made; a sentence says why.
  case tokenFailed(String)
  /// The head of a response came, so long after the attempt began.
  case responded(after: Duration)
  /// An exchange failed; a sentence says how.
  case exchangeFailed(UpstreamError)
  /// The upstream answered 5xx.
  case upstreamStatus(Int)
  /// The upstream answered 429: the team's quota is used up for the moment.
  ///
  /// - Parameter rate: The estimated rate that the quota allows, in requests a second.
  case limited(rate: Double)
  /// The upstream has failed repeatedly, and is asked only now and then.
  case circuitOpened
  /// The upstream is back.
  case circuitClosed
}

/// How the proxy is at a moment.
public struct CatalogStatus: Sendable {
  /// Apple refuses our developer token.
  public let isTokenRejected: Bool
  /// The upstream has failed repeatedly and is not asked for now.
  public let isCircuitOpen: Bool
  /// How many requests may be at the upstream at once.
  public let limit: Int
  /// How many are.
  public let inFlight: Int
  /// How many wait for their turn.
  public let waiting: Int
  /// Seconds by which the upstream's clock is ahead, as little as its latest responses allow.
  public let clockSkew: Int
  /// The requests a second that Apple's quota allows, estimated from 429s; nil before the first one.
  public let rate: Double?
  /// Whether nothing is sent for a moment, after a 429.
  public let isPaused: Bool
  /// 429s of the last minute.
  public let recentRefusals: Int
  /// Sums since the start.
  public let counts: CatalogCounts
  /// The same for each client that has sent anything, by its id in the settings.
  public let clients: [String: ClientCounts]
  /// What the cache holds.
  public let cache: CacheStatistics

  /// The part of the limit that is in use, from 0 to 1; a limit that has just fallen may be exceeded.
  public var saturation: Double { limit > 0 ? min(Double(inFlight) / Double(limit), 1) : 1 }
}

/// What has happened since the start.
public struct CatalogCounts: Sendable, Equatable {
  /// Requests sent to the upstream, retries among them.
  public var attempts = 0
  /// Attempts behind the first one of a request.
  public var retries = 0
  /// 401 to a developer token.
  public var tokenRejections = 0
  /// Developer tokens minted for the upstream.
  public var tokensMinted = 0
  /// 429.
  public var limited = 0
  /// 5xx, and exchanges that failed.
  public var failures = 0
  /// Responses from the cache, fresh or stale.
  public var hits = 0
  /// Cacheable requests that the cache could not answer.
  public var misses = 0
  /// Requests that shared another's response.
  public var collapsed = 0
  /// Stale responses in place of a failure.
  public var staleOnError = 0
  /// Stale responses because the upstream took long.
  public var staleWhileWaiting = 0
}

/// What a client has cost the team since the start.
public struct ClientCounts: Sendable, Equatable {
  /// Its requests that were sent to the upstream, retries among them.
  public var attempts = 0
  /// 429 to those.
  public var limited = 0
}

/// 429s of the last minute, to ten seconds.
struct RecentRefusals: Sendable {
  private static let slots = 6
  private var counts = [Int](repeating: 0, count: slots)
  private var newest: Int64 = 0

  mutating func record(now: Duration) {
    advance(to: now)
    counts[Int(newest % Int64(Self.slots))] += 1
  }

  mutating func count(now: Duration) -> Int {
    advance(to: now)
    return counts.reduce(0, +)
  }

  private mutating func advance(to now: Duration) {
    let slot = now.components.seconds / 10
    guard slot > newest else { return }
    for stale in max(newest + 1, slot - Int64(Self.slots) + 1)...slot { counts[Int(stale % Int64(Self.slots))] = 0 }
    newest = slot
  }
}
