import Bytes
import EventLoop
import HTTP1
import HTTP2
import HTTPMessages
import HTTPTypes

/// The HTTP/2 part of a connection (RFC 9113): its session and its streams. The parser and the serializer are those of
/// HTTP/1.1, so both versions refuse the same requests, and handlers see the same data.
final class HTTP2Streams {
  let session: HTTP2Session
  let connection: Connection
  private(set) var streams: [HTTP2StreamID: HTTP2Stream] = [:]
  /// Whether the session is processing. Its output is sent at the end of that.
  var isServing = false
  /// The bytes that its streams hold: heads and received content.
  var contentBytes = 0
  var deadlines: HTTP2Deadlines
  private var hasNotedFailure = false

  /// The name of HTTP/2 in ALPN (RFC 9113 §3.1).
  static let name = "h2"
  /// The preface with which a client starts HTTP/2 without negotiation (RFC 9113 §3.4).
  static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

  init(_ connection: Connection) throws(HTTP2Error) {
    self.connection = connection
    deadlines = HTTP2Deadlines(at: connection.now)
    session = try HTTP2Session(.server, limits: HTTP2Limits(connection.worker.limits.http1))
  }

  var isIdle: Bool { streams.isEmpty }
  var awaitsPeer: Bool { streams.values.allSatisfy(\.awaitsPeer) }

  /// The memory that is held beyond that of the session.
  var heldBytes: Int { contentBytes + streams.count * Connection.Cost.stream + streams.capacity * Self.placeOfStream }

  /// The bytes of a place in the table of streams, a third of which stay empty.
  private static let placeOfStream = 20

  func note(_ misconduct: HTTP2Misconduct) {
    connection.worker.observer.noticed(.http2Misconduct(connection.peer.address, misconduct))
  }

  /// Notifies the observer once of the error that has ended the session.
  func noteFailure() {
    guard !hasNotedFailure, let misconduct = HTTP2Misconduct(session.failure) else { return }
    hasNotedFailure = true
    note(misconduct)
  }

  /// Accepts no new streams; open streams continue. Returns false if the client knows that already.
  @discardableResult
  func sendGoAway() -> Bool {
    guard connection.state.goAwaySent() else { return false }
    session.goAway()
    return true
  }
}

extension HTTP2Streams: HTTP2SessionDelegate {
  func receivedRequest(_ request: HTTP2ReceivedRequest, on id: HTTP2StreamID) {
    let stream = HTTP2Stream(id, of: self)
    streams[id] = stream
    connection.state.hasCarriedRequest = true
    stream.receive(request)
  }

  /// Records the request, so that no volume of such requests is invisible.
  func lostRequest(_ closure: HTTP2StreamClosure) {
    let request = connection.worker.lendRequest(to: connection)
    connection.identify(request)
    let status =
      switch closure.cause {
      case .malformed: 400
      case .fieldSectionTooLarge: 431
      default: Connection.clientClosedRequest
      }
    connection.worker.observer.completed(request, Response(.init(code: status)), bytes: 0)
    connection.worker.takeBack(request)
  }

  func receivedContent(_ content: Span<UInt8>, on stream: HTTP2StreamID) { streams[stream]?.receive(content) }
  func receivedEnd(on stream: HTTP2StreamID) { streams[stream]?.receiveEnd() }
  func hasRoom(on stream: HTTP2StreamID) { streams[stream]?.hasRoom() }

  func streamClosed(_ stream: HTTP2StreamID, _ closure: HTTP2StreamClosure) {
    streams[stream]?.closed()
    streams[stream] = nil
    deadlines.beginIdleTime(at: connection.now)
  }
}

/// The received content of a request on a stream. What is unread counts against the stream's window.
final class HTTP2Content: ContentReader, @unchecked Sendable {
  // Sendable by confinement, like the connection.
  private weak var stream: HTTP2Stream?
  private var received: [UInt8] = []
  private var isFinished = false
  private var failure: ContentError?
  private var wake: (() -> Void)?

  init(of stream: HTTP2Stream) { self.stream = stream }

  var isEmpty: Bool { received.isEmpty }
  var capacity: Int { received.capacity }

  func append(_ bytes: Span<UInt8>) {
    received.append(copying: bytes)
    wake.take()?()
  }

  func finish() {
    isFinished = true
    wake.take()?()
  }

  func fail(_ error: ContentError) {
    guard !isFinished else { return }
    failure = failure ?? error
    wake.take()?()
  }

  /// Ends the content, because the client has gone. Without what no reader has taken, it is incomplete.
  func breakOff() {
    if !received.isEmpty { (received, isFinished) = ([], false) }
    fail(.broken("The client closed the connection."))
  }

  func cancel() { fail(.cancelled) }

  func read() async throws(ContentError) -> [UInt8]? {
    while received.isEmpty {
      if let failure { throw failure }
      if isFinished { return nil }
      if let stream, stream.sendContinue() { stream.connection.flushHTTP2() }
      await unsafe withUnsafeContinuation { continuation in
        wake = { unsafe continuation.resume() }
      }
    }
    let part = received
    received = []
    stream?.contentWasRead(part.count)
    return part
  }
}

