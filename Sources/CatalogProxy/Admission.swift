import HTTPCache
import HTTPMessages
import Tracing
import UpstreamAdmission

/// The limit of the requests in flight, with the flights that wait for a turn.
typealias CatalogLimit = ConcurrencyLimit<FlightDriver>

/// What a gateway knows behind its lock: the flights, and what decides about requests to Apple.
struct GatewayState {
  var coalescer = RequestCoalescer<CatalogWaiter, FlightDriver>()
  /// The keys of stale responses that background requests refresh.
  var revalidating: Set<CacheKey> = []
  var admission: Admission
}

/// What decides whether and when a request may go to Apple: the deadline, the circuit, the limit of requests in flight and
/// their pace, and the developer token; after an attempt also the retry budget. It learns from each attempt.
///
/// A value behind the gateway's lock. A flight has a critical section before an attempt (``enter(_:of:at:)``) and one
/// after it, and leaves in ``duties`` what it requires outside of the lock.
struct Admission {
  var limit: CatalogLimit
  var circuit = UpstreamCircuit()
  private var retryBudget = RetryBudget()
  private var random = SystemRandomNumberGenerator()
  private var spanIDs = SpanIDGenerator()

  var tokenRefresh = TokenRefreshPolicy()
  var token: ProxyToken?
  var tokenMint: TokenMint?
  /// The time at which Apple last accepted a token of this source, in seconds since 1970. Nil if it has not yet.
  var tokenAcceptedAt: Int?
  /// Whether the next token is signed with another key than the last token.
  var hasNewKey = true
  var clockSkew = ClockSkew()

  /// When the task that grants turns at the pacer's times does so next; nil without such a task.
  var pacesAt: Duration?
  /// That task, and its number.
  var pacing: Task<Void, Never>?
  var pacingTask = 0
  /// The route whose loop has that task's timer.
  private var pacingRoute: UpstreamRoute?
  /// The replicas with which the limit shares the quota; nil without a store.
  var quotaGroup: (any QuotaGroup)?

  var counts = CatalogCounts()

  /// What the present critical section requires outside of the lock; nil for nothing.
  var duties: Duties?
  /// A request with less time left is not sent.
  private let leastTime: Duration

  init(_ limits: ConcurrencyLimits, leastTime: Duration) {
    limit = CatalogLimit(limits)
    self.leastTime = leastTime
  }

  struct Duties: Sendable {
    /// The turns to hand to the flights that wait for them.
    var grants: [CatalogLimit.Grant] = []
    /// The pacing task to start, which grants turns at the pacer's times, by its number.
    var pacing: (route: UpstreamRoute, number: Int)?
    /// The group of replicas, if the limit must settle with them.
    var needs: (any QuotaGroup)?
    /// That the circuit has opened or closed, or that a probe has failed.
    var news: CircuitNews?
    /// Whether Apple accepts tokens again after it has refused one.
    var isAcceptedAgain = false
  }

  private mutating func require(_ duty: (inout Duties) -> Void) {
    var all = duties ?? Duties()
    duty(&all)
    duties = all
  }

  /// Notes what a change of the limit requires. `route`: for pacing tasks; nil keeps the first one.
  mutating func limitChanged(
    granting grants: [CatalogLimit.Grant] = [], by route: UpstreamRoute? = nil, now: Duration
  ) {
    let (pacing, needs) = (startsPacing(by: route), needs(now: now))
    guard !grants.isEmpty || pacing != nil || needs != nil else { return }
    require {
      $0.grants += grants
      $0.pacing = pacing ?? $0.pacing
      $0.needs = needs ?? $0.needs
    }
  }

  /// Returns the pacing task to start; nil if none is needed, or if one wakes in time.
  private mutating func startsPacing(by route: UpstreamRoute?) -> (route: UpstreamRoute, number: Int)? {
    if pacingRoute == nil, let route { pacingRoute = route }
    guard let opening = limit.opening, let pacingRoute else { return nil }
    if let pacesAt, opening > pacesAt - Self.leastGain { return nil }
    pacesAt = opening
    pacingTask += 1
    return (pacingRoute, pacingTask)
  }

  /// The time by which a turn must be earlier than the pacing task wakes, so that another task starts: 5 ms. News of the
  /// other replicas may end a long pause.
  private static let leastGain = Duration.milliseconds(5)

  /// Returns the group if the limit must settle with the other replicas now; otherwise nil.
  private mutating func needs(now: Duration) -> (any QuotaGroup)? {
    guard let quotaGroup, limit.needsStore(now: now) else { return nil }
    return quotaGroup
  }
}

