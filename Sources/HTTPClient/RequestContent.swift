import ClientTransport
import EventLoop
import HTTPMessages

/// Sends the content of one request as its reader supplies it. Only this type in the client needs a task.
///
/// Confined to its loop.
final class RequestContent: @unchecked Sendable {
  // Sendable by confinement: its task runs on the loop.

  /// The connection that sends the content of its exchanges.
  protocol Sink: AnyObject {
    /// Sends a part, never empty. Returns false if the sender must wait for `hasRoom`.
    func send(_ part: [UInt8], of exchange: UpstreamExchange) -> Bool
    func sendEnd(of exchange: UpstreamExchange)
    /// Reports that the content broke off, or has a different length than stated, before the response has begun.
    func contentBroke(_ error: UpstreamError, of exchange: UpstreamExchange)
  }

  /// Whether all content has been sent.
  private(set) var isComplete = false

  private let loop: IOLoop
  private let exchange: UpstreamExchange
  private weak var sink: (any Sink)?
  private var left: Int?
  private var task: Task<Void, Never>?
  private var waiter = Waiter<Void>()

  /// Starts to send.
  init(_ content: any ContentReader, of exchange: UpstreamExchange, to sink: any Sink, on loop: IOLoop) {
    (self.exchange, self.sink, self.loop) = (exchange, sink, loop)
    left = exchange.request.contentLength
    // An unstructured task does not inherit the preference. Without it the task would run on the global pool.
    task = Task(executorPreference: loop) { await self.run(content) }
  }

  /// Resumes the sender, because there is room for more.
  func hasRoom() {
    loop.assertCurrent()
    waiter.resume(returning: ())
  }

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
        guard count(part) else { return hasOtherLength("longer") }
        if !sink.send(part, of: exchange) { await room() }
      }
    } catch {
      return breakOff(.cancelled, "The request's content ended too early.")
    }
    guard left ?? 0 == 0 else { return hasOtherLength("shorter") }
    isComplete = true
    sink?.sendEnd(of: exchange)
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

  private func hasOtherLength(_ difference: String) {
    breakOff(.proxyInternalError, "The request's content is \(difference) than its declared length.")
  }

  private func breakOff(_ cause: UpstreamError.Cause, _ words: String) {
    // An early response stands: the upstream does not need the rest of the content.
    if !exchange.isAnswered { sink?.contentBroke(UpstreamError(cause, .unanswered, words), of: exchange) }
  }
}
