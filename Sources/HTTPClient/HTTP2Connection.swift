import Bytes
import ClientTransport
import EventLoop
import HTTP1
import HTTP2
import HTTPMessages
import HTTPTypes

/// One HTTP/2 connection to the upstream, with as many concurrent exchanges as it allows. Confined to its loop.
final class HTTP2Connection: UpstreamConnection, ByteTransportOwner {
  private let transport: ByteTransport
  private let session: HTTP2Session
  private let configuration: UpstreamClient.Configuration
  private let authority: String
  /// The pool, until the connection has left it.
  private var pool: UpstreamClient?
  /// The number of the connection, unique within the process.
  private let number: UInt64
  private var exchanges: [HTTP2StreamID: UpstreamExchange] = [:]
  private(set) var hasCarried = false
  private var hasAnswered = false
  private var isDraining = false
  /// Whether the peer's settings, which state how many streams it allows, have not arrived.
  private(set) var isSettling = true
  private var liveness: Liveness
  /// The peer's last GOAWAY.
  private var goAway: HTTP2GoAway?
  /// The end of the transport. Nil while it is open, or if this side closed it because the session is over.
  private var transportEnd: ByteTransportEnd?

  /// The streams to open before the peer's settings arrive. Streams beyond its limit are returned as unprocessed.
  private static let presumedStreams = 10
  /// The most output for the kernel at a time, in bytes. A reset can still replace output that the session keeps.
  private static let backlog = 131_072

  init(
    _ transport: ByteTransport, _ configuration: UpstreamClient.Configuration, pool: UpstreamClient, number: UInt64
  ) throws(HTTP2Error) {
    var limits = HTTP2Limits()
    limits.concurrentStreams = configuration.limits.concurrentStreams
    limits.streamWindow = max(configuration.limits.bufferedContent, 65_535)
    session = try HTTP2Session(.client, limits: limits)
    (self.transport, self.configuration, self.pool, self.number) = (transport, configuration, pool, number)
    authority = configuration.authority
    liveness = Liveness(configuration.limits, since: transport.now)
    transport.owner = self
    transport.deadline = liveness.deadline
    transport.flushSoon()
  }

  var room: Int {
    guard transport.isOpen, !isDraining, session.canOpenStream else { return 0 }
    return (isSettling ? Self.presumedStreams : session.limits.concurrentStreams) - session.openStreams
  }

  /// Every frame names its stream, so received bytes can never belong to the wrong request.
  func prepare() -> Bool { transport.isOpen }

  func drain() {
    guard !isDraining else { return }
    isDraining = true
    pool?.connectionDrains(self)
    flushOrLeaveLater()
  }

  func carry(_ exchange: UpstreamExchange) throws(Unsendable) {
    let request = exchange.request
    let id: HTTP2StreamID
    do {
      id = try session.submitRequest(head(of: request), hasContent: request.content != nil)
    } catch {
      if case .fieldSectionTooLarge(let limit) = error { throw .fieldSectionTooLarge(limit: limit) }
      let words =
        error == .malformedMessage
        ? "The request's control data are malformed." : "The request cannot be sent over HTTP/2 (\(error))."
      throw .malformed(UpstreamError(.proxyInternalError, .unprocessed, words))
    }
    hasCarried = true
    exchange.stream = id
    exchanges[id] = exchange
    if exchanges.count == 1 { watch { $0.becameBusy(at: transport.now) } }
    transport.flushSoon()
    exchange.sent(by: self)
  }

  private func head(of request: UpstreamRequest) -> HTTP2RequestHead {
    var fields = request.fields
    // The session removes the other connection-specific fields.
    for name in Self.ownFields { fields.remove(name) }
    if let length = request.contentLength, request.content != nil { fields[.contentLength] = "\(length)" }
    return HTTP2RequestHead(
      method: request.method.rawValue, scheme: configuration.scheme.rawValue, authority: authority,
      path: request.target, fields: fields, credential: request.credential)
  }

  /// Fields of requests that are the connection's own, or that it never sends.
  private static let ownFields: [StaticString] = ["content-length", "te", "trailer", "proxy-authorization"]

