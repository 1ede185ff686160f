import HTTPCache
import UpstreamAdmission

/// What a gateway knows behind its lock: the flights, and what decides about requests to Apple.
struct GatewayState {
  var coalescer = RequestCoalescer<CatalogWaiter>()
  var unsharedTargets = UnsharedTargets()
  /// The keys of stale responses that background requests refresh.
  var revalidating: Set<CacheKey> = []
  var admission: Admission
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
        flight.charge(to: grant.caller)
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
