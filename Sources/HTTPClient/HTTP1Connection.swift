import EventLoop
import HTTP1
import HTTPMessages
import HTTPTypes

/// One HTTP/1.1 connection to the upstream: one exchange at a time, kept alive in between.
///
/// Confined to its loop.
final class HTTP1Connection: UpstreamConnection, ByteTransportOwner {
  private let link: ByteTransport
  private let configuration: UpstreamClient.Configuration
  private weak var pool: (any ConnectionPool)?

  private var exchange: UpstreamExchange?
  private var parser = ResponseHeadParser(answering: .get)
  /// Reads the content of the response whose head has come.
  private var decoder: ResponseContentDecoder?
  private var requestContent: RequestContent?
  private var isChunked = false
  /// What the link had sent when the request was written.
  private var sentBefore = 0
  /// Whether the head of the response came before the whole request had been sent.
  private var isEarly = false
  private(set) var hasCarried = false
  private var hasAnswered = false

  init(_ link: ByteTransport, _ configuration: UpstreamClient.Configuration, pool: any ConnectionPool) {
    self.link = link
    self.configuration = configuration
    self.pool = pool
    link.owner = self
    rest()
  }

  var isSettling: Bool { false }

  var room: Int { exchange == nil && link.isOpen ? 1 : 0 }

  /// Waits for a request; and for the peer's end, which is noticed because the link reads on.
  private func rest() {
    exchange = nil
    decoder = nil
    link.isReading = true
    link.deadline = link.now.advanced(by: configuration.limits.idle)
  }

  // MARK: The request

  /// A response that was not asked for may have arrived since the last one, or the peer's end. The next request would
  /// take it for its own (RFC 9112 §9.2), so any byte closes the connection. Before the first request only bytes in clear
  /// count: over TLS they may be tickets, and an end is reported to the request.
  func prepare() -> Bool {
    link.channel.loop.assertCurrent()
    let isUsable = hasCarried ? link.isQuiet : link.tls != nil || !link.channel.hasUnread
    if isUsable, !hasCarried || pool?.reusesHTTP1 ?? false { return link.isOpen }
    // Over TLS the bytes may as well be an alert.
    if link.tls == nil, link.channel.hasUnread { pool?.receivedUnsolicited() }
    link.close()
    _ = leave(wasUseless: !hasCarried)
    return false
  }

  /// HTTP/1.1 has requests one after the other: there is nothing to wait for.
  func drain() {}

  func carry(_ exchange: UpstreamExchange) throws(Unsendable) {
    link.channel.loop.assertCurrent()
    let request = exchange.request
    let framing: MessageFraming =
      request.content == nil ? .none : request.contentLength.map { .fixed($0) } ?? .chunked
    var head: [UInt8] = []
    do {
      try RequestSerializer.append(
        request.method, target: request.target, host: configuration.authority, fields: request.fields,
        framing: framing, to: &head)
    } catch {
      throw .malformed(UpstreamError(.proxyInternalError, .unprocessed, error.reason))
    }
    self.exchange = exchange
    hasCarried = true
    parser = ResponseHeadParser(answering: request.method, limits: configuration.limits.http1)
    sentBefore = link.bytesSent
    isEarly = false
    link.deadline = exchange.wholeDeadline.advanced(by: Self.margin)
    link.write { $0 += head }
    guard let content = request.content else {
      exchange.sent(by: self)
      // At once, so that as little time as possible passes since the look at the socket.
      return link.flushNow()
    }
    isChunked = framing == .chunked
    exchange.isSending(by: self)
    requestContent = RequestContent(content, length: request.contentLength, to: self, on: link.channel.loop)
  }

  // MARK: The response

  func linkReceived(_ link: ByteTransport) {
    link.channel.loop.assertCurrent()
    do {
      while try advance() {}
    } catch {
      end(UpstreamError(error, from: configuration.endpoint))
    }
  }

  /// Deals with the next piece of what has come. False if it takes more.
  private func advance() throws(ResponseError) -> Bool {
    let bytes = link.unread
    guard link.isOpen, !bytes.isEmpty || decoder != nil else { return false }
    guard let exchange else {
      // No request is under way: this answers nothing, or an earlier request once more (RFC 9112 §9.2).
      pool?.receivedUnsolicited()
      end(nil)
      return false
    }
    if decoder == nil, link.bytesSent == sentBefore {
      unasked(exchange)
      return false
    }
    guard var decoder else { return try readHead(bytes, for: exchange) }
    let (count, event) = try decoder.decode(bytes.span)
    self.decoder = decoder
    if case .data(let range) = event {
      let start = bytes.startIndex + range.lowerBound
      exchange.content?.append(Array(bytes[start..<start + range.count]))
    }
    link.consume(count)
    if event == .end {
      finish(exchange)
      return false
    }
    holdBack(exchange)
    return event != .needMore
  }

