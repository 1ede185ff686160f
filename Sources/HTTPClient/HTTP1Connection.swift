import Bytes
import ClientTransport
import EventLoop
import HTTP1
import HTTPMessages
import HTTPTypes

/// One HTTP/1.1 connection to the upstream: one exchange at a time. Confined to its loop.
final class HTTP1Connection: UpstreamConnection, ByteTransportOwner {
  private let transport: ByteTransport
  private let configuration: UpstreamClient.Configuration
  private let authority: String
  /// The pool, until the connection has left it.
  private var pool: UpstreamClient?

  private var exchange: UpstreamExchange?
  private var parser: ResponseHeadParser
  /// The decoder of the response content. Nil until the head has arrived.
  private var decoder: ContentDecoder?
  private var isChunked = false
  /// The value of the transport's `bytesSent` before the current request.
  private var sentBefore = 0
  /// Whether the head of the response arrived before the whole request was sent.
  private var isEarly = false
  private(set) var hasCarried = false
  private var hasAnswered = false

  init(_ transport: ByteTransport, _ configuration: UpstreamClient.Configuration, pool: UpstreamClient) {
    (self.transport, self.configuration, self.pool) = (transport, configuration, pool)
    parser = ResponseHeadParser(answering: .get, limits: configuration.limits.http1)
    authority = configuration.authority
    transport.owner = self
    rest()
  }

  var isSettling: Bool { false }
  var room: Int { exchange == nil && transport.isOpen ? 1 : 0 }

  /// Waits for the next request. The transport keeps reading, so that it notices a close by the peer.
  private func rest() {
    exchange = nil
    decoder = nil
    transport.isReading = true
    transport.deadline = transport.now.advanced(by: configuration.limits.idle)
  }

  /// Checks for bytes or a close since the last response. The next request would take unsolicited bytes for its
  /// response (RFC 9112 §9.2). Before the first request, bytes over TLS do not count: they may be session tickets.
  func prepare() -> Bool {
    let isUsable = hasCarried ? transport.isQuiet : transport.tls != nil || !transport.channel.hasInput
    if isUsable, !hasCarried || pool?.reusesHTTP1 ?? false { return transport.isOpen }
    // Over TLS the bytes can also be an alert.
    if transport.tls == nil, transport.channel.hasInput { pool?.receivedUnsolicited() }
    transport.close()
    _ = leave(hasCarried ? .useful : .unusable)
    return false
  }

  /// Does nothing: only a request that is too large for HTTP/2 drains its connection.
  func drain() {}

  func carry(_ exchange: UpstreamExchange) throws(Unsendable) {
    let (request, target) = (exchange.request, exchange.request.target.bytes)
    let framing: MessageFraming = request.content == nil ? .none : request.contentLength.map { .fixed($0) } ?? .chunked
    do {
      // Sent at the end of the turn with those of other connections, so that an upstream on this machine wakes up once.
      try transport.write { (output) throws(RequestError) in
        try RequestSerializer.append(
          request.method, target: target.span, host: authority, fields: request.fields,
          credential: request.credential, framing: framing, to: &output)
      }
    } catch {
      throw .malformed(UpstreamError(.proxyInternalError, .unprocessed, error.reason))
    }
    self.exchange = exchange
    hasCarried = true
    parser.reset(answering: request.method)
    sentBefore = transport.bytesSent
    isEarly = false
    isChunked = framing == .chunked
    transport.deadline = exchange.wholeDeadline.advanced(by: Self.margin)
    exchange.sent(by: self)
  }

  func transportReceived(_ transport: ByteTransport) {
    transport.channel.loop.assertCurrent()
    do { while try advance() {} } catch { end(UpstreamError(error, from: configuration.endpoint)) }
  }

