import HTTP1
import HTTPCache
import HTTPMessages
import HTTPTypes
import Locks
import UpstreamAdmission

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
    for grant in grants where !grant.waiter.resume(.granted(grant.permit, to: grant.caller)) {
      // The request was cancelled or timed out at the same moment.
      release(grant.permit, .inconclusive)
    }
  }

  // MARK: Pacing

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

  // MARK: Ends

  /// Ends a wait or a turn at its deadline, even if no other event occurs before.
  func expire(_ item: DeadlineQueue.Item, at end: Duration, _ route: UpstreamRoute) {
    let isUnwatched = withAdmission { admission in
      admission.deadlines.insert(item, until: end) { $0.isOpen(in: admission.limit) }
      defer { admission.deadlines.isWatched = true }
      return !admission.deadlines.isWatched
    }
    guard isUnwatched else { return }
    Task(executorPreference: route.executor) { await self.watchDeadlines(route.upstream) }
  }

  private func watchDeadlines(_ upstream: any Upstream) async {
    while true {
      let now = clock.elapsed
      let (waits, turns, next) = withAdmission { admission -> ([OneShot<QueueResult>], [CatalogAttempt], Duration?) in
        var waits: [OneShot<QueueResult>] = []
        var turns: [CatalogAttempt] = []
        for item in admission.deadlines.removeExpired(now: now) {
          switch item {
          case .wait(let ticket): if let waiter = admission.limit.cancel(ticket) { waits.append(waiter) }
          case .turn(let attempt): turns.append(attempt)
          }
        }
        let next = admission.deadlines.next
        admission.deadlines.isWatched = next != nil
        return (waits, turns, next)
      }
      for waiter in waits { waiter.resume(.timedOut) }
      for attempt in turns { attempt.release(.inconclusive) }
      guard let next else { return }
      guard (try? await upstream.pause(for: max(next - now, .milliseconds(10)))) != nil else {
        // The event loop stops.
        return withAdmission { $0.deadlines.isWatched = false }
      }
    }
  }
}

extension CircuitSubject {
  /// Creates the subject of a call. All callers share a storable resource. Any other resource belongs to one caller,
  /// because the method, the content or the music user token may cause a failure.
  init(_ call: CatalogCall) {
    let client = Self.hash { $0.combine(utf8: call.caller.client) }
    let caller = Self.hash { hasher in
      hasher.combine(client)
      hasher.combine(call.caller.identity)
    }
    let resource =
      call.target.isStorable
      ? call.key.fingerprint
      : Self.hash { hasher in
        hasher.combine(caller)
        hasher.combine(call.method)
        hasher.combine(call.target.bytes)
        for value in call.fields[values: .musicUserToken] { hasher.combine(utf8: value) }
      }
    self.init(client: client, caller: caller, resource: resource)
  }

  private static func hash(_ feed: (inout Hasher) -> Void) -> UInt64 {
    var hasher = Hasher()
    feed(&hasher)
    return UInt64(bitPattern: Int64(hasher.finalize()))
  }
}

extension Hasher {
  fileprivate mutating func combine(utf8 text: String) {
    var text = text
    combine(text.utf8.count)
    // Safe: the hasher does not keep the pointer.
    text.withUTF8 { unsafe combine(bytes: UnsafeRawBufferPointer($0)) }
  }
}

extension HTTPField.Name {
  static let musicUserToken = HTTPField.Name.literal("Music-User-Token")
}