/// A flight waits for its turn with the rights of all its callers. Its request has a place in the queue of each of them,
/// and the first turn counts. Otherwise a caller whose turns are used up could ask for popular resources first, and all
/// others would wait in its line.
extension GatewayState {
  /// Takes a turn at the upstream for a flight, or a place in the queue of each of its callers.
  mutating func enter(_ flight: inout Flight, of driver: FlightDriver, at time: CacheTime) -> Admission.Result {
    var result = admission.enter(flight, of: driver, at: time)
    if case .queued(let ticket) = result, let permit = addPlaces(for: ticket, to: &flight, now: time.elapsed) {
      result = admission.launch(flight, permit, at: time, on: driver.gateway)
    }
    admission.limitChanged(by: driver.miss.route, now: time.elapsed)
    return result
  }

  /// Gives a flight that waits for its turn a place of a caller that has joined it.
  mutating func addPlace(of miss: CatalogMiss, to flight: FlightID, now: Duration) {
    guard let ticket = coalescer.turn(of: flight), admission.limit.isWaiting(ticket) else { return }
    let grant = admission.addPlace(of: miss, for: ticket, now: now)
    admission.limitChanged(granting: grant.map { [$0] } ?? [], by: miss.route, now: now)
  }

  /// Gives a flight that begins to wait for its turn the places of the callers that have joined it before. Returns the turn
  /// if one of them may send at once. The flight is then charged to it.
  private mutating func addPlaces(
    for ticket: QueueTicket, to flight: inout Flight, now: Duration
  ) -> ConcurrencyPermit? {
    guard let id = flight.id else { return nil }
    for waiter in coalescer.waits(id, for: ticket) {
      if let grant = admission.addPlace(of: waiter.miss, for: ticket, now: now) {
        flight.charge(to: grant.permit.caller)
        return grant.permit
      }
    }
    return nil
  }
}

/// Before an attempt.
extension Admission {
  /// What a critical section has decided about a request.
  enum Result: Sendable {
    case ready(CatalogAttempt)
    /// The request has a turn, and a token must be minted first.
    case withoutToken(ConcurrencyPermit, UpstreamCircuit.Pass)
    case queued(QueueTicket)
    /// The turn would come too late, or the queue is full.
    case rejected(retryAfter: Duration)
    /// The circuit refuses the request, also before it waits for a turn. The permit is the turn that it has already.
    case circuitOpen(UpstreamCircuit.Refusal, ConcurrencyPermit?)
    /// Too little time is left to send anything.
    case tooLate
  }

  /// Takes a turn at the upstream for a request, or a place in the queue.
  mutating func enter(_ flight: borrowing Flight, of driver: FlightDriver, at time: CacheTime) -> Result {
    let now = time.elapsed
    if flight.number > 1 { counts.retries += 1 }
    let patience = driver.miss.end - now - leastTime
    guard patience >= .zero else { return .tooLate }
    if flight.number == 1 { retryBudget.earn() }
    if let refusal = circuit.refusal(for: flight.subject, now: now) { return .circuitOpen(refusal, nil) }
    var request = CatalogLimit.Request(flight.payer)
    (request.isRepeated, request.isRetry) = (flight.number > 1, flight.limited != nil)
    (request.waited, request.patience) = (driver.miss.waited, patience)
    switch limit.acquire(request, waiter: driver, now: now) {
    case .granted(let permit): return launch(flight, permit, at: time, on: driver.gateway)
    case .refused(let retryAfter): return .rejected(retryAfter: retryAfter)
    case .queued(let ticket): return .queued(ticket)
    }
  }

  /// Gives a flight that waits for its turn a place in the queue of another caller. Returns the turn if that caller may
  /// send at once.
  mutating func addPlace(of miss: CatalogMiss, for ticket: QueueTicket, now: Duration) -> CatalogLimit.Grant? {
    var request = CatalogLimit.Request(miss.payer)
    (request.waited, request.patience) = (miss.waited, miss.end - now - leastTime)
    // The circuit would refuse the caller when its turn comes.
    guard request.patience >= .zero,
      circuit.refusal(for: CircuitSubject(miss.call, for: miss.payer), now: now) == nil
    else { return nil }
    return limit.addPlace(for: ticket, of: request, now: now)
  }

  /// Lets a request with a turn pass the circuit, gives it the current token, and counts it.
  mutating func launch(
    _ flight: borrowing Flight, _ permit: ConcurrencyPermit, at time: CacheTime, on gateway: CatalogGateway
  ) -> Result {
    switch circuit.admit(flight.subject, now: time.elapsed) {
    case .refused(let refusal): return .circuitOpen(refusal, permit)
    case .pass(let pass):
      guard let token = usableToken(now: time) else { return .withoutToken(permit, pass) }
      return .ready(attempt(flight, permit, pass, token, at: time, on: gateway))
    }
  }

