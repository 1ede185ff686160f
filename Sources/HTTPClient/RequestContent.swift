import EventLoop
import HTTP2
import HTTPMessages

/// Sends the content of one request as its reader gives it: the one thing here that takes a task.
///
/// Confined to its loop.
final class RequestContent: @unchecked Sendable {
  // Sendable by confinement: its task runs on the loop.

  /// What a connection does with the content.
  protocol Sink: AnyObject {
    /// Sends a part, which is never empty. False if it has enough for now and will call `hasRoom`.
    func send(_ part: [UInt8]) -> Bool
    /// Sends the end.
    func sendEnd()
    /// The content broke off, or is not of the length that was said.
    func contentBroke(_ error: UpstreamError)
  }

  /// Whether all of it has been sent.
  private(set) var isComplete = false

  private let loop: IOLoop
  private weak var sink: (any Sink)?
  private var left: Int?
  private var task: Task<Void, Never>?
  private var waiter = Waiter<Void>()

  /// Begins to send.
  /// - Parameter length: How long the content was said to be.
  init(_ content: any ContentReader, length: Int?, to sink: any Sink, on loop: IOLoop) {
    self.loop = loop
    self.sink = sink
    left = length
    // An unstructured task does not inherit the preference: without it, it would run on the global pool.
    task = Task(executorPreference: loop) { await self.run(content) }
  }

  /// Says that more can be sent.
  func hasRoom() {
    loop.assertCurrent()
    waiter.resume(returning: ())
  }

  /// Sends no more.
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
      return sink.contentBroke(UpstreamError(.cancelled, .unanswered, "The request's content broke off."))
    }
    guard left ?? 0 == 0 else { return breakOff("shorter") }
    isComplete = true
    sink?.sendEnd()
  }

  private func room() async {
    guard sink != nil else { return }
    await unsafe withUnsafeContinuation { continuation in unsafe waiter.take(continuation) }
  }

  /// False if there is more than was said.
  private func count(_ part: [UInt8]) -> Bool {
    guard let left else { return true }
    self.left = left - part.count
    return left >= part.count
  }

  private func breakOff(_ difference: String) {
    let words = "The request's content is \(difference) than was said."
    sink?.contentBroke(UpstreamError(.proxyInternalError, .unanswered, words))
  }
}

/// The content of a request on its way into an HTTP/2 stream.
///
/// Confined to its loop.
final class Upload: RequestContent.Sink {
  private let exchange: UpstreamExchange
  private let stream: HTTP2StreamID
  private weak var connection: HTTP2Connection?
  private var content: RequestContent?

  /// Begins to send `content` on the stream of `exchange`.
  init(_ content: any ContentReader, of exchange: UpstreamExchange, on connection: HTTP2Connection) {
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
