import EventLoop
import HTTP1
import HTTP2
import HTTPMessages
import HTTPTypes

/// The HTTP/2 part of a connection (RFC 9113): its session, and the exchanges on its streams.
///
/// The parser of HTTP/1.1 applies its rules to each request, and its serializer writes the head of each response. So both
/// versions refuse the same requests, and handlers see the same data.
final class HTTP2Connection {
  let session: HTTP2Session
  /// The connection, which releases this object when it closes.
  let connection: Connection
  private(set) var exchanges: [HTTP2StreamID: HTTP2Exchange] = [:]
  /// Whether the session is processing. Its output is sent at the end of that.
  var isServing = false
  /// The bytes that its exchanges hold: heads and received content.
  var contentBytes = 0

  /// How long the client may take.
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

  var isIdle: Bool { exchanges.isEmpty }

  /// Whether every stream waits for the rest of its request.
  var awaitsContent: Bool { exchanges.values.allSatisfy { !$0.isReceived } }

  /// The memory that is held beyond that of the session.
  var heldBytes: Int {
    contentBytes + exchanges.count * Connection.Cost.stream + exchanges.capacity * Self.placeOfExchange
  }

  /// The bytes of a place in the table of exchanges, a third of which stay empty.
  private static let placeOfExchange = 20

  /// Notifies the observer that memory was refused.
  func noteRefusal() {
    connection.worker.observer.noticed(.memoryRefused(connection.peer.address))
  }

  /// Notifies the observer of what the client has done wrong.
  func note(_ misconduct: HTTP2Misconduct) {
    connection.worker.observer.noticed(.http2Misconduct(connection.peer.address, misconduct))
  }

  /// Notifies the observer, once, of the error that has ended the session.
  func noteFailure() {
    guard !hasNotedFailure, let misconduct = HTTP2Misconduct(session.failure) else { return }
    hasNotedFailure = true
    note(misconduct)
  }

  /// Processes the received bytes. Returns false if they ended the session.
  func receive(_ bytes: Span<UInt8>) -> Bool {
    do throws(HTTP2Error) {
      try session.receive(bytes, delegate: self)
      return true
    } catch {
      return false
    }
  }

  /// Appends the session's present output to `output`.
  func collect(into output: inout [UInt8], limit: Int) {
    guard session.wantsWrite else { return }
    session.collectOutput(into: &output, limit: limit, delegate: self)
  }

  /// Sends the first GOAWAY: the client should open no more streams. Streams that it opens before the GOAWAY arrives
  /// are still served. The GOAWAY with the last stream follows after enough time for them to arrive (RFC 9113 §6.8).
  func announceGoAway() {
    session.announceGoAway()
  }

  /// Accepts no new streams; open streams continue.
  func sendGoAway() {
    if connection.state.goAwaySent() { session.goAway() }
  }

  /// Ends the connection: no stream goes on, and the last bytes are a GOAWAY.
  func end(_ code: HTTP2ErrorCode) {
    _ = connection.state.goAwaySent()
    session.terminate(code)
  }

  /// Ends the streams that have taken too long.
  func lookAtStreams(at now: Deadline) {
    for exchange in Array(exchanges.values) { exchange.look(at: now) }
  }

  /// Ends all streams, because the connection is closed.
  func abandon() {
    session.connectionLost(delegate: self)
  }

  /// Sends the session's output outside of the connection's own turn.
  func flush() {
    connection.flushHTTP2()
  }

  func borrowRequest() -> Request {
    let request = connection.worker.lendRequest()
    request.isHTTP2 = true
    request.clientAddress = connection.peer.name
    request.rateLimitPrefix = connection.peer.rateLimitPrefix
    request.holder = connection.peer.holder
    request.clientCertificate = connection.peer.certificate
    request.received = connection.now
    return request
  }

  private func add(_ stream: HTTP2StreamID) -> HTTP2Exchange {
    let exchange = HTTP2Exchange(stream, of: self)
    exchanges[stream] = exchange
    connection.state.hasCarriedRequest = true
    return exchange
  }

  func forget(_ exchange: HTTP2Exchange) {
    exchanges[exchange.stream] = nil
    deadlines.streamEnded(at: connection.now)
  }
}

extension HTTP2Connection: HTTP2SessionDelegate {
  func receivedRequest(_ request: HTTP2ReceivedRequest, on stream: HTTP2StreamID) {
    let exchange = add(stream)
    exchange.begin(request)
  }

  func receivedOversizedRequest(_ rest: HTTP2ReceivedRequest, on stream: HTTP2StreamID) {
    let exchange = add(stream)
    note(.headerSection)
    exchange.refuseHead(.headerSectionTooLarge, rest)
  }

  /// Records the request, as HTTP/1.1 does, so that no volume of such requests is invisible.
  func lostRequest(_ closure: HTTP2StreamClosure) {
    let request = borrowRequest()
    connection.identify(request)
    let status =
      switch closure.cause {
      case .malformed: 400
      case .fieldSectionTooLarge: 431
      default: Connection.clientClosedRequest
      }
    connection.record(request, status: status, bytes: 0)
    connection.worker.takeBack(request)
  }

  func receivedContent(_ content: Span<UInt8>, on stream: HTTP2StreamID) {
    exchanges[stream]?.received(content)
  }

  func receivedEnd(on stream: HTTP2StreamID) {
    exchanges[stream]?.receivedEnd()
  }

  func hasRoom(on stream: HTTP2StreamID) {
    exchanges[stream]?.hasRoom()
  }

  func streamClosed(_ stream: HTTP2StreamID, _ closure: HTTP2StreamClosure) {
    exchanges[stream]?.closed()
  }
}
