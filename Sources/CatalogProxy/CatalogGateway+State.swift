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
    var limit: CatalogLimit
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
    var clockSkew = ClockSkew()
    var counts = CatalogCounts()
    /// The counts of each client, by its id in the settings.
    var clientCounts: [String: ClientCounts] = [:]
    var recentRefusals = RecentRefusals()
  }
}

/// The limit of the requests in flight, with the flights that wait for a turn.
typealias CatalogLimit = ConcurrencyLimit<OneShot<QueueResult>>

/// A place in the queue of requests that wait for a turn.
struct QueuePlace: Sendable {
  let ticket: QueueTicket
  let waiting: OneShot<QueueResult>
}

/// The result of a wait in the queue.
enum QueueResult: Sendable {
  /// The request may be sent, and this caller pays for it.
  case granted(ConcurrencyPermit, to: QuotaCaller)
  /// The turn did not come before the deadline.
  case timedOut
  /// The caller has disconnected.
  case cancelled
}

/// What a flight changes in the state before its request is sent, after the head of the response, and at the end of the
/// attempt.
extension CatalogGateway.State {
  /// What the state decides about a request, and what that requires outside of the lock.
  struct Entry: Sendable {
    enum Result: Sendable {
      case launched(Launch)
      case queued(QueuePlace)
      /// The turn would come too late, or the queue is full.
      case rejected(retryAfter: Duration)
      /// The circuit may refuse the request. Then it need not wait for a turn.
      case circuitOpen(UpstreamCircuit.Refusal)
      /// Too little time is left to send anything.
      case tooLate
    }

    let result: Result
    var duties = CatalogGateway.Duties()
  }

  /// Takes a turn at the upstream for a request, or a place in the queue.
  ///
  /// - Parameters:
  ///   - miss: What the caller misses that has begun the flight.
  ///   - gateway: The gateway that has this state.
  mutating func enter(
    _ flight: inout Flight, of miss: CatalogMiss, at time: CacheTime, on gateway: CatalogGateway
  ) -> Entry {
    let now = time.elapsed
    let patience = miss.end - now - gateway.leastTime
    if flight.number > 1 { counts.retries += 1 }
    guard patience >= .zero else { return Entry(result: .tooLate) }
    if flight.number == 1 { retryBudget.requested() }
    if let refusal = circuit.refusal(for: flight.subject, now: now) { return Entry(result: .circuitOpen(refusal)) }
    var request = CatalogLimit.Request(flight.caller)
    (request.isRepeated, request.isRetry) = (flight.number > 1, flight.limited != nil)
    (request.waited, request.patience) = (miss.waited, patience)
    var waiting: OneShot<QueueResult>?
    let admission = limit.acquire(request, waiter: OneShot(keptIn: &waiting), now: now)
    let result: Entry.Result =
      switch admission {
      case .granted(let permit): .launched(launch(flight, permit, at: time, on: gateway))
      case .refused(let retryAfter): .rejected(retryAfter: retryAfter)
      case .queued(let ticket):
        if let permit = addPlaces(for: ticket, to: &flight, at: now, on: gateway) {
          .launched(launch(flight, permit, at: time, on: gateway))
        } else {
          .queued(QueuePlace(ticket: ticket, waiting: waiting ?? OneShot()))
        }
      }
    return Entry(result: result, duties: duties(now: now, by: miss.route))
  }

  /// Whether a request with a turn may be sent.
  enum Launch: Sendable {
    case ready(CatalogAttempt)
    /// A token must be minted first.
    case withoutToken(ConcurrencyPermit, UpstreamCircuit.Pass)
    case rejected(ConcurrencyPermit, UpstreamCircuit.Refusal)
  }

  /// Lets a request with a turn pass the circuit, gives it the current token, and counts it.
  ///
  /// - Parameter gateway: The gateway that has this state.
  mutating func launch(
    _ flight: borrowing Flight, _ permit: ConcurrencyPermit, at time: CacheTime, on gateway: CatalogGateway
  ) -> Launch {
    switch circuit.admit(flight.subject, now: time.elapsed) {
    case .refused(let refusal): return .rejected(permit, refusal)
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
    clientCounts[flight.caller.client, default: ClientCounts()].attempts += 1
    let span = flight.call.span?.child(spanIDs.next())
    return CatalogAttempt(permit, of: gateway, pass, token, span, at: time)
  }

  /// What the head of a response has changed, for the log.
  struct Noted: Sendable {
    var circuit = CircuitChange.none
    /// Whether Apple accepts tokens again after it has refused one.
    var isAcceptedAgain = false
  }

  /// Notes what the head of a response shows, once.
  mutating func noteHead(of attempt: CatalogAttempt) -> Noted {
    guard let head = attempt.head.take() else { return Noted() }
    let now = head.receivedAt.elapsed
    if let date = head.date {
      clockSkew.note(date: date, sentAt: attempt.start.wall, receivedAt: head.receivedAt.wall, now: now)
    }
    var noted = Noted(circuit: record(head.circuit, of: attempt.pass, now: now))
    guard head.isFinal else { return noted }
    retryBudget.succeeded()
    noted.isAcceptedAgain = head.provesToken && accepted(attempt.token, at: head.receivedAt)
    return noted
  }

  /// Changes what the end of an attempt changes.
  ///
  /// - Parameter permit: The attempt's turn; nil if it was released before.
  mutating func settle(
    _ attempt: CatalogAttempt, of call: CatalogCall, _ permit: ConcurrencyPermit?, now: Duration
  ) -> (Noted, CatalogGateway.Duties) {
    let noted = noteHead(of: attempt)
    let grants = permit.map { limit.release($0, .answered, now: now) } ?? []
    if let isShareable = attempt.isShareable {
      unsharedTargets.note(call.key, isShareable: isShareable, now: now)
    }
    return (noted, duties(now: now, handing: grants))
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
