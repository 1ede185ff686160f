import EventLoop
import HTTP1
import Memory
import TLS

/// One connection, from the accepted descriptor to its close.
///
/// `transport` has its bytes, `state` decides what happens next, `exchange` is the present request of HTTP/1.1. This class
/// connects them with the loop and the handlers.
///
/// While it rests there is no task and no buffer. When bytes come, `serve` reads, responds and writes what needs no wait,
/// which is all of most turns, and rests again. What has to wait, for a handler or for a peer that reads slowly, goes on
/// in a task, in `run`. A head or content that is incomplete rests as well, with the bytes that there are.
final class Connection: ChannelDelegate, @unchecked Sendable {
  // Sendable by confinement: everything runs on the channel's loop, its tasks included.

  let worker: Worker
  let transport: Transport
  var state: ConnectionState
  var peer: Peer
  var exchange = HTTP1Exchange()
  /// Nil for HTTP/1.1.
  var http2: HTTP2Connection?
  /// The task that does what has to wait; nil while nothing does.
  var task: Task<Void, Never>?
  /// What it is charged.
  let hold: MemoryHold
  private let counted: IPAddress?

  init(
    _ channel: Channel, peer: SocketAddress, counted: IPAddress?, isFromTrustedProxy: Bool, hold: MemoryHold,
    worker: Worker
  ) {
    self.worker = worker
    self.hold = hold
    self.counted = counted
    transport = Transport(channel, buffers: worker.buffers, memory: worker.memory)
    state = ConnectionState(limits: worker.sharedLimits)
    self.peer = Peer(peer, isTrusted: isFromTrustedProxy, holder: counted?.bits)
  }

  var channel: Channel { transport.channel }
  var now: Deadline { transport.channel.loop.now }

  /// Waits for the first bytes.
  func start(_ context: TLSContext?) {
    channel.loop.assertCurrent()
    if let context {
      do throws(TLSError) { transport.tls = try TLSSession(context) } catch {
        worker.observer.noticed(.tlsFailed(peer.address, error))
        return close()
      }
    }
    state.opened(
      at: now, awaitsProxyHeader: peer.isTrusted && worker.requiresProxyHeader, isSecure: context != nil)
    channel.watch(until: state.rest(at: now, grace: grace), self)
  }

  // MARK: At rest

  func channel(_ channel: Channel, became readiness: Readiness) {
    channel.loop.assertCurrent()
    perform(state.woke(readiness, at: now))
  }

  /// Does what the state says.
  func perform(_ action: ConnectionState.Action) {
    channel.loop.assertCurrent()
    switch action {
    case .nothing: break
    case .read: serve()
    case .wait(let deadline): channel.watch(until: deadline, self)
    case .end(let reason): begin(reason)
    case .close: close()
    case .closeWhenRead: closeWhenRead()
    case .discardInput: discardInput()
    case .refuseProxyHeader: begin(refused(.incomplete))
    case .expireHandshake: expireHandshake()
    case .announceGoAway:
      http2?.announceGoAway()
      flushHTTP2()
    case .sendGoAway:
      http2?.sendGoAway()
      flushHTTP2()
    case .lookForEnd: perform(state.peerActed(isEnd: channel.isAtEnd, at: now))
    case .watchForHangup(let deadline): watchForHangup(until: deadline)
    case .cancelWork(let deadline):
      channel.sleep(until: deadline, self)
      task?.cancel()
    case .abandonWork:
      // The request is still the handler's own: the pool must not lend it again.
      exchange.request = nil
      close()
    }
  }

  /// Gives back what was borrowed, and waits for bytes without a task.
  func rest() {
    channel.loop.assertCurrent()
    if !state.keepsRequest { returnRequest() }
    transport.releaseBuffers()
    guard account() else { return turnAway() }
    channel.watch(until: state.rest(at: now, grace: grace), self)
  }

  /// Closes it unless a request is under way or comes soon; for a server that is going.
  func closeIfIdle() {
    channel.loop.assertCurrent()
    perform(state.drainBegan(at: now, grace: drainGrace))
  }

  /// How long a connection at rest is kept by a server that is going: four round trips, and never less than a second,
  /// because a relay hides the client's round trip, and a busy machine or a lost packet delays a request as well.
  private var drainGrace: Duration { max(.seconds(1), (channel.roundTrip ?? .zero) * 4) }

  /// The same if the server closes its connections; nil before that.
  var grace: Duration? { worker.stage == .closing ? drainGrace : nil }

