import HTTPMessages
import Locks
import UpstreamAdmission

/// A flight waits for its turn with the rights of all its callers. Its request has a place in the queue of each of them,
/// and the first turn counts. Otherwise a caller whose turns are used up could ask for popular resources first, and all
/// others would wait in its line.
extension CatalogGateway {
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

extension CatalogGateway.State {
  /// Gives a flight that waits for its turn a place of a caller that has joined it. Nil if the flight does not wait.
  mutating func addPlace(
    of miss: CatalogMiss, to flight: FlightID, at now: Duration, on gateway: CatalogGateway
  ) -> CatalogGateway.Duties? {
    guard let ticket = coalescer.turn(of: flight), limit.isWaiting(ticket) else { return nil }
    let grant = addPlace(of: miss, for: ticket, at: now, on: gateway)
    return duties(now: now, by: miss.route, handing: grant.map { [$0] } ?? [])
  }

  /// Gives a flight that begins to wait for its turn the places of the callers that have joined it before.
  ///
  /// - Returns: The turn if one of them may send at once. The flight is then charged to it.
  mutating func addPlaces(
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
    guard request.patience >= .zero, circuit.refusal(for: CircuitSubject(miss.call), now: now) == nil else {
      return nil
    }
    return limit.addPlace(for: ticket, of: request, now: now)
  }
}
