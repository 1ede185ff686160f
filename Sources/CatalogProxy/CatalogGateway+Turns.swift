import HTTPCache
import HTTPMessages
import Synchronization
import Tracing
package import UpstreamAdmission

/// Phase 5: turns at the upstream. Clients and callers share the quota fairly, and requests beyond it wait.
extension CatalogGateway {
  /// Does what a critical section requires.
  @inline(never)
  func perform(_ duties: Admission.Duties) {
    if let news = duties.news {
      observer.noticed(news == .closed ? .circuitClosed : .circuitOpened)
      withAdmission { $0.quotaGroup }?.tell(news)
    }
    if duties.isAcceptedAgain { observer.noticed(.tokenAccepted) }
    if let (route, number) = duties.pacing { startPacing(by: route, number) }
    duties.needs?.settleSoon()
    for grant in duties.grants { grant.waiter.take(.granted(grant.permit)) }
  }

  /// Releases a turn, and grants the free turns to waiting requests.
  func release(_ permit: ConcurrencyPermit, _ outcome: ConcurrencyOutcome) {
    let now = clock.elapsed
    withAdmission { $0.release(permit, outcome, now: now) }
  }

  /// Ends an attempt whose response is complete.
  func settle(_ attempt: CatalogAttempt) {
    // The time is read here, because the limit's must not go back: on a busy machine the head may have arrived long ago.
    let (permit, now) = (attempt.takePermit(), clock.elapsed)
    withAdmission { admission in
      admission.noteHead(of: attempt)
      admission.release(permit, .answered, now: now)
    }
  }

  /// Notes what the head of a response shows, unless the state knows it.
  func noteHead(of attempt: CatalogAttempt) {
    if attempt.head != nil { withAdmission { $0.noteHead(of: attempt) } }
  }

  /// Ends a flight's wait for its turn with an outcome, unless the turn has come. On any thread.
  func leaveQueue(_ ticket: QueueTicket, _ outcome: FlightDriver.Turn) {
    withAdmission { $0.limit.cancel(ticket) }?.take(outcome)
  }

  private func startPacing(by route: UpstreamRoute, _ number: Int) {
    let task = Task(executorPreference: route.executor) { await self.pace(route.upstream, number) }
    let earlier = withAdmission { admission -> Task<Void, Never>? in
      guard admission.pacingTask == number else { return task }
      defer { admission.pacing = task }
      return admission.pacing
    }
    // It would sleep with its timer until a time that no longer counts.
    earlier?.cancel()
  }

  /// Grants turns at the pacer's times until no request waits for the pacer.
  private func pace(_ upstream: any Upstream, _ number: Int) async {
    while true {
      let now = clock.elapsed
      let next = withAdmission { admission -> Duration? in
        guard admission.pacingTask == number else { return nil }
        let grants = admission.limit.advance(now: now)
        admission.pacesAt = admission.limit.opening
        admission.limitChanged(granting: grants, now: now)
        return admission.pacesAt
      }
      guard let next else { return }
      guard (try? await upstream.pause(for: max(next - clock.elapsed, .milliseconds(1)))) != nil else {
        // The event loop stops, or another task has taken over.
        return withAdmission { if $0.pacingTask == number { $0.pacesAt = nil } }
      }
    }
  }
}

/// The group of replicas with which the gateway shares Apple's quota. Any thread may call it, and nothing waits.
package protocol QuotaGroup: AnyObject, Sendable {
  /// Settles soon, because requests wait for turns, or because Apple has sent a 429.
  func settleSoon()
  /// Tells the other replicas about this one's circuit.
  func tell(_ news: CircuitNews)
}

// Apple's quota and the circuit of several replicas. Any thread may call these functions.
extension CatalogGateway {
  /// The bounds of the requests in flight of all replicas together.
  package var concurrency: ConcurrencyLimits { configuration.concurrency }

  /// Sets the group, before the first request.
  package func use(_ group: any QuotaGroup) { withAdmission { $0.quotaGroup = group } }

  /// Follows the group from now on. `seed` differs among replicas.
  package func join(_ replicas: Int, seed: UInt64) {
    let now = clock.elapsed
    withAdmission { admission in
      admission.limit.join(replicas, seed: seed, now: now)
      admission.circuit.use(replicas: replicas)
    }
  }

