import HTTPCache
import HTTPMessages
import UpstreamAdmission

// What a flight does to the gateway's state: its callers join it (phase 4), and it takes its turns (phase 5).

/// Phase 4: concurrent requests for the same resource share one upstream request, which no single caller owns.
extension CatalogGateway {
  /// Lets a caller wait for the result of the request's flight, which starts if it does not exist. If the caller may have a
  /// stale response, the wait ends after `staleAfter`, and the flight continues. `isAgain`: the caller has waited for another
  /// flight before, and is counted already.
  @inline(never)
  func coalesce(_ waiter: CatalogWaiter, at now: CacheTime, isAgain: Bool = false) {
    let miss = waiter.miss
    let call = miss.call
    let hasStale =
      !waiter.isRefresh
      && miss.stored.map { Selection($0.response, now: now).mayServeWhileWaiting(call.directives) } ?? false
    var admitted: Admission.Result?
    let joining = withState { state -> Joining in
      // A background request answers no caller.
      if !waiter.isRefresh, !isAgain { state.admission.counts.misses += 1 }
      guard !state.unsharedTargets.contains(call.key, now: now.elapsed) else { return .unshared }
      let key = FlightKey(call.key, sent: call.fields)
      if hasStale, state.coalescer.isKept(key) { return .late }
      let (ticket, driver) = state.coalescer.join(key, waiter) { FlightDriver(.shared($0), leader: waiter, on: self) }
      let isWaiting = waiter.waits(at: .shared(ticket, isLeader: driver != nil))
      if let driver {
        // A flight that need not ask the replicas' store first is admitted in the same critical section.
        if miss.route.shared == nil { admitted = state.enter(&driver.flight, of: driver, at: now) }
      } else {
        if !isAgain { state.admission.counts.collapsed += 1 }
        state.addPlace(of: miss, to: ticket.flight, now: now.elapsed)
      }
      return .joined(ticket, driver, isWaiting: isWaiting)
    }
    switch joining {
    case .joined(let ticket, let driver, let isWaiting):
      driver?.begin(after: admitted.take())
      if !isWaiting { return leave(ticket) }
      guard hasStale else { return }
      waiter.waits(
        atMost: miss.route.upstream.alarm(after: configuration.staleAfter) {
          self.withState { $0.coalescer.keep(ticket) }?.resume(.late)
        })
    case .unshared: waiter.fly(.single)
    case .late: waiter.resume(.late)
    }
  }

  private enum Joining: Sendable {
    /// The place in a flight, and its driver if this caller is its leader. `isWaiting`: the caller has not gone.
    case joined(FlightTicket, FlightDriver?, isWaiting: Bool)
    /// Requests for this resource do not wait for each other.
    case unshared
    /// A waiter has left the flight with a stale response, and this caller may have it as well.
    case late
  }

  /// Removes a caller that has gone from its flight.
  func leave(_ ticket: FlightTicket) { withState { $0.coalescer.leave(ticket)?.abandoned }?.cancel() }

  /// Resumes all waiting callers of a flight. On the leader's loop.
  @inline(never)
  func complete(_ flight: FlightID, _ outcome: Outcome, leader: CatalogWaiter) {
    // Without the leader if it has gone.
    let (first, followers) = withState { $0.coalescer.complete(flight) }
    var isTaken = first?.resume(outcome) ?? false
    if case .stream(let response) = outcome {
      // The content can be read only on this event loop.
      for waiter in followers { waiter.resume(.alone, isElsewhere: true) }
      if !isTaken { response.content.cancel() }
      return
    }
    // If only one caller may have the outcome, the first that waits gets it.
    let isForOne = if case .response(let response, _, _) = outcome { !response.isShareable } else { false }
    for waiter in followers {
      if waiter.resume(isForOne && isTaken ? .unshared : outcome, isElsewhere: true) { isTaken = true }
    }
  }

  /// Returns whether a follower joins the next flight, or begins it: the failure is about the rights and the deadline of the
  /// caller that would have paid, and this one may have others.
  func mayJoinAgain(_ miss: CatalogMiss, _ failure: UpstreamFailure) -> Bool {
    switch failure.error.shortage {
    case .queue, .queueTime, .circuit: return miss.end - clock.elapsed > leastTime
    default: return false
    }
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
  func settle(_ attempt: CatalogAttempt, of call: CatalogCall) {
    // The time is read here, because the limit's must not go back: on a busy machine the head may have arrived long ago.
    let (permit, now) = (attempt.takePermit(), clock.elapsed)
    withState { state in
      if let isShareable = attempt.isShareable {
        state.unsharedTargets.note(call.key, isShareable: isShareable, now: now)
      }
      state.admission.noteHead(of: attempt)
      state.admission.release(permit, .answered, now: now)
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