  func abandon(_ exchange: UpstreamExchange) {
    if exchanges[exchange.stream] === exchange { reset(exchange.stream) }
  }

  /// Resets a stream. The session then reports that it is closed.
  private func reset(_ id: HTTP2StreamID) {
    session.reset(id, .cancel)
    transport.flushSoon()
  }

  func contentWasRead(_ count: Int, of exchange: UpstreamExchange) {
    session.consume(count, on: exchange.stream)
    if session.wantsWrite { transport.flushSoon() }
  }

  func transportReceived(_ transport: ByteTransport) {
    transport.channel.loop.assertCurrent()
    watch { $0.heard(at: transport.now) }
    let bytes = transport.unread
    do { try session.receive(bytes.span, delegate: self) } catch { return leave() }
    transport.consume(bytes.count)
    flushOrLeave()
  }

  func transportWillSend(_ transport: ByteTransport, _ output: inout [UInt8]) {
    session.collectOutput(into: &output, limit: Self.backlog - transport.backlog, delegate: self)
    if session.isOver { flushOrLeaveLater() }
  }

  func transportDrained(_ transport: ByteTransport) { flushOrLeave() }

  /// Sends the remaining output, or ends the connection if the session is over.
  private func flushOrLeave() {
    guard transport.isOpen else { return }
    if session.isOver || (isDraining && exchanges.isEmpty && !session.wantsWrite) { return leave() }
    if session.wantsWrite { transport.flushSoon() }
  }

  /// Does the same at the end of the turn, after the current call of the session has returned.
  private func flushOrLeaveLater() { transport.channel.loop.atEndOfTurn { self.flushOrLeave() } }

  func transportTimedOut(_ transport: ByteTransport) {
    transport.channel.loop.assertCurrent()
    switch liveness.due(at: transport.now) {
    case .nothing: break
    case .ping(let payload):
      session.ping(payload)
      transport.flushSoon()
    case .dead: return transport.end(.dead)
    }
    transport.deadline = liveness.deadline
  }

  private func watch(_ change: (inout Liveness) -> Void) {
    change(&liveness)
    // A later deadline is found when the present one passes.
    if liveness.deadline < transport.deadline { transport.deadline = liveness.deadline }
  }

  func close() {
    transportEnd = .ended
    session.goAway()
    leave()
  }

  /// Sends the session's last output and closes the connection.
  private func leave() {
    guard transport.isOpen else { return }
    var last: [UInt8] = []
    session.collectOutput(into: &last, limit: Self.backlog, delegate: self)
    transport.write { $0 += last }
    transport.close()
    end()
  }

  func transportEnded(_ transport: ByteTransport, _ end: ByteTransportEnd) {
    transport.channel.loop.assertCurrent()
    transportEnd = end
    self.end()
  }

  private func end() {
    let use = use
    session.connectionLost(delegate: self)
    pool.take()?.connectionEnded(self, use)
  }

  private var use: ConnectionUse {
    guard transportEnd != nil || session.failure != nil, !hasAnswered else { return .useful }
    // Requests too large for some peers wait for the settings.
    return hasCarried ? .unanswered : isSettling ? .unusable : .useful
  }

  func send(_ part: [UInt8], of exchange: UpstreamExchange) -> Bool {
    transport.flushSoon()
    return session.send(part, on: exchange.stream)
  }

  func sendEnd(of exchange: UpstreamExchange) {
    session.send([], on: exchange.stream, isLast: true)
    transport.flushSoon()
  }
}

extension HTTP2Connection: HTTP2SessionDelegate {
  func settingsChanged() {
    isSettling = false
    pool?.connectionHasRoom(self)
  }

  func receivedResponse(_ head: HTTP2ResponseHead, on id: HTTP2StreamID) {
    transport.channel.loop.assertCurrent()
    guard let exchange = exchanges[id] else { return }
    guard (200...599).contains(head.status) else {
      // RFC 9110 §15: no such status code is valid.
      let words = "\(configuration.endpoint) responded with status \(head.status)."
      exchange.failed(UpstreamError(.protocolError, .answered, words))
      return reset(id)
    }
    var fields = head.fields
    fields.remove("content-length")
    exchange.answered(head.status, fields, contentLength: head.contentLength)
    hasAnswered = true
    pool?.connectionProved()
  }