  /// Processes the next part of the received bytes. Returns false if more bytes are needed.
  private func advance() throws(ResponseError) -> Bool {
    guard transport.isOpen, transport.hasUnread || decoder != nil else { return false }
    guard let exchange else {
      // No request is in flight: the bytes answer no request, or answer an earlier one twice (RFC 9112 §9.2).
      pool?.receivedUnsolicited()
      end(nil)
      return false
    }
    if decoder == nil, transport.bytesSent == sentBefore {
      // Nothing of the request was sent, so the bytes cannot answer it.
      pool?.receivedUnsolicited()
      transport.abort()
      _ = leave(.useful)
      let words = "\(configuration.endpoint) sent bytes before it received the request."
      exchange.failed(UpstreamError(.connectionTerminated, .unprocessed, words))
      return false
    }
    guard var decoder else { return try readHead(for: exchange) }
    let (count, event): (Int, ContentDecoder.Event)
    do { (count, event) = try decoder.decode(transport.unread.span) } catch { throw .malformed(error) }
    self.decoder = decoder
    if case .data(let range) = event {
      transport.consume(range.lowerBound)
      let part = transport.take(range.count)
      exchange.content?.append(part)
      transport.consume(count - range.upperBound)
    } else {
      transport.consume(count)
    }
    if event == .end { finish(exchange) } else { holdBack(exchange) }
    return event != .needMore && event != .end
  }

  private func readHead(for exchange: UpstreamExchange) throws(ResponseError) -> Bool {
    guard let length = try parser.parse(transport.unread.span) else { return false }
    transport.consume(length)
    let head = parser.head
    isEarly = transport.backlog > 0 || !(exchange.upload?.isComplete ?? true)
    decoder = ContentDecoder(head.framing, limits: configuration.limits.http1)
    exchange.answered(head.status, head.fields, contentLength: head.contentLength)
    hasAnswered = true
    pool?.connectionProved()
    return true
  }

  /// Stops receiving while enough content waits for its reader.
  private func holdBack(_ exchange: UpstreamExchange) {
    transport.isReading = (exchange.content?.uncredited ?? 0) < configuration.limits.bufferedContent
  }

  func contentWasRead(_ count: Int, of exchange: UpstreamExchange) {
    if exchange === self.exchange { holdBack(exchange) }
  }

  /// Completes the response. The connection stays open if both sides allow it.
  private func finish(_ exchange: UpstreamExchange) {
    rest()
    pool?.exchangeEnded()
    exchange.finished()
    if transport.hasUnread { pool?.receivedUnsolicited() }
    if !isEarly, parser.head.keepAlive, !transport.hasUnread, pool?.reusesHTTP1 ?? false {
      pool?.connectionHasRoom(self)
    } else {
      end(nil)
    }
  }

  func abandon(_ exchange: UpstreamExchange) {
    if exchange === self.exchange { end(nil) }
  }

  func close() { transport.end(.ended) }

  func transportTimedOut(_ transport: ByteTransport) {
    transport.channel.loop.assertCurrent()
    end(exchange == nil ? nil : UpstreamError(.responseTimeout, .unanswered, "The response was not complete in time."))
  }

  /// The time by which the transport's deadline exceeds the exchange's timer, so that the timer fires first.
  private static let margin = Duration.seconds(1)

  func transportEnded(_ transport: ByteTransport, _ end: ByteTransportEnd) {
    transport.channel.loop.assertCurrent()
    let exchange = leave(hasCarried && !hasAnswered ? .unanswered : .useful)
    guard let exchange, !exchange.isOver else { return }
    if let decoder, decoder.endsWithConnection, case .closed(inOrder: true) = end { return exchange.finished() }
    let hasBegun = decoder != nil || transport.hasUnread
    let progress: UpstreamError.Progress =
      hasBegun ? .answered : transport.bytesSent == sentBefore ? .unprocessed : .unanswered
    exchange.failed(UpstreamError(end, progress, with: configuration.endpoint))
  }

  private func end(_ error: UpstreamError?) {
    transport.close()
    let exchange = leave(.useful)
    if let error { exchange?.failed(error) }
  }

  /// Clears the state, leaves the pool, and returns the exchange in flight.
  private func leave(_ use: ConnectionUse) -> UpstreamExchange? {
    let exchange = exchange
    self.exchange = nil
    if exchange != nil { pool?.exchangeEnded() }
    pool.take()?.connectionEnded(self, use)
    return exchange
  }

  /// The most unsent bytes before the sender of the request content must wait.
  private static let enough = 65_536

  func send(_ part: [UInt8], of exchange: UpstreamExchange) -> Bool {
    transport.write { output in
      if isChunked { output.appendChunk(part.span) } else { output += part }
    }
    return transport.backlog < Self.enough
  }

  func sendEnd(of exchange: UpstreamExchange) {
    if isChunked { transport.write { $0.appendLastChunk() } }
  }

  func transportDrained(_ transport: ByteTransport) { exchange?.upload?.hasRoom() }
}
