import EventLoop
import HTTPMessages
import TLS

/// The work that a connection may not begin at once: TLS handshakes and requests that wait. The rest costs little.
extension Connection: AwaitedTurn {
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

  /// Ends what `deprioritise` began, if the client has no more work than others, or the loop is no longer behind. One with
  /// few connections is deprioritised once for each refusal: others may fill its line.
  func regainRank() {
    guard !worker.waiting[.request].hasLongLine(of: peer.client.holder),
      !worker.hasManyDeprioritised(peer.client.holder) || !worker.isBehind
    else { return }
    channel.rank = .first
    worker.noteReprioritised(peer.client.holder)
  }

  /// Returns the refusal of a request that its handler has not seen, on a loop that is behind, if the line of the client's
  /// address is full or the request is late already. To check access and search the cache takes as long as the refusal.
  func earlyRefusal(of request: Request) -> Response? {
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
