import DequeModule
import HTTPCache
import HTTPMessages
import Locks
package import UpstreamAdmission

/// Turns at the upstream. Clients and callers share the quota fairly, and requests beyond it wait.
extension CatalogGateway {
  /// Does what a critical section requires.
  func perform(_ duties: Admission.Duties) {
    if let pacing = duties.pacing { start(pacing) }
    duties.needs?.settleSoon()
    hand(duties.grants)
  }

  /// Releases a turn with the outcome, and grants the free turns to waiting requests.
  func release(_ permit: ConcurrencyPermit, _ outcome: ConcurrencyOutcome) {
    let now = clock.elapsed
    perform(
      withAdmission { admission in
        let grants = admission.limit.release(permit, outcome, now: now)
        return admission.duties(now: now, handing: grants)
      })
  }

  /// Ends an attempt whose response is complete.
  func settle(_ attempt: CatalogAttempt, of call: CatalogCall) {
    // The time is read here, because the limit's must not go back: on a busy machine the head may have arrived long ago.
    let (permit, now) = (attempt.takePermit(), clock.elapsed)
    let (noted, duties) = withState { $0.settle(attempt, of: call, permit, now: now) }
    report(noted)
    perform(duties)
  }

  /// Notes what the head of a response shows, unless the state knows it.
  func noteHead(of attempt: CatalogAttempt) {
    if attempt.head != nil { report(withAdmission { $0.noteHead(of: attempt) }) }
  }

  /// Records what an attempt has shown about the upstream.
  func record(_ outcome: CircuitOutcome, of pass: UpstreamCircuit.Pass) {
    let now = clock.elapsed
    report(withAdmission { $0.record(outcome, of: pass, now: now) })
  }

  func report(_ noted: Admission.Noted) {
    report(noted.circuit)
    if noted.isAcceptedAgain { observer.noticed(.tokenAccepted) }
  }

  func report(_ change: Admission.CircuitChange) {
    switch change {
    case .none: break
    case .opened(let news):
      observer.noticed(.circuitOpened)
      tell(news)
    case .closed(let news):
      observer.noticed(.circuitClosed)
      tell(news)
    }
  }

  /// Ends the wait for a turn. On any thread.
  func leave(_ place: QueuePlace) {
    withAdmission { $0.limit.cancel(place.ticket) }?.resume(.cancelled)
  }

  private func hand(_ grants: [CatalogLimit.Grant]) {
    for grant in grants where !grant.waiter.resume(.granted(grant.permit)) {
      // The request was cancelled or timed out at the same moment.
      release(grant.permit, .inconclusive)
    }
  }

  private func start(_ pacing: PacingTask) {
    let task = Task(executorPreference: pacing.route.executor) {
      await self.pace(pacing.route.upstream, pacing.number)
    }
    let earlier = withAdmission { admission -> Task<Void, Never>? in
      guard admission.pacingTask == pacing.number else { return task }
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
      let (duties, next) = withAdmission { admission in
        guard admission.pacingTask == number else { return (Admission.Duties(), nil as Duration?) }
        let grants = admission.limit.advance(now: now)
        let needs = admission.needs(now: now)
        admission.pacesAt = admission.limit.opening
        return (Admission.Duties(grants: grants, needs: needs), admission.pacesAt)
      }
      perform(duties)
      guard let next else { return }
      guard (try? await upstream.pause(for: max(next - clock.elapsed, .milliseconds(1)))) != nil else {
        // The event loop stops, or another task has taken over.
        return withAdmission { if $0.pacingTask == number { $0.pacesAt = nil } }
      }
    }
  }

  /// Ends a wait or a turn at its deadline, even if no other event occurs before.
  func expire(_ item: DeadlineQueue.Item, at end: Duration, _ route: UpstreamRoute) {
    let isUnwatched = withAdmission { admission in
      admission.deadlines.insert(item, until: end) { $0.isOpen(in: admission.limit) }
      if let watched = admission.deadlines.watchedUntil, watched <= end { return false }
      admission.deadlines.watchedUntil = end
      return true
    }
    guard isUnwatched else { return }
    Task(executorPreference: route.executor) { await self.watchDeadlines(route.upstream, until: end) }
  }