/// A connection that speaks HTTP/2: chosen by ALPN over TLS, or by its preface in plaintext (RFC 9113 §3.2, §3.3).
///
/// Nothing here needs a task: the socket is watched for reading and writing at the same time.
extension Connection {
  /// Processes the received bytes if the connection speaks HTTP/2. Returns false if it does not.
  func serveHTTP2() throws(CloseReason) -> Bool {
    if http2 == nil, worker.configuration.http2 == .byPreface {
      switch startsWithPreface() {
      case false?: return false
      case nil:
        state.prefaceBegan(at: now)
        rest()
        return true
      case true?: try beginHTTP2()
      }
    }
    guard let http2 else { return false }
    http2.isServing = true
    let bytes = transport.input
    // An error is in the session's `failure`, which `drive` reports.
    let goesOn = (try? http2.session.receive(bytes.span.extracting(transport.consumed...), delegate: http2)) != nil
    transport.dropInput()
    http2.isServing = false
    try drive(http2, goesOn: goesOn)
    return true
  }

  /// Begins the session. Without the preface of the client, it ends with an error (RFC 9113 §3.4).
  func beginHTTP2() throws(CloseReason) {
    let http2: HTTP2Streams
    do { http2 = try HTTP2Streams(self) } catch { throw .gone }
    self.http2 = http2
    state.upgraded(at: now, grace: worker.stage == .serving ? nil : drainGrace)
    if worker.stage != .serving { http2.session.announceGoAway() }
  }

  /// Returns whether HTTP/2 begins, or nil if more bytes are needed to decide.
  private func startsWithPreface() -> Bool? {
    guard !state.hasCarriedRequest, transport.unread > 0 else { return false }
    let (received, preface) = (transport.input[transport.consumed...], HTTP2Streams.preface)
    if received.starts(with: preface) { return true }
    return preface.starts(with: received) ? nil : false
  }

  /// Sends the session's output outside of the connection's own turn.
  func flushHTTP2() {
    guard let http2, !http2.isServing, channel.raw >= 0 else { return }
    channel.unwatch()
    transport.borrowBuffers()
    do throws(CloseReason) { try drive(http2, goesOn: true) } catch { close() }
  }

  private func drive(_ http2: HTTP2Streams, goesOn: Bool) throws(CloseReason) {
    http2.isServing = true
    defer { http2.isServing = false }
    // Bytes that the socket has not accepted yet go first.
    var isFlushed = try transport.transmitAtOnce()
    var rounds = 0
    while isFlushed, http2.session.wantsWrite, rounds < Self.roundsInOneGo {
      http2.session.collectOutput(into: &transport.output, limit: worker.limits.sendBuffer, delegate: http2)
      isFlushed = try transport.flushAtOnce()
      rounds += 1
    }
    http2.noteFailure()
    let isDone = http2.session.isOver || !goesOn
    if transport.peerHasFinished || (isDone && isFlushed) { return close() }
    transport.releaseBuffers()
    guard account() else { return reject() }
    let isPending = !isFlushed || http2.session.wantsWrite
    let look = http2.deadlines.rest(waits(of: http2, isPending: isPending), at: now, worker.limits)
    channel.watch(for: isPending ? [.read, .write] : .read, until: state.restOfHTTP2(until: look), self)
  }

  private func waits(of http2: HTTP2Streams, isPending: Bool) -> HTTP2Deadlines.Waits {
    HTTP2Deadlines.Waits(
      hasStreams: !http2.isIdle, frame: http2.session.incompleteFrame, accepted: isPending ? transport.accepted : nil)
  }

  func checkHTTP2() {
    guard let http2 else { return }
    let isPending = transport.isPending || http2.session.wantsWrite
    switch http2.deadlines.expiry(of: waits(of: http2, isPending: isPending), at: now, worker.limits) {
    case .nothing: for stream in Array(http2.streams.values) { stream.look(at: now) }
    case .idle:
      // An incomplete frame does not keep open what has had its GOAWAY.
      guard http2.sendGoAway() || isPending else { return close() }
      http2.deadlines.beginIdleTime(at: now)
    case .frame:
      http2.note(.slowFrame)
      _ = state.goAwaySent()
      http2.session.terminate(.enhanceYourCalm)
    case .writing:
      http2.note(.slowReader)
      return close()
    }
    flushHTTP2()
  }

  /// The maximum number of writes that fill the socket before the loop's other connections have a turn.
  private static let roundsInOneGo = 16
}

extension ConnectionState {
  /// The stages of closing an HTTP/2 connection (RFC 9113 §6.8).
  enum GoAway: Equatable {
    case none
    /// The first GOAWAY is sent: the client should open no more streams. That with the last stream follows in time.
    case announced(until: Deadline)
    case sent
  }

  /// Records bytes that may be the preface of HTTP/2 or a request. A further part does not change the deadline.
  mutating func prefaceBegan(at now: Deadline) {
    if case .head = phase { return }
    headBegan(at: now)
  }

  /// Begins HTTP/2. In a server that drains, the first GOAWAY is sent at once.
  mutating func upgraded(at now: Deadline, grace: Duration?) {
    phase = .http2(grace.map { .announced(until: now.advanced(by: $0)) } ?? .none)
  }

  /// Records that the GOAWAY with the last stream is sent. Returns false if it was sent before.
  mutating func goAwaySent() -> Bool {
    guard case .http2(let goAway) = phase, goAway != .sent else { return false }
    phase = .http2(.sent)
    return true
  }
}

extension HTTP2Limits {
  /// Creates limits that refuse no header section that HTTP/1.1 accepts: HTTP/2 also counts the request line, and for each
  /// field 32 bytes instead of 4 (RFC 9113 §6.5.2).
  init(_ limits: HTTP1Limits) {
    self.init()
    fieldSection = limits.headerSection + limits.requestLine + limits.fieldLines * 28
    // A limit that the operator has raised leaves room for a refusal, too.
    refusedSection = max(refusedSection, fieldSection + fieldSection / 4)
    fieldLines = limits.fieldLines
  }
}
