import DequeModule
import EventLoop
import HTTPMessages
import Memory

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

/// The queue of response content between a connection and its reader. Confined to its loop.
final class ReceivedContent: ContentReader, @unchecked Sendable {
  // Sendable by confinement: used on its loop only. A cancellation handler may run on any thread, but only posts.
  /// The number of unread bytes, charged even beyond the budget: the upstream sends no more than its window.
  private(set) var buffered = 0 { didSet { hold.force(to: buffered) } }
  /// The number of unread bytes for which the upstream may send others, and the most of them.
  private var (credited, ahead) = (0, 0)
  /// What the reader wants to be called when the content has ended.
  private var ended: (@Sendable (Result<Void, ContentError>) -> Void)?

  private let hold: MemoryHold
  private let loop: IOLoop
  /// The exchange, until the content has ended. It ends in every case, so the two do not keep each other for ever.
  private var exchange: UpstreamExchange?
  private var parts: Deque<[UInt8]> = []
  /// The end of the content, once it is known.
  private var ending: Result<Void, ContentError>?
  private var reader = Waiter<Result<[UInt8]?, ContentError>>()

  /// The greatest total size of small parts that are joined, so that one read returns many of them.
  private static let joined = 16_384

  init(_ exchange: UpstreamExchange, memory: MemoryBudget, loop: IOLoop) {
    hold = MemoryHold(memory, for: nil)
    (self.exchange, self.loop) = (exchange, loop)
  }

  func read() async throws(ContentError) -> [UInt8]? {
    loop.assertCurrent()
    if let result = next() { return try result.get() }
    let result = await withTaskCancellationHandler {
      await unsafe withUnsafeContinuation { continuation in unsafe reader.take(continuation) }
    } onCancel: {
      loop.post { self.cancel() }
    }
    return try result.get()
  }

  func readAtOnce() throws(ContentError) -> AvailableContent {
    loop.assertCurrent()
    guard let result = next() else { return .nothing }
    return try result.get().map { .part($0) } ?? .end
  }

  func arriveAhead(
    upTo limit: Int, chargedTo holder: UInt128?, then ended: @escaping @Sendable (Result<Void, ContentError>) -> Void
  ) {
    loop.assertCurrent()
    hold.move(to: holder)
    if let ending { return ended(ending) }
    (ahead, self.ended) = (limit, ended)
    creditAhead()
  }

  func cancel() {
    guard ending == nil || !parts.isEmpty else { return }
    (parts, buffered, credited) = ([], 0, 0)
    ending = .failure(.cancelled)
    reader.resume(returning: .failure(.cancelled))
    exchange.take()?.contentWasCancelled()
    ended.take()?(.failure(.cancelled))
  }

  /// Returns the result that a reader can have at once, or nil if it must wait.
  private func next() -> Result<[UInt8]?, ContentError>? {
    guard let part = parts.popFirst() else { return ending?.map { nil } }
    let credit = min(credited, part.count)
    buffered -= part.count
    credited -= credit
    if credit < part.count { exchange?.contentWasRead(part.count - credit) }
    creditAhead()
    return .success(part)
  }

  /// Lets the upstream send as much again as has arrived, within the limit and if the memory budget grants that.
  private func creditAhead() {
    let count = min(uncredited, ahead - credited)
    guard count > 0, ending == nil, hold.resize(to: buffered + count, for: .response) else { return }
    credited += count
    exchange?.contentWasRead(count)
  }

  /// The number of unread bytes that count against the upstream's window.
  var uncredited: Int { buffered - credited }

  func append(_ part: [UInt8]) {
    guard ending == nil, !part.isEmpty else { return }
    if let last = parts.last, last.count + part.count <= Self.joined {
      parts[parts.count - 1] += part
    } else {
      parts.append(part)
    }
    buffered += part.count
    if reader.isWaiting, let result = next() { reader.resume(returning: result) } else { creditAhead() }
  }

  /// Ends the content, complete or with an error. The reader receives all buffered parts before the end.
  func end(_ ending: Result<Void, ContentError>) {
    guard self.ending == nil else { return }
    self.ending = ending
    exchange = nil
    hold.force(to: buffered)
    if reader.isWaiting, let result = next() { reader.resume(returning: result) }
    ended.take()?(ending)
  }
}

/// At most one waiting task. `resume` resumes it once and then forgets it.
// Safe: `resume` removes the continuation before it resumes it.
@safe struct Waiter<Value: Sendable> {
  private var continuation: UnsafeContinuation<Value, Never>?

  var isWaiting: Bool { unsafe continuation != nil }

  /// Stores the continuation of a task that waits. No other task may be waiting.
  mutating func take(_ continuation: UnsafeContinuation<Value, Never>) {
    unsafe self.continuation = unsafe continuation
  }

  /// Resumes the task, if one waits.
  mutating func resume(returning value: Value) {
    let continuation = unsafe continuation
    unsafe self.continuation = nil
    unsafe continuation?.resume(returning: value)
  }
}
