import EventLoop
import HTTPMessages
import Memory
import TLS

/// The work that a connection may not begin at once: TLS handshakes, and requests that wait for an upstream. They wait for
/// their turn, and under overload the server refuses them. Everything else costs no more than its refusal.
extension Connection {
  /// Whether the TLS handshake has not begun, and nothing comes before it.
  var awaitsHandshake: Bool { awaitedTLS != nil && !state.awaitsProxyHeader }

  /// Waits for the handshake's turn, and reads nothing meanwhile.
  func waitForHandshake() {
    channel.loop.assertCurrent()
    transport.releaseBuffers()
    channel.sleep(until: state.rest(at: now, grace: grace), self)
    worker.lineUp(.handshake(self), of: peer.holder)
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

  /// Returns the refusal of a request that waits for an upstream, if more such requests of the client's address wait for
  /// their turn than the server can serve in time. Behind a trusted proxy the address is the one that the proxy names.
  func refusalOfWork(for request: Request) -> ErrorResponse? {
    channel.loop.assertCurrent()
    guard worker.turns.refuses(request.holder, at: now, limits: worker.limits) else { return nil }
    worker.observer.noticed(.requestShed(client: request.clientAddress))
    return .overBusy
  }

  /// Does the work of a request when its turn comes. Throws if that is too late.
  func inTurn(_ request: Request, _ work: () async -> Response) async throws(ErrorResponse) -> Response {
    let client = request.clientAddress
    guard await worker.turn(of: request.holder) else {
      worker.observer.noticed(.requestShed(client: client))
      throw .overBusy
    }
    // The client may have gone meanwhile, and then receives no response.
    guard !Task.isCancelled else { throw .draining }
    return await work()
  }
}

/// What waits for its turn.
@safe enum AwaitedTurn {
  case handshake(Connection)
  /// A task, which receives whether to do its work.
  case work(UnsafeContinuation<Bool, Never>)
}

extension Worker {
  /// Waits for the turn of a request's work. Returns whether to do it.
  func turn(of address: MemoryBudget.Holder?) async -> Bool {
    await unsafe withUnsafeContinuation { unsafe lineUp(.work($0), of: address) }
  }

  func lineUp(_ work: AwaitedTurn, of address: MemoryBudget.Holder?) {
    loop.assertCurrent()
    turns.add(work, of: address, at: loop.now)
    guard !takesTurns else { return }
    takesTurns = true
    loop.atEndOfTurn { self.takeTurns() }
  }

  private var isBehind: Bool { loop.backlog > limits.promptTurn || listeners.contains { $0.hasMore } }

  /// Does expensive work for as long as the rest of the turn took, so that cheap and expensive work have half of the time
  /// each. While the loop is behind with ready descriptors or new connections, it does only one piece: begun requests also
  /// cost time later, and more of them than the loop can complete would make all of them late.
  private func takeTurns() {
    let began = Deadline.now
    let end = began.advanced(by: began.duration(since: loop.now))
    var now = began
    var mayGoOn: Bool
    repeat {
      guard let (work, isTimely) = turns.next(at: now, limits: limits) else { break }
      switch work {
      case .handshake(let connection): connection.handshakeIsDue(isTimely: isTimely)
      case .work(let task):
        unsafe task.resume(returning: isTimely)
        loop.runTasks()
      }
      now = .now
      mayGoOn = !isTimely || !isBehind
    } while now < end && mayGoOn
    takesTurns = !turns.isEmpty
    if takesTurns { loop.atEndOfNextTurn { self.takeTurns() } }
  }
}
