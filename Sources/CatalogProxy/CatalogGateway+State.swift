import HTTPCache
import HTTPTypes
import Locks
import Tracing
import UpstreamAdmission

extension CatalogGateway {
  /// The policies, and the requests that wait.
  struct State {
    var coalescer = RequestCoalescer<CatalogWaiter>()
    var unsharedTargets = UnsharedTargets()
    var limit: ConcurrencyLimit<OneShot<Admission>>
    /// When the task that grants turns at the pacer's times does so next; nil without such a task.
    var pacesAt: Duration?
    /// That task, and its number.
    var pacing: Task<Void, Never>?
    var pacingTask = 0
    /// The route whose loop has that task's timer.
    var pacingRoute: UpstreamRoute?
    /// The replicas with which the limit shares the quota; nil without a store.
    var quotaGroup: (any QuotaGroup)?
    var deadlines = DeadlineQueue()
    /// The keys of stale responses that background requests refresh.
    var revalidating: Set<CacheKey> = []
    var circuit = UpstreamCircuit()
    var retryBudget = RetryBudget()
    let retries = RetryPolicy()
    var random = SystemRandomNumberGenerator()
    var spanIDs = SpanIDGenerator()
    var tokenRefresh = TokenRefreshPolicy()
    var token: ProxyToken?
    var tokenSource: (any TokenSource)?
    /// The number of changes of `tokenSource`.
    var tokenSourceVersion = 0
    /// The time at which Apple last accepted a token of this source, in seconds since 1970. Nil if it has not yet.
    var tokenAcceptedAt: Int?
    /// Whether the next token is signed with another key than the last token.
    var hasNewKey = true
    /// Whether every caller may have the catalog, so that any cache may keep the responses.
    var isPublic = false
    var clockSkew = ClockSkew()
    var counts = CatalogCounts()
    /// The counts of each client, by its id in the settings.
    var clientCounts: [String: ClientCounts] = [:]
    var recentRefusals = RecentRefusals()
  }
}

/// What a request changes in the state before it is sent, and after the head of its response.
extension CatalogGateway.State {
  /// Whether a request with a turn may be sent.
  enum Launch: Sendable {
    case ready(UpstreamCircuit.Pass, ProxyToken, SpanID)
    /// A token must be minted first.
    case withoutToken(UpstreamCircuit.Pass)
    case refused(UpstreamCircuit.Refusal)
  }

  /// Lets a request with a turn pass the circuit, gives it the current token, and counts it.
  mutating func launch(_ exchange: CatalogExchange, at time: CacheTime) -> Launch {
    switch circuit.admit(exchange.subject, now: time.elapsed) {
    case .refused(let refusal): return .refused(refusal)
    case .pass(let pass):
      guard let token = usableToken(now: time) else { return .withoutToken(pass) }
      return .ready(pass, token, sends(for: exchange.caller))
    }
  }

  /// Counts a request that is sent for a caller, and returns the ID of its span.
  mutating func sends(for caller: QuotaCaller) -> SpanID {
    counts.attempts += 1
    clientCounts[caller.client, default: ClientCounts()].attempts += 1
    return spanIDs.next()
  }

  /// What an outcome changes about the circuit, for the log.
  enum CircuitChange: Sendable {
    case none
    case opened(CircuitNews)
    case closed(CircuitNews)
  }

  mutating func record(_ outcome: CircuitOutcome, of pass: UpstreamCircuit.Pass, now: Duration) -> CircuitChange {
    let wasOpen = !circuit.isClosed
    circuit.record(outcome, of: pass, now: now)
    let isOpen = !circuit.isClosed
    // A failed probe is reported too: the log suppresses repeated lines, and its last line must be true.
    guard wasOpen != isOpen || isOpen && pass.isProbe else { return .none }
    return isOpen ? .opened(circuit.news) : .closed(circuit.news)
  }

  /// Notes that Apple has accepted a token. Returns whether it accepts tokens again after it has refused one.
  mutating func accepted(_ token: ProxyToken, at time: CacheTime) -> Bool {
    guard let version = token.version else { return false }
    let before = tokenRefresh.isDegraded
    tokenRefresh.accepted(version, now: time.elapsed)
    // A late response to a token of the last key proves nothing about this one.
    if self.token?.version == version { tokenAcceptedAt = time.wall }
    return before && !tokenRefresh.isDegraded
  }
}
