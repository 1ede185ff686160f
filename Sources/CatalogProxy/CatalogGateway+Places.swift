import HTTPMessages
import Locks
import UpstreamAdmission

/// A flight waits for its turn with the rights of all its callers. Its request has a place in the queue of each of them,
/// and the first turn counts. Otherwise a caller whose turns are used up could ask for popular resources first, and all
/// others would wait in its line.
extension CatalogGateway {
  /// What another place of a flight in the queue requires outside of the lock.
  struct FurtherPlace: Sendable {
    let grant: ConcurrencyLimit<OneShot<Admission>>.Grant?
    let pacing: PacingTask?
    let needs: QuotaNeeds?
  }

  /// Does what another place in the queue requires.
  func finish(_ place: FurtherPlace) {
    if let pacing = place.pacing { start(pacing) }
    place.needs?.request()
    if let grant = place.grant { hand([grant]) }
  }

  /// Returns whether a caller that has joined a flight goes on without it. The failure is about the rights and the
  /// deadline of the caller that would have paid for the request. This caller may have others.
  func mayEnterAgain(_ miss: CatalogMiss, _ outcome: Outcome) -> Bool {
    guard case .failure(let failure) = outcome else { return false }
    switch failure.shortage {
    case .queue, .queueTime, .circuit: return miss.end - clock.elapsed > leastTime
    default: return false
    }
  }

  /// Joins the next flight for the same resource, or starts it.
  func enterAgain(_ miss: CatalogMiss) async -> CatalogReply {
    let reply = OneShot<CatalogReply>()
    let waiter = CatalogWaiter(miss, for: .reply { reply.resume($0) }, on: self)
    coalesce(waiter, at: clock.now, isAgain: true)
    return await withTaskCancellationHandler {
      await reply.get()
    } onCancel: {
      waiter.cancel()
    }
  }
}

extension CatalogGateway.State {
  /// Gives a flight that waits for its turn a place of a caller that has joined it. Nil if the flight does not wait.
  mutating func addPlace(
    of miss: CatalogMiss, to flight: FlightID, at now: Duration, on gateway: CatalogGateway
  ) -> CatalogGateway.FurtherPlace? {
    guard let ticket = coalescer.turn(of: flight), limit.isWaiting(ticket) else { return nil }
    let grant = addPlace(of: miss, for: ticket, at: now, on: gateway)
    return CatalogGateway.FurtherPlace(grant: grant, pacing: startsPacing(by: miss.route), needs: needs(now: now))
  }

  /// Gives a flight that begins to wait for its turn the places of the callers that have joined it before.
  ///
  /// - Returns: The turn if one of them may send at once. The exchange is then charged to it.
  mutating func addPlaces(
    for ticket: QueueTicket, to exchange: CatalogExchange, at now: Duration, on gateway: CatalogGateway
  ) -> ConcurrencyPermit? {
    guard let flight = exchange.flight else { return nil }
    for waiter in coalescer.waits(flight, for: ticket) {
      if let grant = addPlace(of: waiter.miss, for: ticket, at: now, on: gateway) {
        exchange.charge(to: grant.caller)
        return grant.permit
      }
    }
    return nil
  }

  private mutating func addPlace(
    of miss: CatalogMiss, for ticket: QueueTicket, at now: Duration, on gateway: CatalogGateway
  ) -> ConcurrencyLimit<OneShot<Admission>>.Grant? {
    var request = ConcurrencyLimit<OneShot<Admission>>.Request(miss.call.caller)
    (request.waited, request.patience) = (miss.waited, miss.end - now - gateway.leastTime)
    // The circuit would refuse the caller when its turn comes.
    guard request.patience >= .zero, circuit.refusal(for: CircuitSubject(miss.call), now: now) == nil else {
      return nil
    }
    return limit.addPlace(for: ticket, of: request, now: now)
  }
}
