import EventLoop
import HTTPMessages

/// Sends the content of one request as its reader supplies it. Only this type in the client needs a task.
final class RequestContent: @unchecked Sendable {
  // Sendable by confinement: its task runs on the loop.
  /// Whether all content has been sent.
  private(set) var isComplete = false

  private let exchange: UpstreamExchange
  /// Nil once the exchange has ended: content that does not arrive must not keep a connection that is gone.
  private var connection: (any UpstreamConnection)?
  /// The rest of the stated length.
  private var left: Int?
  private var task: Task<Void, Never>?
  private var waiter = Waiter<Void>()

  /// Starts to send. The exchange cancels it at its end.
  init(
    _ content: any ContentReader, of exchange: UpstreamExchange, by connection: any UpstreamConnection, on loop: IOLoop
  ) {
    (self.exchange, self.connection) = (exchange, connection)
    left = exchange.request.contentLength
    // An unstructured task does not inherit the preference. Without it the task would run on the global pool.
    task = Task(executorPreference: loop) { await self.run(content) }
  }

  func hasRoom() { waiter.resume(returning: ()) }

  func cancel() {
    connection = nil
    task?.cancel()
    hasRoom()
  }

  private func run(_ content: any ContentReader) async {
    do throws(ContentError) {
      while let part = try await content.read() {
        guard let connection else { return }
        if let left {
          guard part.count <= left else { return hasOtherLength("longer") }
          self.left = left - part.count
        }
        if !connection.send(part, of: exchange) { await room() }
      }
    } catch { return breakOff(.cancelled, "The request's content ended too early.") }
    guard let connection else { return }
    guard left ?? 0 == 0 else { return hasOtherLength("shorter") }
    isComplete = true
    connection.sendEnd(of: exchange)
    exchange.contentWasSent()
  }

  private func room() async {
    guard connection != nil else { return }
    await unsafe withUnsafeContinuation { continuation in unsafe waiter.take(continuation) }
  }

  private func hasOtherLength(_ difference: String) {
    breakOff(.proxyInternalError, "The request's content is \(difference) than its declared length.")
  }

  private func breakOff(_ cause: UpstreamError.Cause, _ words: String) {
    // An early response stands: the upstream does not need the rest of the content.
    if !exchange.isAnswered { exchange.abandon(UpstreamError(cause, .unanswered, words)) }
  }
}
