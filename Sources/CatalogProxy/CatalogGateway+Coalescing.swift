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
      let (ticket, driver) = state.coalescer.join(key, waiter) { id in
        FlightDriver(Flight(.shared(id), of: miss, at: now), leader: waiter, on: self)
      }
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
    let waiters = withState { $0.coalescer.complete(flight) }
    guard case .stream(let response) = outcome else { return tell(waiters, outcome, leader: leader) }
    // The content can be read only on this event loop.
    var isTaken = false
    for waiter in waiters where waiter === leader { isTaken = waiter.resume(outcome) }
    for waiter in waiters where waiter !== leader { waiter.resume(.alone, isElsewhere: true) }
    if !isTaken { response.content.cancel() }
  }

  /// Resumes all waiters with an outcome. If only one caller may have it, the first waiter gets it.
  private func tell(_ waiters: [CatalogWaiter], _ outcome: Outcome, leader: CatalogWaiter) {
    var outcome = outcome
    for waiter in waiters where waiter.resume(outcome, isElsewhere: waiter !== leader) && outcome.isForOne {
      outcome = .unshared
    }
  }

  /// Returns whether a follower joins the next flight, or begins it. The failure is about the rights and the deadline of the
  /// caller that would have paid for the request. This caller may have others.
  func mayJoinAgain(_ miss: CatalogMiss, _ outcome: Outcome) -> Bool {
    guard case .failure(let failure, _) = outcome else { return false }
    switch failure.shortage {
    case .queue, .queueTime, .circuit: return miss.end - clock.elapsed > leastTime
    default: return false
    }
  }
}

extension Outcome {
  /// Whether only one of the waiting callers may have the outcome.
  fileprivate var isForOne: Bool {
    if case .response(let response, _, _) = self { !response.isShareable } else { false }
  }
}
