import EventLoop
import HTTP2
import HTTPMessages

/// The content of a request on its way into an HTTP/2 stream.
///
/// Confined to its loop.
final class Upload: RequestContent.Sink {
  private let exchange: Exchange
  private let stream: HTTP2StreamID
  private weak var connection: HTTP2Connection?
  private var content: RequestContent?

  /// Begins to send `content` on the stream of `exchange`.
  init(_ content: any ContentReader, of exchange: Exchange, on connection: HTTP2Connection) {
    self.exchange = exchange
    self.connection = connection
    stream = exchange.stream
    self.content = RequestContent(
      content, length: exchange.request.contentLength, to: self, on: connection.link.channel.loop)
  }

  /// Says that more can be sent.
  func hasRoom() { content?.hasRoom() }

  /// Sends no more.
  func cancel() { content?.cancel() }

  func send(_ part: [UInt8]) -> Bool {
    guard let connection else { return true }
    connection.link.flushSoon()
    return connection.session.send(part, on: stream)
  }

  func sendEnd() {
    connection?.session.send([], on: stream, isLast: true)
    connection?.link.flushSoon()
    exchange.contentWasSent()
  }

  func contentBroke(_ error: UpstreamError) {
    // A response that came early stands: the upstream does not need the rest of the content.
    guard !exchange.isAnswered else { return }
    exchange.failed(error)
    connection?.abandon(exchange)
  }
}
