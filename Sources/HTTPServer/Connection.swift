import EventLoop
import HTTP1
import HTTP2
import HTTPMessages
import HTTPTypes
import Memory
import TLS
import Tracing

/// A connection, from the accepted descriptor to its close: its bytes, its state, and its request or HTTP/2 streams.
///
/// A connection that waits has no task and no buffer. When bytes arrive, `serve` reads, responds and writes everything
/// that needs no wait, which is all of most turns. Then the connection waits again, also if a head or content is
/// incomplete, and keeps only its bytes. A request that waits for its handler is a `RequestWork`. What waits for a peer
/// that reads slowly, or for the next part of a response, continues in a task, in `run`.
final class Connection: ChannelDelegate, @unchecked Sendable {
  // Sendable by confinement: everything runs on the channel's loop, including its tasks.
  let worker: Worker
  let transport: Transport
  var state: ConnectionState
  var peer: Peer
  /// The HTTP/1.1 request that is being read or handled.
  var request: Request?
  /// The present head if the codec has refused it, until its rest is read.
  var refused: RefusedHead?
  /// The framing of the request's content until it is read; then, and without content, `none`.
  var unreadContent = MessageFraming.none
  /// The content that the connection reads, until it is complete.
  var content: PendingContent?
  var http2: HTTP2Streams?
  var activity = Activity.none
  let hold: MemoryHold
  /// The TLS context until the handshake begins.
  var awaitedTLS: TLSContext?
  /// The address that the connection counts for; nil for a trusted proxy and behind a Unix-domain socket.
  let counted: IPAddress?
  /// How many connections the worker accepted before.
  let arrival: Int
  /// The index of the connection among the worker's.
  var place = 0

  enum Activity {
    case none
    /// A task sends, or waits for a part of a response.
    case task(Task<Void, Never>)
    /// A request waits for its handler. The content is nil if all of it has been read.
    case work(RequestWork, HTTP1Content?)

    var isNone: Bool { if case .none = self { true } else { false } }
  }

  init(_ channel: Channel, peer: SocketAddress, counted: IPAddress?, hold: MemoryHold, arrival: Int, worker: Worker) {
    (self.worker, self.hold, self.counted, self.arrival) = (worker, hold, counted, arrival)
    transport = Transport(channel, buffers: worker.buffers, memory: worker.configuration.memory)
    state = ConnectionState(limits: worker.sharedLimits)
    self.peer = Peer(peer, isTrusted: counted == nil)
  }

  var channel: Channel { transport.channel }
  var now: Deadline { transport.channel.loop.now }
  var awaitsHandshake: Bool { awaitedTLS != nil && !state.awaitsProxyHeader }

  /// Reads the bytes that have come with the connection. Without this, a flood of new connections would become a queue of
  /// accepted ones, in which established connections wait too. A TLS handshake waits for the client's first message.
  func start(_ context: TLSContext?) {
    awaitedTLS = context
    state.opened(
      at: now, awaitsProxyHeader: peer.isTrusted && worker.configuration.requiresProxyHeader, isSecure: context != nil)
    // Otherwise a flood of new connections of one client would delay all others.
    let holder = peer.client.holder
    let isGreedy = worker.waiting[.request].hasLongLine(of: holder) || worker.hasManyDeprioritised(holder)
    if isGreedy, worker.isBehind { deprioritise() }
    guard channel.rank == .first, context == nil || channel.hasInput else {
      return channel.watch(until: state.rest(at: now, grace: grace), self)
    }
    perform(state.woke(.ready, at: now))
  }

  func channel(_ channel: Channel, became readiness: Readiness) {
    channel.loop.assertCurrent()
    if channel.rank == .last { regainRank() }
    perform(state.woke(readiness, at: now))
  }