  private func readHead(_ bytes: ArraySlice<UInt8>, for exchange: UpstreamExchange) throws(ResponseError) -> Bool {
    guard let length = try parser.parse(bytes.span) else { return false }
    link.consume(length)
    let head = parser.head
    isEarly = link.backlog > 0 || !(requestContent?.isComplete ?? true)
    decoder = ResponseContentDecoder(head.framing, limits: configuration.limits.http1)
    exchange.answered(head.status, head.fields, contentLength: head.contentLength)
    hasAnswered = true
    pool?.connectionProved(self)
    return true
  }

  /// Receives no more while enough waits to be read.
  private func holdBack(_ exchange: UpstreamExchange) {
    link.isReading = (exchange.content?.buffered ?? 0) < configuration.limits.bufferedContent
  }

  func contentWasRead(_ count: Int, of exchange: UpstreamExchange) {
    link.channel.loop.assertCurrent()
    guard exchange === self.exchange else { return }
    holdBack(exchange)
  }

  /// The response is whole: the connection goes on if both sides can.
  private func finish(_ exchange: UpstreamExchange) {
    requestContent?.cancel()
    requestContent = nil
    rest()
    pool?.exchangeEnded()
    exchange.finished()
    if !link.unread.isEmpty { pool?.receivedUnsolicited() }
    if !isEarly, parser.head.keepAlive, link.unread.isEmpty, pool?.reusesHTTP1 ?? false {
      pool?.connectionHasRoom(self)
    } else {
      end(nil)
    }
  }

  // MARK: The end

  func abandon(_ exchange: UpstreamExchange) {
    link.channel.loop.assertCurrent()
    guard exchange === self.exchange else { return }
    end(nil)
  }

  func close() { link.end(.ended) }

  func linkTimedOut(_ link: ByteTransport) {
    link.channel.loop.assertCurrent()
    end(exchange == nil ? nil : UpstreamError(.responseTimeout, .unanswered, "The response was not whole in time."))
  }

  /// How much longer than its exchange's timer a connection waits: the timer is to end the exchange.
  private static let margin = Duration.seconds(1)

  func linkEnded(_ link: ByteTransport, _ end: ByteTransportEnd) {
    link.channel.loop.assertCurrent()
    let exchange = leave(wasUseless: hasCarried && !hasAnswered)
    guard let exchange, !exchange.isOver else { return }
    if let decoder, decoder.endsWithConnection, case .closed(inOrder: true) = end { return exchange.finished() }
    let hasBegun = decoder != nil || !link.unread.isEmpty
    let progress: UpstreamError.Progress =
      hasBegun ? .answered : link.bytesSent == sentBefore ? .unprocessed : .unanswered
    exchange.failed(UpstreamError(end, progress, with: configuration.endpoint))
  }

  /// Closes the connection because bytes came before any of the request had been sent: they answer nothing of it.
  private func unasked(_ exchange: UpstreamExchange) {
    pool?.receivedUnsolicited()
    link.abort()
    _ = leave(wasUseless: false)
    let words = "\(configuration.endpoint) sent bytes before it was sent the request."
    exchange.failed(UpstreamError(.connectionTerminated, .unprocessed, words))
  }

  /// Closes the connection.
  private func end(_ error: UpstreamError?) {
    link.close()
    let exchange = leave(wasUseless: false)
    if let error { exchange?.failed(error) }
  }

  /// Drops everything, and gives what it carried.
  private func leave(wasUseless: Bool) -> UpstreamExchange? {
    let exchange = exchange
    self.exchange = nil
    requestContent?.cancel()
    requestContent = nil
    if exchange != nil { pool?.exchangeEnded() }
    pool?.connectionEnded(self, wasUseless: wasUseless)
    return exchange
  }
}

extension HTTP1Connection: RequestContent.Sink {
  /// Bytes that wait to be sent beyond which the reader of a request's content has to wait.
  private static let enough = 65_536

  func send(_ part: [UInt8]) -> Bool {
    link.channel.loop.assertCurrent()
    link.write { output in
      if isChunked { RequestSerializer.appendChunk(part.span, to: &output) } else { output += part }
    }
    return link.backlog < Self.enough
  }

  func sendEnd() {
    link.channel.loop.assertCurrent()
    if isChunked { link.write { RequestSerializer.appendLastChunk(to: &$0) } }
    exchange?.contentWasSent()
  }

  func contentBroke(_ error: UpstreamError) {
    link.channel.loop.assertCurrent()
    // A response that came early stands: the upstream does not need the rest of the content. The connection is not
    // used again.
    guard exchange?.isAnswered != true else { return }
    end(error)
  }

  func linkDrained(_ link: ByteTransport) { requestContent?.hasRoom() }
}
