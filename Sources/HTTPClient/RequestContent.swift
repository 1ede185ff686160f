import ClientTransport
import EventLoop
import HTTP2
import HTTPMessages

/// Sends the content of one request as its reader supplies it. Only this type in the client needs a task.
///
/// Confined to its loop.
final class RequestContent: @unchecked Sendable {
  // Sendable by confinement: its task runs on the loop.

  /// The receiver of the content: a connection or a stream.
  protocol Sink: AnyObject {
    /// Sends a part, never empty. Returns false if the sender must wait for `hasRoom`.
    func send(_ part: [UInt8]) -> Bool
    /// Sends the end.
    func sendEnd()
    /// Reports that the content broke off, or has a different length than stated.
    func contentBroke(_ error: UpstreamError)
  }

  /// Whether all content has been sent.
  private(set) var isComplete = false

  private let loop: IOLoop
  private weak var sink: (any Sink)?
  private var left: Int?
  private var task: Task<Void, Never>?
  private var waiter = Waiter<Void>()

  /// Starts to send.
  /// - Parameter length: The stated length of the content in bytes.
  init(_ content: any ContentReader, length: Int?, to sink: any Sink, on loop: IOLoop) {
    self.loop = loop
    self.sink = sink
    left = length
    // An unstructured task does not inherit the preference. Without it the task would run on the global pool.
    task = Task(executorPreference: loop) { await self.run(content) }
  }

  /// Resumes the sender, because there is room for more.
  func hasRoom() {
    loop.assertCurrent()
    waiter.resume(returning: ())
  }

  /// Stops sending.
  func cancel() {
    loop.assertCurrent()
    sink = nil
    task?.cancel()
    hasRoom()
  }

  private func run(_ content: any ContentReader) async {
    loop.assertCurrent()
    do throws(ContentError) {
      while let part = try await content.read() {
        guard let sink else { return }
        guard count(part) else { return breakOff("longer") }
        if !sink.send(part) { await room() }
      }
    } catch {
      guard let sink else { return }
      return sink.contentBroke(UpstreamError(.cancelled, .unanswered, "The request's content ended too early."))
    }
    guard left ?? 0 == 0 else { return breakOff("shorter") }
    isComplete = true
    sink?.sendEnd()
  }

  private func room() async {
    guard sink != nil else { return }
    await unsafe withUnsafeContinuation { continuation in unsafe waiter.take(continuation) }
  }

  /// Subtracts a part from the stated length. Returns false if the part exceeds it.
  private func count(_ part: [UInt8]) -> Bool {
    guard let left else { return true }
    self.left = left - part.count
    return left >= part.count
  }

  private func breakOff(_ difference: String) {
    let words = "The request's content is \(difference) than its declared length."
    sink?.contentBroke(UpstreamError(.proxyInternalError, .unanswered, words))
  }
}

/// The sender of a request's content into an HTTP/2 stream.
///
/// Confined to its loop.
final class Upload: RequestContent.Sink {
  private let exchange: UpstreamExchange
  private let stream: HTTP2StreamID
  private weak var connection: HTTP2Connection?
  private var content: RequestContent?

  /// Starts to send `content` on the stream of `exchange`.
  init(_ content: any ContentReader, of exchange: UpstreamExchange, on connection: HTTP2Connection) {
    self.exchange = exchange
    self.connection = connection
    stream = exchange.stream
    self.content = RequestContent(
      content, length: exchange.request.contentLength, to: self, on: connection.link.channel.loop)
  }

  /// Resumes the sender, because there is room for more.
  func hasRoom() { content?.hasRoom() }

  /// Stops sending.
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
    // An early response stands: the upstream does not need the rest of the content.
    guard !exchange.isAnswered else { return }
    exchange.failed(error)
    connection?.abandon(exchange)
  }
}
