import EventLoop
import HTTPMessages
import Memory
import TLS

/// The work that a connection may not begin at once: TLS handshakes wait for their turn, and under overload the server
/// refuses them, and requests for work that waits. Everything else costs no more than its refusal.
extension Connection {
  /// Whether the TLS handshake has not begun, and nothing comes before it.
  var awaitsHandshake: Bool { awaitedTLS != nil && !state.awaitsProxyHeader }

  /// Waits for the handshake's turn, and reads nothing meanwhile.
  func waitForHandshake() {
    channel.loop.assertCurrent()
    transport.releaseBuffers()
    channel.sleep(until: state.rest(at: now, grace: grace), self)
    worker.addHandshake(self)
  }

  /// Begins the handshake, or closes the connection if it has waited too long. The peer of a refused handshake sees a
  /// reset: no response is possible before TLS, and an alert would say no more.
  func handshakeIsDue(isTimely: Bool) {
    channel.loop.assertCurrent()
    guard channel.raw >= 0, let context = awaitedTLS else { return }
    guard isTimely else {
      worker.observer.noticed(.handshakeShed(peer.address))
      channel.resetOnClose()
      return close()
    }
    guard hold.resize(to: heldBytes + Cost.handshake, for: .connection) else {
      worker.observer.noticed(.tooLittleMemoryForConnection(peer.address))
      return close()
    }
    awaitedTLS = nil
    channel.unwatch()
    guard case .read = state.woke(.ready, at: now) else { return }
    transport.borrowBuffers()
    do {
      if try transport.receiveFirst(of: TLSSession(context)) == .established { finishHandshake() }
    } catch let error as TLSError {
      return begin(.failedTLS(error))
    } catch {
      return close()
    }
    serveReceived()
  }

  /// Returns whether the server must refuse the work of a request, because it cannot do such work in time.
  func mustShed(_ request: Request) -> Bool {
    channel.loop.assertCurrent()
    guard worker.limits.refusesLateRequests, let delay = channel.timeSinceData,
      !worker.lateness.admits(delay, at: now, limits: worker.limits)
    else { return false }
    worker.observer.noticed(.requestShed(peer.address))
    return true
  }
}

extension Worker {
  /// Adds a connection to those that wait for their handshake.
  func addHandshake(_ connection: Connection) {
    loop.assertCurrent()
    if handshakes.isEmpty { loop.atEndOfTurn { self.doHandshakes() } }
    handshakes.add(connection, of: connection.peer.holder, at: loop.now)
  }

  /// Does handshakes for as long as the rest of the turn took, and at least one, so that requests and handshakes have
  /// half of the time each.
  private func doHandshakes() {
    let began = Deadline.now
    let end = began.advanced(by: began.duration(since: loop.now))
    var now = began
    repeat {
      guard let (connection, isTimely) = handshakes.next(at: now, limits: limits) else { return }
      connection.handshakeIsDue(isTimely: isTimely)
      now = .now
    } while now < end
    if !handshakes.isEmpty { loop.atEndOfNextTurn { self.doHandshakes() } }
  }
}