  func perform(_ action: ConnectionState.Action) {
    switch action {
    case .nothing: break
    case .read: awaitsHandshake ? waitForHandshake() : serve()
    case .wait(let deadline): channel.watch(until: deadline, self)
    case .end(let reason): end(reason)
    case .close: close()
    case .closeWhenRead: closeWhenRead()
    case .discardInput: discardInput()
    case .refuseProxyHeader: end(refused(.incomplete))
    case .expireHandshake: expireHandshake()
    case .checkHTTP2: checkHTTP2()
    case .announceGoAway:
      // Streams that the client opens until this GOAWAY arrives are still served (RFC 9113 §6.8).
      http2?.session.announceGoAway()
      flushHTTP2()
    case .sendGoAway:
      http2?.sendGoAway()
      flushHTTP2()
    case .lookForEnd: perform(state.peerActed(isEnd: channel.isAtEnd, at: now))
    case .watchForHangup(let deadline): watchForHangup(until: deadline)
    case .cancelWork(let deadline):
      channel.sleep(until: deadline, self)
      switch activity {
      case .none: break
      case .task(let task): task.cancel()
      case .work(let work, _): work.cancel()
      }
    }
  }

  /// Waits for bytes, without buffers and without a task.
  func rest() {
    if !state.keepsRequest { returnRequest() }
    transport.releaseBuffers()
    guard account() else { return reject() }
    channel.watch(until: state.rest(at: now, grace: grace), self)
  }

  /// Closes the connection unless a request is in progress or arrives soon, because the server is shutting down.
  func closeIfIdle() { perform(state.drainBegan(at: now, grace: drainGrace)) }

  /// How long a server that is shutting down keeps an idle connection: four round trips, and at least a second, because a
  /// relay hides the client's round trip, and a busy machine or a lost packet also delays a request.
  var drainGrace: Duration { max(.seconds(1), (channel.roundTrip ?? .zero) * 4) }
  var grace: Duration? { worker.stage == .closing ? drainGrace : nil }

  /// Cancels the present wait, or over HTTP/2 those of the streams, because the server's drain timeout has passed.
  func abandon() {
    guard let http2 else { return channel.cancel() }
    for stream in Array(http2.streams.values) { stream.abandon() }
    http2.sendGoAway()
    flushHTTP2()
  }

  /// Reads once, and handles everything that needs no wait. The loop reports more bytes after the other connections.
  private func serve() {
    transport.borrowBuffers()
    do throws(CloseReason) { try receive() } catch { return end(error) }
    if state.awaitsProxyHeader { return closeOrAwaitNext() }
    if awaitsHandshake { return transport.unread > 0 ? waitForHandshake() : closeOrAwaitNext() }
    serveReceived()
  }

  func serveReceived() {
    do throws(CloseReason) {
      if http2 != nil || worker.configuration.http2 == .byPreface, try serveHTTP2() { return }
      let step = try respondToInput()
      guard step.isDone else { return takeStep(step) }
    } catch { return end(error) }
    guard transport.hasResponse else { return sendAndRest() }
    transport.releaseInput()
    worker.sendSoon(self)
  }

  func sendAndRest() {
    guard channel.raw >= 0 else { return }
    do throws(CloseReason) {
      guard try transport.flushAtOnce(isLast: true) else { return takeStep(.done) }
    } catch { return end(error) }
    closeOrAwaitNext()
  }

  func closeOrAwaitNext() { transport.peerHasFinished ? closeWhenRead() : rest() }

