import EventLoop
import HTTP1
import HTTP2
import HTTPMessages
import HTTPTypes

/// The part of a connection that speaks HTTP/2 (RFC 9113): its session, and the exchanges on its streams.
///
/// A request is written as the head of an HTTP/1.1 request and judged by the same parser, so that what is refused there is
/// refused here, and what handlers see is the same.
final class HTTP2Connection {
  let session: HTTP2Session
  unowned let connection: Connection
  private(set) var exchanges: [HTTP2StreamID: HTTP2Exchange] = [:]
  /// Whether the session is at work: what it has to say goes out at the end of that.
  var isServing = false
  /// Bytes that its exchanges hold: content that has come, and short responses that have not gone.
  var contentBytes = 0

  /// The preface by which a client says that it speaks HTTP/2 without having asked (RFC 9113 §3.4).
  static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

  init(_ connection: Connection) throws(HTTP2Error) {
    self.connection = connection
    session = try HTTP2Session(.server)
  }

  var isIdle: Bool { exchanges.isEmpty }

  /// What it holds beside the session.
  var heldBytes: Int { contentBytes + exchanges.count * Connection.Cost.stream }

  /// Tells the observer that memory was refused.
  func noteRefusal() {
    connection.worker.observer.noticed(.memoryRefused(connection.peer.address))
  }

  /// Takes what has arrived. False if that ended the session.
  func receive(_ bytes: Span<UInt8>) -> Bool {
    do throws(HTTP2Error) {
      try session.receive(bytes, delegate: self)
      return true
    } catch {
      return false
    }
  }

  /// Puts into `output` what is to be sent now.
  func collect(into output: inout [UInt8], limit: Int) {
    guard session.wantsWrite else { return }
    session.collectOutput(into: &output, limit: limit, delegate: self)
  }

  /// Asks the client to open no more streams. Those that it opens before it hears of that are still served: the GOAWAY
  /// that names the last one follows when they have had the time to arrive (RFC 9113 §6.8).
  func announceGoAway() {
    session.announceGoAway()
  }

  /// Takes no new streams; those that are open go on.
  func sendGoAway() {
    if connection.state.goAwaySent() { session.goAway() }
  }

  /// The connection is gone.
  func abandon() {
    session.connectionLost(delegate: self)
  }

  /// Sends what is to be sent, outside of the connection's own turn.
  func flush() {
    connection.flushHTTP2()
  }

  func forget(_ exchange: HTTP2Exchange) {
    exchanges[exchange.stream] = nil
  }
}

extension HTTP2Connection: HTTP2SessionDelegate {
  func receivedRequest(_ head: HTTP2RequestHead, on stream: HTTP2StreamID) {
    let exchange = HTTP2Exchange(stream, of: self)
    exchanges[stream] = exchange
    exchange.begin(head)
  }

  func receivedOversizedRequest(on stream: HTTP2StreamID) {
    let exchange = HTTP2Exchange(stream, of: self)
    exchanges[stream] = exchange
    exchange.refuse(ErrorResponse(.headerFieldsTooLarge, "The header section is larger than this server takes."))
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
