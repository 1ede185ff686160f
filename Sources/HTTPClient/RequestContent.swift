import ClientTransport
import EventLoop
import HTTPMessages

/// Sends the content of one request as its reader supplies it. Only this type in the client needs a task.
final class RequestContent: @unchecked Sendable {
  // Sendable by confinement: its task runs on the loop.

  /// Whether all content has been sent.
  private(set) var isComplete = false

  private let loop: IOLoop
  private let exchange: UpstreamExchange
  private weak var connection: (any UpstreamConnection)?
  private var left: Int?
  private var task: Task<Void, Never>?
  private var waiter = Waiter<Void>()

  /// Starts to send.
  init(
    _ content: any ContentReader, of exchange: UpstreamExchange, by connection: any UpstreamConnection, on loop: IOLoop
  ) {
    (self.exchange, self.connection, self.loop) = (exchange, connection, loop)
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
    connection = nil
    task?.cancel()
    hasRoom()
  }

  private func run(_ content: any ContentReader) async {
    loop.assertCurrent()
    do throws(ContentError) {
      while let part = try await content.read() {
        guard let connection else { return }
        guard count(part) else { return hasOtherLength("longer") }
        if !connection.send(part, of: exchange) { await room() }
      }
    } catch {
      return breakOff(.cancelled, "The request's content ended too early.")
    }
    guard left ?? 0 == 0 else { return hasOtherLength("shorter") }
    isComplete = true
    connection?.sendEnd(of: exchange)
  }

  private func room() async {
    guard connection != nil else { return }
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
    if !exchange.isAnswered { connection?.contentBroke(UpstreamError(cause, .unanswered, words), of: exchange) }
  }
}