  private func watchDeadlines(_ upstream: any Upstream, until first: Duration) async {
    var end = first
    while true {
      let now = clock.elapsed
      let (waits, turns, next) = withAdmission { admission -> ([OneShot<QueueResult>], [CatalogAttempt], Duration?) in
        // Another task watches: for an earlier deadline, or since then.
        guard admission.deadlines.watchedUntil == end else { return ([], [], nil) }
        var waits: [OneShot<QueueResult>] = []
        var turns: [CatalogAttempt] = []
        for item in admission.deadlines.removeExpired(now: now) {
          switch item {
          case .wait(let ticket): if let waiter = admission.limit.cancel(ticket) { waits.append(waiter) }
          case .turn(let attempt): turns.append(attempt)
          }
        }
        let next = admission.deadlines.next
        admission.deadlines.watchedUntil = next
        return (waits, turns, next)
      }
      for waiter in waits { waiter.resume(.timedOut) }
      for attempt in turns { attempt.release(.inconclusive) }
      guard let next else { return }
      end = next
      guard (try? await upstream.pause(for: max(next - now, .milliseconds(10)))) != nil else {
        // The event loop stops.
        return withAdmission { if $0.deadlines.watchedUntil == next { $0.deadlines.watchedUntil = nil } }
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
  package func use(_ group: any QuotaGroup) {
    withAdmission { $0.quotaGroup = group }
  }

  /// Follows the group from now on.
  ///
  /// - Parameter seed: A number that differs among replicas.
  package func join(_ replicas: Int, seed: UInt64) {
    let now = clock.elapsed
    withAdmission { admission in
      admission.limit.join(replicas, seed: seed, now: now)
      admission.circuit.use(replicas: replicas)
    }
  }

  /// Keeps a limit of its own from now on: an equal part of what the group had.
  package func leave(seed: UInt64) {
    change { admission, now in admission.limit.leave(seed: seed, now: now) }
  }

  /// Uses what the store has replied to a settlement; nil if it did not reply in time.
  ///
  /// - Parameter report: What the settlement has reported.
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

  /// Takes another replica's news about the circuit.
  ///
  /// - Parameter spread: A number from 0 to 1 that differs among replicas and news.
  package func learn(_ news: CircuitNews, of replica: UInt64, spread: Double) {
    let now = clock.elapsed
    let (wasOpen, isOpen) = withAdmission { admission in
      let wasOpen = !admission.circuit.isClosed
      admission.circuit.learn(news, of: replica, spread: spread, now: now)
      return (wasOpen, !admission.circuit.isClosed)
    }
    if wasOpen != isOpen { observer.noticed(isOpen ? .circuitOpened : .circuitClosed) }
  }

  func tell(_ news: CircuitNews) {
    withAdmission { $0.quotaGroup }?.tell(news)
  }

  /// Changes the limit, and does what that requires.
  private func change(_ body: (inout Admission, Duration) -> [CatalogLimit.Grant]) {
    let now = clock.elapsed
    perform(
      withAdmission { admission in
        let grants = body(&admission, now)
        return admission.duties(now: now, handing: grants)
      })
  }
}

/// A queue of deadlines: of waits for a turn, and of turns that a slow reader holds.
///
/// Nearly all items end long before their deadline, without a word to the queue. So it looks for ended ones whenever it
/// has grown to twice the items that were open at its last look, which costs each insertion a constant part of a look.
struct DeadlineQueue {
  enum Item {
    case wait(QueueTicket)
    case turn(CatalogAttempt)

    func isOpen(in limit: borrowing CatalogLimit) -> Bool {
      switch self {
      case .wait(let ticket): limit.isWaiting(ticket)
      case .turn(let attempt): !attempt.isOver
      }
    }
  }

  private var entries: Deque<(end: Duration, item: Item)> = []
  /// The number of entries at which the queue looks for ended items.
  private var full = Self.few
  /// The deadline until which a task waits; nil without one.
  var watchedUntil: Duration?

  /// The number of entries that are not worth a look.
  static let few = 64

  /// The number of items that the queue keeps, with those that have ended.
  var count: Int { entries.count }

  /// Adds an item. Nearly all items have the same time left, so the new one belongs at the end or close to it.
  ///
  /// - Parameter isOpen: Whether an item has not ended. The queue forgets the others.
  mutating func insert(_ item: Item, until end: Duration, isOpen: (Item) -> Bool) {
    if entries.count >= full {
      // In memory of its own: that of a burst must not stay.
      entries = Deque(entries.filter { isOpen($0.item) })
      full = max(Self.few, 2 * entries.count)
    }
    var index = entries.count
    while index > 0, entries[index - 1].end > end { index -= 1 }
    entries.insert((end, item), at: index)
  }

  mutating func removeExpired(now: Duration) -> [Item] {
    let expired = entries.prefix { $0.end <= now }.map(\.item)
    entries.removeFirst(expired.count)
    return expired
  }

  /// The deadline of the next item, or nil if there are no items.
  var next: Duration? { entries.first?.end }
}
