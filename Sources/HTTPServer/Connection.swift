import EventLoop
import HTTP1
import Memory
import TLS

/// One connection, from the accepted descriptor to its close.
///
/// While it rests, this object and its TLS session are all there is: no task, no buffer. When bytes come, `serve` reads,
/// answers and writes what needs no wait, which is all of most turns, and rests again. What has to wait, for the rest of
/// a body or for a peer that reads slowly, goes on in a task, in `run`. A head that has come half rests as well, with the
/// bytes that there are.
final class Connection: ChannelDelegate, @unchecked Sendable {
  // Sendable by confinement: everything runs on the channel's loop, its tasks included.

  let channel: Channel
  let worker: Worker
  /// The address at the other end of TCP, or the one that the PROXY header names.
  private(set) var peer: SocketAddress
  /// The peer in logs. It is made once for all requests of the connection.
  private(set) var clientAddress = ""
  /// The peer as shares and limits count it.
  private(set) var rateLimitPrefix = ""
  /// Whether what the peer says about others counts.
  var isFromTrustedProxy: Bool
  /// Whether the other end of TCP is a trusted proxy, whatever it says about who is behind it.
  let comesByTrustedProxy: Bool
  /// Whether a PROXY header is still to come.
  var awaitsProxyHeader: Bool

  /// Received plaintext, of which the first `consumed` bytes are dealt with.
  var input: [UInt8] = []
  var consumed = 0
  /// Responses in plaintext that have not been written.
  var output: [UInt8] = []
  /// A handler's own array, sent behind `outgoing` and not copied; the socket or TLS has taken the first `bodySent` bytes.
  /// Charged as shared while it is here.
  var body: [UInt8] = []
  var bodySent = 0
  /// Bytes on their way to the socket, of which it has taken the first `sent`.
  var outgoing: [UInt8] = []
  var sent = 0

  /// The socket has nothing more at present.
  var readWouldBlock = false
  /// The peer has said that it sends no more.
  var peerHasFinished = false
  /// The request that is being read or answered.
  var request: Request?
  /// Content of `request` that is still to come; nil if none is waited for at rest.
  var pendingContent: PendingContent?
  /// Whether the connection is over, and only waits for the peer to take what the kernel still has.
  var isUnread = false
  /// Whether a task does the work behind a request, or waits for the parts of its response.
  var isWorking = false
  /// The task that does what has to wait; nil while nothing does.
  var task: Task<Void, Never>?
  /// What ended the work behind a request before it was done.
  var interruption: CloseReason?
  /// Whether the connection watches only for the end of the peer's bytes, because it has bytes that are not read yet.
  var watchesHangup = false
  /// Nil for HTTP/1.1.
  var http2: HTTP2Connection?
  /// Whether the HTTP/2 session is at work: what it has to say goes out at the end of that.
  var isServing = false
  /// Nil for plain HTTP.
  var tls: TLSSession?
  /// Who the client has shown to be in the TLS handshake.
  var clientCertificate: ClientCertificate?
  /// When all must be there that comes before the first request, PROXY header and TLS handshake; nil afterwards.
  var handshakeDeadline: Deadline?
  /// When the header section that has begun must be complete; nil while none has.
  var headDeadline: Deadline?
  /// What the peer may still send after the last response, and until when; nil before that.
  private(set) var lingering: (deadline: Deadline, discarded: Int)?
  private(set) var idleDeadline: Deadline?

  /// Whom it is charged to, as long as no request is; nil for a trusted proxy.
  var holder: MemoryBudget.Holder?
  /// What it is charged.
  let hold: MemoryHold
  private let counted: IPAddress?
  private(set) var hasCarriedRequest = false
  var isResting = true

  init(
    _ channel: Channel, peer: SocketAddress, counted: IPAddress?, isFromTrustedProxy: Bool, hold: MemoryHold,
    worker: Worker
  ) {
    self.hold = hold
    holder = counted?.bits
    self.channel = channel
    self.peer = peer
    self.counted = counted
    self.isFromTrustedProxy = isFromTrustedProxy
    comesByTrustedProxy = isFromTrustedProxy
    self.worker = worker
    awaitsProxyHeader = isFromTrustedProxy && worker.requiresProxyHeader
    setPeer(peer)
  }

  /// Takes `peer` for the one at the other end.
  func setPeer(_ peer: SocketAddress) {
    self.peer = peer
    clientAddress = peer.ipAddress?.description ?? "unix"
    rateLimitPrefix = peer.ipAddress.map { $0.isIPv4 ? clientAddress : $0.rateLimitPrefix.description } ?? clientAddress
  }