  /// Ends the connection, after the last bytes if the peer may have them.
  func end(_ reason: CloseReason) {
    activity = .none
    transport.borrowBuffers()
    var mustLinger = true
    switch reason {
    case .gone: return close()
    case .brokenOff:
      transport.tls = nil
      channel.resetOnClose()
      return close()
    case .failedTLS(let error): return endTLS(error)
    case .finished(let lingers): mustLinger = lingers
    case .refused(let refusal): refuse(refusal)
    }
    Task(executorPreference: channel.loop) { [mustLinger] in await self.finish(lingers: mustLinger) }
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

  /// Discards input for a short time, without a task and without the request. The peer may still be sending: closing now
  /// would cause a reset, and the peer's system would discard the response (RFC 9112 §9.6).
  func linger() {
    channel.shutdownWriting()
    state.lingerBegan(at: now)
    transport.dropInput()
    content = nil
    transport.tls = nil
    discardInput()
  }

  private func discardInput() {
    guard let count = transport.discard(), state.discarded(count, at: now) else { return closeWhenRead() }
    rest()
  }

  /// Closes the connection, at once unless the kernel has many bytes that the peer has not acknowledged.
  private func closeWhenRead() {
    if transport.accepted > Self.freeOfCharge, channel.unacknowledged > Self.freeOfCharge {
      return end(.finished(lingers: false))
    }
    noticeUnfinishedHandshake()
    close()
  }

  func close() {
    guard channel.raw >= 0 else { return }
    if let http2 { http2.session.connectionLost(delegate: http2) }
    http2 = nil
    state.phase = .closed
    // The client has gone in the middle of the content.
    if content.take()?.reply != nil, let request { recordGone(request) }
    transport.close()
    // What goes on for the connection still uses the request, so the pool must not lend it again.
    if activity.isNone { returnRequest() }
    worker.forget(self)
  }
}

/// Reads and writes that wait, and the end of TLS sessions.
extension Connection {
  func receive() throws(CloseReason) {
    do {
      if state.awaitsProxyHeader {
        try receiveProxyHeader()
      } else if try transport.receive() == .established {
        try finishHandshake()
      }
    } catch let error as TLSError {
      throw .failedTLS(error)
    } catch {
      noticeUnfinishedHandshake()
      throw .gone
    }
  }

  /// Begins with requests. Negotiated HTTP/2 must follow (RFC 9113 §3.2).
  func finishHandshake() throws(CloseReason) {
    guard state.handshakeCompleted(at: now, isClosing: worker.stage == .closing) else { return }
    peer.certificate = transport.tls?.clientCertificate
    guard worker.configuration.http2 != .never, transport.tls?.applicationProtocol == HTTP2Streams.name else { return }
    try beginHTTP2()
  }

  /// Adds Strict-Transport-Security to a response over TLS. A server must not send it in plain HTTP (RFC 6797 §7.2).
  func secure(_ response: inout Response) {
    guard transport.tls != nil, !worker.strictTransportSecurity.isEmpty else { return }
    let fields = worker.strictTransportSecurity
    guard !response.fields.isEmpty else { return response.fields = fields }
    response.fields[.strictTransportSecurity] = fields[.strictTransportSecurity]
  }

  func flush() async throws(CloseReason) {
    if try !transport.flushAtOnce() { try await transmit() }
  }

  /// Writes all pending bytes. The time is limited only while the peer makes no progress.
  func transmit() async throws(CloseReason) {
    while try !transport.transmitAtOnce() {
      transport.releaseBuffers()
      guard account() else { throw .brokenOff }
      state.readerAwaited()
      let readiness = await channel.wait(for: .write, until: state.writeDeadline(at: now))
      state.readerWaitEnded()
      guard readiness == .ready else { throw .brokenOff }
    }
    transport.borrowBuffers()
  }

  /// Ends a connection after a failure of TLS: with the alert, or with plain HTTP for a client that sent plain HTTP.
  func endTLS(_ error: TLSError) {
    worker.observer.noticed(.tlsFailed(peer.address, error))
    transport.abandonTLS()
    if error.cause == .plaintextHTTP {
      refuse(.plaintextOnTLS)
      transport.putInClear()
    }
    if transport.sendAtOnce() { linger() } else { close() }
  }

  func expireHandshake() {
    // A peer without its first message gets an alert too, which needs a session.
    if let context = awaitedTLS { transport.tls = try? TLSSession(context) }
    if let error = transport.expireHandshake() { worker.observer.noticed(.tlsFailed(peer.address, error)) }
    close()
  }

  func noticeUnfinishedHandshake() {
    if let error = transport.tls?.unfinishedHandshake { worker.observer.noticed(.tlsFailed(peer.address, error)) }
  }
}

extension Connection {
  /// Sets the router, the ID, the trace and the client of a request: the ID and the client that trusted proxies name, else
  /// a new ID and the peer; the trace that any caller names, else a new one.
  func identify(_ request: Request) {
    request.router = worker.router
    request.comesByTrustedProxy = counted == nil
    let parent = request.head.hasTraceParent ? parent(of: request) : nil
    request.begin(worker.ids.next(), parent: parent, isParentTrusted: peer.isTrusted)
    let fields = request.head.forwarding
    if !fields.isEmpty { identify(request, by: fields) }
  }
}
