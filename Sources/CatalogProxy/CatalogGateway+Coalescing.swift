import HTTPCache
import HTTPMessages
import HTTPTypes
import UpstreamAdmission

/// Phase 4: concurrent requests for the same resource share one upstream request, which no single caller owns.
extension CatalogGateway {
  /// Lets a caller wait for the result of the request's flight, and starts the flight if it does not exist. If the caller
  /// may have a stale response, the wait ends after `staleAfter`, and the flight continues.
  ///
  /// - Parameter isAgain: Whether the caller has waited for another flight before, and is counted already.
  @inline(never)
  func coalesce(_ waiter: CatalogWaiter, at now: CacheTime, isAgain: Bool = false) {
    let miss = waiter.miss
    let call = miss.call
    let hasStale =
      !waiter.isRefresh
      && miss.stored.map { Selection($0.response, now: now).mayServeWhileWaiting(call.directives) } ?? false
    var entry: GatewayState.Entry?
    var duties: Admission.Duties?
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
        if miss.route.shared == nil { entry = state.enter(&driver.flight, of: miss, at: now, on: self) }
      } else {
        if !isAgain { state.admission.counts.collapsed += 1 }
        duties = state.addPlace(of: miss, to: ticket.flight, at: now.elapsed, on: self)
      }
      return .joined(ticket, driver, isWaiting: isWaiting)
    }
    switch joining {
    case .joined(let ticket, let driver, let isWaiting):
      if let entry = entry.take() { driver?.begin(after: entry) } else { driver?.begin() }
      if let duties { perform(duties) }
      if !isWaiting { return leave(ticket) }
      if hasStale { waiter.waits(atMost: endWait(of: ticket, by: miss.route)) }
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

  /// Ends the wait of one caller after `staleAfter`.
  private func endWait(of ticket: FlightTicket, by route: UpstreamRoute) -> any CancellableWork {
    route.upstream.alarm(after: configuration.staleAfter) {
      self.withState { $0.coalescer.keep(ticket) }?.resume(.late)
    }
  }

  /// Removes a caller that has gone from its flight.
  func leave(_ ticket: FlightTicket) {
    withState { $0.coalescer.leave(ticket)?.abandoned }?.cancel()
  }

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
    for waiter in followers {
      let isForNone = isTaken && outcome.isForOne
      if waiter.resume(isForNone ? .unshared : outcome, isElsewhere: true) { isTaken = true }
    }
  }

  /// Returns whether a caller must not have the outcome of its flight.
  func needsOwnRequest(_ miss: CatalogMiss, _ outcome: Outcome) -> Bool {
    switch outcome {
    case .unshared: true
    case .found(let response): !isUsable(response, for: miss.call)
    default: false
    }
  }

  /// Returns whether a follower joins the next flight, or begins it. The failure is about the rights and the deadline of the
  /// caller that would have paid for the request. This caller may have others.
  func mayJoinAgain(_ miss: CatalogMiss, _ outcome: Outcome) -> Bool {
    guard case .failure(let failure, _) = outcome else { return false }
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
  /// What ``enter(_:of:at:on:)`` has decided about a request, and what it requires outside of the lock.
  struct Entry: Sendable {
    let result: Admission.Result
    let duties: Admission.Duties
  }

  /// Takes a turn at the upstream for a flight, or a place in the queue of each of its callers.
  mutating func enter(
    _ flight: inout Flight, of miss: CatalogMiss, at time: CacheTime, on gateway: CatalogGateway
  ) -> Entry {
    var result = admission.enter(flight, of: miss, at: time, on: gateway)
    if case .queued(let place) = result,
      let permit = addPlaces(for: place.ticket, to: &flight, at: time.elapsed, on: gateway)
    {
      result = admission.launch(flight, permit, at: time, on: gateway)
    }
    return Entry(result: result, duties: admission.duties(now: time.elapsed, by: miss.route))
  }

  /// Changes what the end of an attempt changes.
  mutating func settle(
    _ attempt: CatalogAttempt, of call: CatalogCall, _ permit: ConcurrencyPermit?, now: Duration
  ) -> (Admission.Noted, Admission.Duties) {
    if let isShareable = attempt.isShareable {
      unsharedTargets.note(call.key, isShareable: isShareable, now: now)
    }
    return admission.settle(attempt, permit, now: now)
  }

  /// Gives a flight that waits for its turn a place of a caller that has joined it. Nil if the flight does not wait.
  mutating func addPlace(
    of miss: CatalogMiss, to flight: FlightID, at now: Duration, on gateway: CatalogGateway
  ) -> Admission.Duties? {
    guard let ticket = coalescer.turn(of: flight), admission.limit.isWaiting(ticket) else { return nil }
    let grant = addPlace(of: miss, for: ticket, at: now, on: gateway)
    return admission.duties(now: now, by: miss.route, handing: grant.map { [$0] } ?? [])
  }

  /// Gives a flight that begins to wait for its turn the places of the callers that have joined it before.
  ///
  /// - Returns: The turn if one of them may send at once. The flight is then charged to it.
  private mutating func addPlaces(
    for ticket: QueueTicket, to flight: inout Flight, at now: Duration, on gateway: CatalogGateway
  ) -> ConcurrencyPermit? {
    guard let id = flight.id else { return nil }
    for waiter in coalescer.waits(id, for: ticket) {
      if let grant = addPlace(of: waiter.miss, for: ticket, at: now, on: gateway) {
        flight.charge(to: grant.permit.caller)
        return grant.permit
      }
    }
    return nil
  }

  private mutating func addPlace(
    of miss: CatalogMiss, for ticket: QueueTicket, at now: Duration, on gateway: CatalogGateway
  ) -> CatalogLimit.Grant? {
    var request = CatalogLimit.Request(miss.call.caller)
    (request.waited, request.patience) = (miss.waited, miss.end - now - gateway.leastTime)
    // The circuit would refuse the caller when its turn comes.
    guard request.patience >= .zero, admission.circuit.refusal(for: CircuitSubject(miss.call), now: now) == nil else {
      return nil
    }
    return admission.limit.addPlace(for: ticket, of: request, now: now)
  }
}

extension Outcome {
  /// Whether only one of the waiting callers may have the outcome.
  fileprivate var isForOne: Bool {
    if case .response(let response, _, _) = self { !response.isShareable } else { false }
  }
}