  func receivedContent(_ content: Span<UInt8>, on id: HTTP2StreamID) {
    guard let exchange = exchanges[id] else { return }
    var part: [UInt8] = []
    part.append(copying: content)
    exchange.content?.append(part)
  }

  func receivedEnd(on id: HTTP2StreamID) {
    guard let exchange = exchanges[id] else { return }
    exchange.finished()
    // The rest of the request is not needed any more (RFC 9113 §8.1).
    if exchange.request.content != nil { reset(id) }
  }

  func hasRoom(on id: HTTP2StreamID) { exchanges[id]?.upload?.hasRoom() }

  func streamClosed(_ id: HTTP2StreamID, _ closure: HTTP2StreamClosure) {
    guard let exchange = exchanges.removeValue(forKey: id) else { return }
    if exchanges.isEmpty { liveness.becameIdle() }
    pool?.exchangeEnded()
    if !exchange.isOver { exchange.failed(error(closure, of: exchange)) }
    if transport.isOpen { isDraining ? flushOrLeaveLater() : pool?.connectionHasRoom(self) }
  }

  func receivedGoAway(_ goAway: HTTP2GoAway) {
    self.goAway = goAway
    drain()
  }

  private func error(_ closure: HTTP2StreamClosure, of exchange: UpstreamExchange) -> UpstreamError {
    let progress: UpstreamError.Progress = exchange.isAnswered ? .answered : .unanswered
    let (peer, code) = (configuration.endpoint, closure.code)
    switch closure.cause {
    case .unprocessed:
      return UpstreamError(.connectionTerminated, .unprocessed, "\(peer) did not process the request (\(code)).")
    case .connectionLost:
      return UpstreamError(session.failure, goAway, transport: transportEnd, progress, with: peer, connection: number)
    case .malformed:
      return UpstreamError(.protocolError, .answered, "The response of \(peer) breaks the HTTP/2 protocol (\(code)).")
    case .fieldSectionTooLarge:
      return UpstreamError(.responseHeaderSectionSize, .answered, "The header section of \(peer) is too large.")
    case .finished, .resetByPeer, .resetLocally:
      let cause: UpstreamError.Cause = exchange.isAnswered ? .responseIncomplete : .connectionTerminated
      return UpstreamError(cause, progress, "\(peer) reset the stream \(progress.moment) (\(code)).")
    }
  }
}

/// Checks whether the peer is alive: sends a ping after a silence, and reports the peer dead if no answer arrives.
struct Liveness {
  enum Due: Equatable {
    case nothing
    /// Send a ping with this payload.
    case ping(UInt64)
    /// The peer did not answer the ping.
    case dead
  }

  private let limits: UpstreamLimits
  private var isBusy = false
  private var quietSince: Deadline
  /// When the last ping was sent. Nil if the peer has sent anything since.
  private var asked: Deadline?
  private var payload: UInt64 = 0

  init(_ limits: UpstreamLimits, since now: Deadline) { (self.limits, quietSince) = (limits, now) }

  /// The time of the next action, unless the peer sends something before.
  var deadline: Deadline {
    asked?.advanced(by: limits.pingAck) ?? quietSince.advanced(by: isBusy ? limits.pingWhenBusy : limits.pingWhenIdle)
  }

  mutating func becameBusy(at now: Deadline) {
    isBusy = true
    // The silence of an idle connection does not count.
    if asked == nil { quietSince = now }
  }

  mutating func becameIdle() { isBusy = false }

  /// Records that the peer has sent something of any kind.
  mutating func heard(at now: Deadline) {
    quietSince = now
    asked = nil
  }

  /// Returns the action that is due now. A returned ping counts as sent.
  mutating func due(at now: Deadline) -> Due {
    guard now >= deadline else { return .nothing }
    if asked != nil { return .dead }
    asked = now
    payload &+= 1
    return .ping(payload)
  }
}