  /// Keeps a limit of its own from now on: an equal part of what the group had.
  package func leave(seed: UInt64) { change { admission, now in admission.limit.leave(seed: seed, now: now) } }

  /// Uses what the store has replied to a settlement with this report; nil if it did not reply in time.
  package func use(_ reply: QuotaReply?, to report: QuotaReport) {
    change { admission, now in
      guard let reply else { return report.turns == nil ? [] : admission.limit.missTurns(now: now) }
      admission.circuit.use(replicas: reply.team.replicas)
      return admission.limit.use(reply, to: report, now: now)
    }
  }

  /// Returns what the store must know of this replica, and which turns it needs.
  package func quotaReport() -> QuotaReport {
    let now = clock.elapsed
    return withAdmission { $0.limit.report(now: now) }
  }

  /// Pauses because another replica has met a 429.
  package func pauseForRefusal() {
    let now = clock.elapsed
    withAdmission { $0.limit.pauseForRefusal(now: now) }
  }

  /// Takes another replica's news about the circuit. `spread` is from 0 to 1, and differs among replicas and news.
  package func learn(_ news: CircuitNews, of replica: UInt64, spread: Double) {
    let now = clock.elapsed
    let (wasOpen, isOpen) = withAdmission { admission in
      let wasOpen = !admission.circuit.isClosed
      admission.circuit.learn(news, of: replica, spread: spread, now: now)
      return (wasOpen, !admission.circuit.isClosed)
    }
    if wasOpen != isOpen { observer.noticed(isOpen ? .circuitOpened : .circuitClosed) }
  }

  /// Changes the limit, and does what that requires.
  private func change(_ body: (inout Admission, Duration) -> [CatalogLimit.Grant]) {
    let now = clock.elapsed
    withAdmission { admission in
      let grants = body(&admission, now)
      admission.limitChanged(granting: grants, now: now)
    }
  }
}

/// One attempt to send a request: its turn at the upstream, what it is sent with, and what the state must learn from it, in
/// one critical section at its end. The turn is released exactly once: when the response is complete or cancelled, or with
/// this object.
final class CatalogAttempt: @unchecked Sendable {
  // Sendable by confinement to the flight's loop. Any thread may have the last reference, and so release the turn.
  private let permit: ConcurrencyPermit
  private let gateway: CatalogGateway
  private let isReleased = Atomic(false)
  let pass: UpstreamCircuit.Pass
  let token: ProxyToken
  let span: SpanContext?
  let start: CacheTime
  /// What the head of the response shows; nil before there is one, and when the state knows it.
  var head: HeadFacts?
  /// What ends the turn at its deadline.
  private var alarm: (any CancellableWork)?

  init(
    _ permit: ConcurrencyPermit, of gateway: CatalogGateway, _ pass: UpstreamCircuit.Pass, _ token: ProxyToken,
    _ span: SpanContext?, at start: CacheTime
  ) {
    (self.permit, self.gateway) = (permit, gateway)
    (self.pass, self.token, self.span, self.start) = (pass, token, span, start)
  }

  deinit { release(.inconclusive) }

  /// Ends the turn at a deadline, unless it is released before, although a slow caller has not read the response.
  func end(after duration: Duration, by upstream: any Upstream) {
    guard !isReleased.load(ordering: .relaxed) else { return }
    alarm = upstream.alarm(after: duration) { self.release(.inconclusive) }
  }

  /// Releases the turn with the upstream's outcome. A second call does nothing.
  func release(_ outcome: ConcurrencyOutcome) {
    if let permit = takePermit() { gateway.release(permit, outcome) }
  }

  /// Returns the turn for the caller to release; nil if it was released before.
  func takePermit() -> ConcurrencyPermit? {
    guard !isReleased.exchange(true, ordering: .relaxed) else { return nil }
    alarm.take()?.cancel()
    return permit
  }
}

/// What the head of a response shows about the upstream, for the state.
struct HeadFacts: Sendable {
  let circuit: CircuitOutcome
  /// Whether Apple has accepted the developer token.
  let provesToken: Bool
  /// Whether the caller gets the response.
  let isFinal: Bool
  /// The value of `Date` in seconds since 1970; nil if it does not tell the upstream's present time.
  let date: Int?
  let receivedAt: CacheTime
}
