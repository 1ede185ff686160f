// Requests that several callers wait for.
extension ConcurrencyLimit {
  /// Gives a queued request another place, in the queue of a caller that waits for the same request. The place whose turn
  /// comes first takes it, its caller pays, and the other places are removed. So no caller waits longer than it would
  /// alone because another caller, whose turns are used up, was the first to send the request.
  ///
  /// A caller has one place for a request. It gets none if its own request would be refused now. All places of a request
  /// count as one queued request. Only the queue space counts each, because each takes memory.
  ///
  /// - Parameter ticket: The ticket that `acquire` returned for the request.
  /// - Returns: The turn if the caller may send at once. Nil if the request waits, or if its turn has already come.
  public mutating func addPlace(for ticket: QueueTicket, of request: Request, now: Duration) -> Grant? {
    guard let first = queues.element(ticket), first.caller != request.caller,
      shared[first.number]?[request.caller] == nil
    else { return nil }
    var request = request
    request.queuedAs = first.number
    switch acquire(request, waiter: first.waiter, now: now) {
    case .refused: return nil
    case .queued(let place):
      shared[first.number, default: [first.caller: ticket]][request.caller] = place
      furtherPlaces += 1
      return nil
    case .granted(let permit):
      remove(ticket)
      removeOtherPlaces(of: first.number)
      return Grant(permit: permit, waiter: first.waiter, caller: request.caller, number: first.number)
    }
  }

  /// Removes the places of a request that has left the queue at one of them. The work is that of adding them.
  mutating func removeOtherPlaces(of number: UInt64) {
    guard !shared.isEmpty, let places = shared.removeValue(forKey: number) else { return }
    furtherPlaces -= places.count - 1
    for place in places.values { remove(place) }
  }
}