  /// Ends whatever it waits for; for a server that has waited long enough.
  func abandon() {
    channel.loop.assertCurrent()
    channel.cancel()
  }

  // MARK: Busy

  /// Reads, and handles all that needs no wait. If more has arrived than one read takes, the loop reports it again,
  /// after the other connections have had their turn.
  private func serve() {
    channel.loop.assertCurrent()
    transport.borrowBuffers()
    do throws(CloseReason) {
      try receive()
      if state.awaitsProxyHeader { return closeOrAwaitNext() }
      if try serveHTTP2() { return }
      let remainder = try respondToInput()
      guard case .nothing = remainder, try transport.flushAtOnce() else { return begin(remainder) }
    } catch { return begin(error) }
    closeOrAwaitNext()
  }

  /// Does what is left of a turn, and waits where it has to.
  private func run(_ remainder: PendingStep) async {
    channel.loop.assertCurrent()
    do throws(CloseReason) {
      var remainder = remainder
      repeat {
        if transport.isPending { try await flush() }
        try await finish(remainder)
        if transport.isPending { try await flush() }
        remainder = try respondToInput()
      } while !remainder.isNothing
      try await flush()
    } catch { return await end(with: error) }
    task = nil
    closeOrAwaitNext()
  }

  private func closeOrAwaitNext() {
    guard transport.peerHasFinished else { return rest() }
    closeWhenRead()
  }

  private func begin(_ remainder: PendingStep) {
    // An unstructured task does not inherit the preference: without it, it would run on the global pool.
    task = Task(executorPreference: channel.loop) { await self.run(remainder) }
  }

  private func begin(_ ending: CloseReason) {
    if case .gone = ending { return close() }
    Task(executorPreference: channel.loop) { await self.end(with: ending) }
  }

  /// How many requests a connection may have answered before the others of its loop have a turn: with a signature each,
  /// these take about two milliseconds.
  private static let requestsInOneGo = 64

  /// Answers the requests in the input, up to one that has to wait.
  private func respondToInput() throws(CloseReason) -> PendingStep {
    for _ in 0..<Self.requestsInOneGo {
      guard let remainder = try respondToNext() else { return .nothing }
      guard remainder.isNothing else { return remainder }
      if transport.output.count >= worker.limits.sendBuffer { return .turn }
      // What follows must not be written before it.
      if !transport.body.isEmpty, try !transport.flushAtOnce() { return .turn }
    }
    return .turn
  }

  // MARK: The end

  /// Says what there is left to say, and closes.
  private func end(with ending: CloseReason) async {
    task = nil
    transport.borrowBuffers()
    switch ending {
    case .gone:
      close()
    case .brokenOff:
      transport.tls = nil
      channel.resetOnClose()
      close()
    case .finished(let lingers):
      await finish(lingers: lingers)
    case .refused(let refusal):
      refuse(refusal)
      await finish(lingers: true)
    case .failedTLS(let error):
      endTLS(error)
    }
  }

  private func finish(lingers: Bool) async {
    do throws(CloseReason) {
      try await flush()
      transport.announceEndOfTLS()
      try await transmit()
    } catch { return close() }
    if lingers { return linger() }
    await waitForReader()
    close()
  }

  /// Reads on for a little while, and discards what comes. The peer may still be sending: closing now would answer that
  /// with a reset, and the peer's system would throw away the response (RFC 9112 §9.6).
  ///
  /// The connection rests meanwhile, without the request, which refused peers could otherwise make the server keep.
  func linger() {
    channel.loop.assertCurrent()
    channel.shutdownWriting()
    state.lingerBegan(at: now)
    transport.dropInput()
    exchange.dropContent()
    transport.tls = nil
    discardInput()
  }

  private func discardInput() {
    guard let count = transport.discard(), case .wait = state.discarded(count, at: now) else { return closeWhenRead() }
    rest()
  }

  /// Closes, at once unless the kernel has much that the peer has not acknowledged.
  private func closeWhenRead() {
    if channel.unacknowledged > Self.freeOfCharge { return begin(.finished(lingers: false)) }
    noticeUnfinishedHandshake()
    close()
  }

  func close() {
    channel.loop.assertCurrent()
    guard channel.raw >= 0 else { return }
    http2?.abandon()
    http2 = nil
    state.closed()
    exchange.dropContent()
    transport.close()
    returnRequest()
    worker.forget(self, counted: counted)
  }
}