  var now: Deadline { channel.loop.now }

  /// Waits for the first bytes.
  func start(_ context: TLSContext?) {
    if let context {
      do throws(TLSError) { tls = try TLSSession(context) } catch {
        worker.observer.noticed(.tlsFailed(peer, error))
        return close()
      }
    }
    if tls != nil || awaitsProxyHeader { handshakeDeadline = now.advanced(by: worker.limits.tlsHandshake) }
    channel.watch(until: restDeadline(), self)
  }

  // MARK: At rest

  func channel(_ channel: Channel, became readiness: Readiness) {
    guard isResting else { return interrupt(readiness) }
    isResting = false
    switch readiness {
    case .ready where lingering != nil: discardInput()
    case .timedOut where lingering != nil, .cancelled where lingering != nil: endLinger()
    case .ready: serve()
    case .timedOut where pendingContent != nil: begin(endingOfContent(.bodyTimeout))
    case .cancelled where pendingContent != nil: begin(endingOfContent(.draining))
    case .timedOut where headDeadline != nil: begin(.refused(.headTimeout))
    case .cancelled where headDeadline != nil: begin(.refused(.draining))
    case .timedOut where awaitsProxyHeader: begin(refused(.incomplete))
    case .timedOut where http2?.mustSendGoAway == true: sendGoAway()
    case .timedOut where handshakeDeadline != nil: expireHandshake()
    case .timedOut, .cancelled: close()
    }
  }

  private func endingOfContent(_ refusal: Refusal) -> CloseReason {
    pendingContent?.ending(refusal) ?? .refused(refusal)
  }

  /// Until when it may rest. Only a request moves the end of an idle connection: bytes that come to nothing, such as a
  /// dripped TLS record, do not.
  private func restDeadline() -> Deadline {
    if let deadline = lingering?.deadline ?? handshakeDeadline ?? headDeadline ?? pendingContent?.deadline {
      return deadline
    }
    let deadline = idleDeadline ?? now.advanced(by: worker.stage == .closing ? drainGrace : worker.limits.idle)
    idleDeadline = deadline
    return deadline
  }

  /// Gives back what was borrowed, and waits for bytes without a task.
  func rest() {
    if pendingContent == nil, headDeadline == nil { returnRequest() }
    releaseBuffers()
    guard account() else { return turnAway() }
    isResting = true
    channel.watch(until: restDeadline(), self)
  }

  /// Closes it unless a request is under way or comes soon; for a server that is going.
  ///
  /// A client may be about to send, or have sent: a close that crosses a request loses it. The response to that request
  /// says that it is the last.
  func closeIfIdle() {
    if let http2 { return announceEnd(of: http2) }
    guard isResting, headDeadline == nil, handshakeDeadline == nil, pendingContent == nil, lingering == nil else {
      return
    }
    idleDeadline = min(idleDeadline ?? .never, now.advanced(by: drainGrace))
    channel.watch(until: restDeadline(), self)
  }

  /// How long a connection at rest is kept by a server that is going: four round trips, and never less than a second,
  /// because a relay hides the client's round trip, and a busy machine or a lost packet delays a request as well.
  var drainGrace: Duration { max(.seconds(1), (channel.roundTrip ?? .zero) * 4) }

  /// Ends whatever it waits for; for a server that has waited long enough.
  func abandon() {
    channel.cancel()
  }

  // MARK: Busy

  /// Reads, and handles all that needs no wait. If more has arrived than one read takes, the loop reports it again,
  /// after the other connections have had their turn.
  private func serve() {
    borrowBuffers()
    do throws(CloseReason) {
      try receive()
      if awaitsProxyHeader { return closeOrAwaitNext() }
      if try serveHTTP2() { return }
      let remainder = try respondToInput()
      guard case .nothing = remainder, try flushAtOnce() else { return begin(remainder) }
    } catch { return begin(error) }
    closeOrAwaitNext()
  }

  /// Does what is left of a turn, and waits where it has to.
  private func run(_ remainder: PendingStep) async {
    do throws(CloseReason) {
      var remainder = remainder
      repeat {
        if isPending { try await flush() }
        try await finish(remainder)
        if isPending { try await flush() }
        remainder = try respondToInput()
      } while !remainder.isNothing
      try await flush()
    } catch { return await end(with: error) }
    task = nil
    closeOrAwaitNext()
  }

