// Who takes turns, and whose turn it is.
extension ConcurrencyLimit {
  /// Whether a client has not all under way that it may have.
  func mayGo(_ client: Client) -> Bool {
    client.account.inFlight < adaptive.most(of: client.share) && (pacer.rate == nil || client.opening <= now)
  }

  /// Whether a caller has not all under way that it may have: of what its client may have, an eighth is left to others.
  func mayGo(_ caller: Caller, of client: Client) -> Bool {
    caller.account.inFlight < AdaptiveLimit.lessAnEighth(of: adaptive.most(of: client.share))
  }

  /// Sees to it that a caller of whom something waits has a turn, if it may go, and its client as well.
  ///
  /// It is called whenever a request of the caller's comes or ends, and the limit may have changed since. Who may not go
  /// has a request under way, so there will be another time.
  mutating func line(up name: QuotaCaller, _ caller: inout Caller, _ client: inout Client) {
    if caller.account.turn == nil, !caller.queue.isEmpty, mayGo(caller, of: client) {
      caller.account.turn = callerTurns.append(name, to: &client.order)
    }
    line(up: name.client, &client)
  }

  private mutating func line(up name: String, _ client: inout Client) {
    guard client.account.turn == nil, !client.order.isEmpty else { return }
    guard mayGo(client) else {
      if client.opening > now, !client.isHeld {
        client.isHeld = true
        held.append(name)
      }
      return
    }
    // One that has not been served in this round need not wait for its end.
    let isFirst = pacer.rate != nil && client.rested <= now
    client.account.turn = isFirst ? clientTurns.prepend(name, to: &order) : clientTurns.append(name, to: &order)
  }

  /// Sees to it that clients whose share of the rate lets them go again have a turn.
  mutating func lineUpHeld() {
    guard !held.isEmpty else { return }
    let names = held
    held.removeAll(keepingCapacity: true)
    for name in names {
      guard var client = clients[name] else { continue }
      client.isHeld = false
      line(up: name, &client)
      clients[name] = client
    }
  }

  /// A caller of whom nothing waits gives up its turn, and so does its client if it was the last.
  mutating func leave(_ caller: inout Caller, _ client: inout Client) {
    if let turn = caller.account.turn { _ = callerTurns.remove(turn, from: &client.order) }
    caller.account.turn = nil
    guard client.order.isEmpty, let turn = client.account.turn else { return }
    _ = clientTurns.remove(turn, from: &order)
    client.account.turn = nil
  }

  /// Serves the next client whose turn it is. Ends: who may not go leaves the round, and every other one gets out of debt
  /// in as many rounds as it is deep.
  mutating func next() -> Grant? {
    while let name = clientTurns.popFirst(of: &order), var client = clients[name] {
      client.account.turn = nil
      var grant: Grant?
      if mayGo(client) {
        client.account.earn()
        if client.account.isSolvent { grant = serve(&client) }
      }
      line(up: name, &client)
      clients[name] = client
      if let grant { return grant }
    }
    return nil
  }

  /// Serves the next of a client's callers.
  private mutating func serve(_ client: inout Client) -> Grant? {
    while let name = callerTurns.popFirst(of: &client.order), var caller = known[name] {
      caller.account.turn = nil
      var grant: Grant?
      if mayGo(caller, of: client) {
        caller.account.earn()
        if caller.account.isSolvent, let waiting = queues.popFirst(of: &caller.queue) {
          client.waiting -= 1
          let permit = begin(name, &caller, &client, cost: waiting.cost, hasWaited: true)
          grant = Grant(permit: permit, waiter: waiting.waiter)
        }
        if !caller.queue.isEmpty, mayGo(caller, of: client) {
          caller.account.turn = callerTurns.append(name, to: &client.order)
        }
      }
      known[name] = caller
      if let grant { return grant }
    }
    return nil
  }
}
