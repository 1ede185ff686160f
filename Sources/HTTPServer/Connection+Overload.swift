import EventLoop
import HTTPMessages
import Memory
import TLS

/// The work that a connection may not begin at once: TLS handshakes and requests that wait. The rest costs little.
extension Connection: AwaitedTurn {
  var awaitsHandshake: Bool { awaitedTLS != nil && !state.awaitsProxyHeader }

  /// Waits for the handshake's turn, and reads nothing meanwhile.
  func waitForHandshake() {
    transport.releaseBuffers()
    channel.sleep(until: state.rest(at: now, grace: grace), self)
    worker.lineUp(self, .handshake, of: peer.client.holder)
  }

  /// Begins the handshake, or closes the connection if it has waited too long. The peer of a refused handshake sees a
  /// reset: no response is possible before TLS, and an alert would say no more.
  func isDue(isTimely: Bool) {
    guard channel.raw >= 0, let context = awaitedTLS else { return }
    guard isTimely else {
      worker.observer.noticed(.handshakeShed(peer.address))
      channel.resetOnClose()
      return close()
    }
    guard worker.charge(hold, heldBytes + Cost.handshake, for: counted, self) else {
      worker.observer.noticed(.tooLittleMemoryForConnection(peer.address))
      return close()
    }
    awaitedTLS = nil
    channel.unwatch()
    guard case .read = state.woke(.ready, at: now) else { return }
    do throws(CloseReason) {
      do { transport.tls = try TLSSession(context) } catch { throw .failedTLS(error) }
      transport.borrowBuffers()
      try receive()
    } catch { return end(error) }
    serveReceived()
  }

  /// Puts the connection after those of others, unless it is a trusted proxy's, which has the requests of others.
  func deprioritise() {
    guard channel.rank == .first, !peer.isTrusted, let address = peer.client.holder else { return }
    channel.rank = .last
    worker.deprioritisedOfAddress[address, default: 0] += 1
  }

  /// Ends what `deprioritise` began: the client has no more work than others have, or the loop is no longer behind. One with
  /// few connections is deprioritised once for each refusal: others may fill its line.
  func regainRank() {
    guard channel.rank == .last, !worker.waiting[.request].hasLongLine(of: peer.client.holder),
      !worker.hasManyDeprioritised(peer.client.holder) || !worker.isBehind
    else { return }
    channel.rank = .first
    worker.noteReprioritised(peer.client.holder)
  }

  /// Returns the refusal of a request that its handler has not seen, if the loop is behind, and the line of the client's
  /// address is full or the request is late already. To check access and search the cache takes as long as the refusal.
  func earlyRefusal(of request: Request) -> Response? {
    guard worker.isBehind else { return nil }
    if worker.waiting[.request].refuses(request.client.holder, at: now, limits: worker.limits) {
      deprioritise()
      return refuse(request)
    }
    // Another request of the connection has not delayed this one; those of HTTP/2 do not wait for each other.
    guard channel.rank == .last, activity.isNone, !state.workMayDelay, let arrival = channel.lastArrival else {
      return nil
    }
    request.arrival = arrival
    request.received = min(request.received, arrival)
    // A burst may be late here, too.
    let delay = now.duration(since: arrival)
    return worker.latenessOfDeprioritised.admits(delay, at: now, limits: worker.limits) ? nil : refuse(request)
  }

  /// Returns the response if more work of the client's address waits than the server can do in time.
  func responseInstead(of work: DeferredWork, for request: Request) -> Response? {
    guard worker.waiting[.request].refuses(request.client.holder, at: now, limits: worker.limits) else { return nil }
    return shed(work, of: request)
  }

  /// Returns the response to a request whose turn came too late.
  func shed(_ work: DeferredWork, of request: Request) -> Response { work.instead?() ?? refuse(request) }

  private func refuse(_ request: Request) -> Response {
    worker.observer.noticed(.requestShed(client: request.client.name))
    return ErrorResponse.overBusy.response(id: request.id)
  }
}

/// What waits for its turn: a connection before its TLS handshake, or the work of a request.
protocol AwaitedTurn: AnyObject {
  func isDue(isTimely: Bool)
}

extension Worker {
  func lineUp(
    _ work: any AwaitedTurn, _ kind: ExpensiveWork<any AwaitedTurn>.Kind, of address: MemoryBudget.Holder?,
    since arrival: Deadline? = nil
  ) {
    waiting[kind].add(work, of: address, since: arrival, at: loop.now)
    guard !takesTurns else { return }
    takesTurns = true
    loop.atEndOfTurn { self.takeTurns() }
  }

  /// Whether ready descriptors or new connections wait for longer than expensive work may delay them.
  private var hasBacklog: Bool { loop.backlog > limits.promptTurn || loop.turns - crowdedTurn <= 1 }
  /// Whether there is such a backlog, or the present turn makes one.
  var isBehind: Bool { hasBacklog || Deadline.now.duration(since: loop.now) > limits.promptTurn }

  /// Does expensive work for as long as the rest of the turn took, so that cheap and expensive work have half of the time
  /// each. A loop that is behind does only one piece: begun requests also cost time later, and too many make all late.
  private func takeTurns() {
    let began = Deadline.now
    let end = began.advanced(by: began.duration(since: loop.now))
    var now = began
    repeat {
      guard let due = waiting.next(at: now, limits: limits) else { break }
      due.element.isDue(isTimely: due.isTimely)
      loop.runTasks()
      let done = Deadline.now
      waiting.charge(done.duration(since: now), to: due.kind)
      now = done
      if due.isTimely, now < end, hasBacklog { break }
    } while now < end
    takesTurns = !waiting.isEmpty
    if takesTurns { loop.atEndOfNextTurn { self.takeTurns() } }
  }
}