  private func closeOrAwaitNext() {
    guard peerHasFinished else { return rest() }
    if channel.unacknowledged > Self.freeOfCharge { return begin(.finished(lingers: false)) }
    noticeUnfinishedHandshake()
    close()
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

  /// Answers the requests in `input`, up to one that has to wait.
  private func respondToInput() throws(CloseReason) -> PendingStep {
    for _ in 0..<Self.requestsInOneGo {
      guard let remainder = try respondToNext() else { return .nothing }
      guard remainder.isNothing else { return remainder }
      if output.count >= worker.limits.sendBuffer { return .turn }
      // What follows must not be written before it.
      if !body.isEmpty, try !flushAtOnce() { return .turn }
    }
    return .turn
  }

  /// Goes on with the content that is read, or else with the next request; nil if more bytes have to come.
  private func respondToNext() throws(CloseReason) -> PendingStep? {
    if pendingContent != nil { return try continueContent() }
    guard try parseHead() else { return nil }
    let remainder = try respondImmediately()
    guard let request else { return remainder }
    switch remainder {
    case .content(let limit, let reply, let router): try beginContent(of: request, .reply(limit: limit, reply, router))
    case .unreadBody: try beginContent(of: request, .none(limit: worker.limits.unreadBody))
    case .nothing, .work, .stream, .turn: return remainder
    }
    // A response before it, with a body of its own, goes first.
    return try body.isEmpty ? continueContent() : .nothing
  }

  /// Whether a whole head is there; it is `request` then, its bytes are consumed.
  private func parseHead() throws(CloseReason) -> Bool {
    guard consumed < input.count, !skipsEmptyLine() else { return false }
    let request = self.request ?? borrowRequest()
    do {
      let bytes = input
      let unread = bytes.span.extracting(consumed...)
      guard let length = try request.parser.parse(unread) else { return false }
      request.keep(unread.extracting(..<length))
      consumed += length
      headDeadline = nil
      idleDeadline = nil
      hasCarriedRequest = true
      return true
    } catch {
      throw .refused(Refusal(error))
    }
  }

  /// Some clients send an empty line behind a body (RFC 9112 §2.2). As long as nothing follows, no request has begun.
  private func skipsEmptyLine() -> Bool {
    guard request == nil, input.count - consumed == 2, input[consumed] == 0x0D, input[consumed + 1] == 0x0A else {
      return false
    }
    consumed = input.count
    return true
  }

  func borrowRequest() -> Request {
    let request = worker.lendRequest()
    request.clientAddress = clientAddress
    request.rateLimitPrefix = rateLimitPrefix
    request.holder = holder
    request.clientCertificate = clientCertificate
    request.received = now
    self.request = request
    headDeadline = now.advanced(by: worker.limits.headerSection)
    return request
  }

  func returnRequest() {
    if let request = request.take() { worker.takeBack(request) }
  }

  // MARK: The end

  /// Says what there is left to say, and closes.
  private func end(with ending: CloseReason) async {
    task = nil
    borrowBuffers()
    switch ending {
    case .gone:
      close()
    case .brokenOff:
      tls = nil
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
      tls?.close(outgoing: &outgoing)
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
    channel.shutdownWriting()
    lingering = (now.advanced(by: worker.limits.linger), 0)
    consumed = input.count
    (pendingContent, headDeadline, handshakeDeadline, tls) = (nil, nil, nil, nil)
    discardInput()
  }

  private func discardInput() {
    guard let deadline = lingering?.deadline, var discarded = lingering?.discarded else { return }
    var scratch = worker.lendBuffer()
    let reading = try? channel.receive(into: &scratch, atMost: worker.limits.receiveBuffer)
    worker.takeBack(scratch)
    switch reading {
    case .bytes(let count): discarded += count
    case .wouldBlock: break
    case .end, nil: return endLinger()
    }
    guard discarded < worker.limits.lingerBytes, now < deadline else { return endLinger() }
    lingering = (deadline, discarded)
    rest()
  }

  private func endLinger() {
    lingering = nil
    guard channel.unacknowledged > Self.freeOfCharge else { return close() }
    Task(executorPreference: channel.loop) {
      await self.waitForReader()
      self.close()
    }
  }

  func close() {
    guard channel.raw >= 0 else { return }
    http2?.abandon()
    http2 = nil
    closeTLS()
    dropBody()
    pendingContent = nil
    // Closing the channel may report the end of a wait to this object, which then comes here again.
    channel.close()
    returnRequest()
    consumed = input.count
    outgoing = []
    sent = 0
    releaseBuffers()
    tls = nil
    worker.forget(self, counted: counted)
  }
}