  /// Counts a request that is sent, and returns its attempt.
  mutating func attempt(
    _ flight: borrowing Flight, _ permit: ConcurrencyPermit, _ pass: UpstreamCircuit.Pass, _ token: ProxyToken,
    at time: CacheTime, on gateway: CatalogGateway
  ) -> CatalogAttempt {
    counts.attempts += 1
    limit.sent(with: permit)
    let span = flight.call.span?.child(spanIDs.next())
    return CatalogAttempt(permit, of: gateway, pass, token, span, at: time)
  }

  /// Returns the last token unless it has expired.
  func unexpiredToken(now: CacheTime) -> ProxyToken? { token.flatMap { now.wall < $0.expiresAt ? $0 : nil } }

  /// Returns the current token if it is not past its `refreshAt` and the wall clock was not set since.
  func usableToken(now: CacheTime) -> ProxyToken? {
    guard let token, token.version == tokenRefresh.current, now.wall < token.refreshAt,
      !token.isFromAnotherClock(at: now)
    else { return nil }
    return token
  }
}

/// After an attempt.
extension Admission {
  /// Notes what the head of a response shows, once.
  mutating func noteHead(of attempt: CatalogAttempt) {
    guard let head = attempt.head.take() else { return }
    let now = head.receivedAt.elapsed
    if let date = head.date {
      clockSkew.note(date: date, sentAt: attempt.start.wall, receivedAt: head.receivedAt.wall, now: now)
    }
    record(head.circuit, of: attempt.pass, now: now)
    guard head.isFinal else { return }
    retryBudget.earn()
    if head.provesToken { accepted(attempt.token, at: head.receivedAt) }
  }

  /// Releases a turn; nil if it was released before.
  mutating func release(_ permit: ConcurrencyPermit?, _ outcome: ConcurrencyOutcome, now: Duration) {
    limitChanged(granting: permit.map { limit.release($0, outcome, now: now) } ?? [], now: now)
  }

  mutating func record(_ outcome: CircuitOutcome, of pass: UpstreamCircuit.Pass, now: Duration) {
    let wasOpen = !circuit.isClosed
    circuit.record(outcome, of: pass, now: now)
    let isOpen = !circuit.isClosed
    // A failed probe is reported too: the log suppresses repeated lines, and its last line must be true.
    guard wasOpen != isOpen || isOpen && pass.isProbe else { return }
    let news = circuit.news
    require { $0.news = news }
  }

  private mutating func accepted(_ token: ProxyToken, at time: CacheTime) {
    guard let version = token.version else { return }
    let wasDegraded = tokenRefresh.isDegraded
    tokenRefresh.accepted(version, now: time.elapsed)
    // A late response to a token of the last key proves nothing about this one.
    if self.token?.version == version { tokenAcceptedAt = time.wall }
    if wasDegraded, !tokenRefresh.isDegraded { require { $0.isAcceptedAgain = true } }
  }
}

/// After an attempt without a response for the callers.
extension Admission {
  /// Learns from an attempt without a response, and decides about another one. `isOurs`: it shows nothing about Apple.
  mutating func failed(
    _ attempt: CatalogAttempt, _ error: UpstreamError, isOurs: Bool, of flight: borrowing Flight, until end: Duration,
    _ permit: ConcurrencyPermit?, now: Duration
  ) -> RetryPolicy.Decision {
    record(isOurs ? .neutral : CircuitOutcome(error), of: attempt.pass, now: now)
    release(permit, .inconclusive, now: now)
    guard error.cause != .cancelled else { return .giveUp }
    counts.failures += 1
    return decision(after: .failed(error), of: flight, until: end, now: now)
  }

  /// Learns from a 429, and decides about another attempt. Returns the rate that the quota allows as well.
  mutating func limited(
    retryAfter: Duration?, of flight: borrowing Flight, until end: Duration, _ permit: ConcurrencyPermit?,
    now: Duration
  ) -> (RetryPolicy.Decision, rate: Double?) {
    release(permit, .limited(retryAfter: retryAfter), now: now)
    counts.limited += 1
    return (decision(after: .limited, of: flight, until: end, now: now), limit.rate)
  }

  private mutating func decision(
    after ending: Attempt.Ending, of flight: borrowing Flight, until end: Duration, now: Duration
  ) -> RetryPolicy.Decision {
    var attempt = Attempt(flight.method, ending, number: flight.number, timeLeft: end - now)
    (attempt.hasReadContent, attempt.hasFailed) = (!flight.isUntouched, flight.hasFailed)
    return RetryPolicy.decision(after: attempt, budget: &retryBudget, using: &random)
  }

  /// Returns whether a request is sent again with another token after a 401.
  mutating func repeats401() -> Bool {
    guard retryBudget.withdraw() else { return false }
    counts.tokenRejections += 1
    return true
  }

  /// Counts a request that takes no turn, and returns the number of its span.
  mutating func sentWithoutTurn(now: Duration) -> SpanID {
    counts.attempts += 1
    limit.sentWithoutTurn(now: now)
    return spanIDs.next()
  }
}
