import EventLoop
import HTTPMessages
import Memory

/// Content of a response on its way from its connection to its reader.
///
/// Confined to its loop.
final class ReceivedContent: ContentReader, @unchecked Sendable {
  // Sendable by confinement: it is used on its loop only; a cancellation handler, which may run anywhere, only posts.

  /// Bytes that wait to be read. They are charged although it is too late to refuse them: the upstream sends no more
  /// than its window, and the budget grants less to others meanwhile.
  private(set) var buffered = 0 { didSet { hold.force(to: buffered) } }

  private let hold: MemoryHold
  private let loop: IOLoop
  private weak var exchange: UpstreamExchange?
  private var parts: [[UInt8]] = []
  /// How it ends, once that is known.
  private var ending: Result<Void, ContentError>?
  private var reader = Waiter<Result<[UInt8]?, ContentError>>()

  /// Parts smaller than this together are joined: one read for many small ones.
  private static let joined = 16_384

  init(_ exchange: UpstreamExchange, memory: MemoryBudget, loop: IOLoop) {
    hold = MemoryHold(memory, for: nil)
    self.exchange = exchange
    self.loop = loop
  }

  // MARK: The reader's side

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

  func cancel() {
    guard ending == nil || !parts.isEmpty else { return }
    (parts, buffered) = ([], 0)
    ending = .failure(.cancelled)
    reader.resume(returning: .failure(.cancelled))
    exchange?.cancel()
  }

  /// What there is to say at once.
  private func next() -> Result<[UInt8]?, ContentError>? {
    guard parts.isEmpty else {
      let part = parts.removeFirst()
      buffered -= part.count
      exchange?.contentWasRead(part.count)
      return .success(part)
    }
    return ending?.map { nil }
  }

  // MARK: The connection's side

  /// Takes what has come.
  func append(_ part: [UInt8]) {
    loop.assertCurrent()
    guard ending == nil, !part.isEmpty else { return }
    if let last = parts.last, last.count + part.count <= Self.joined {
      parts[parts.count - 1] += part
    } else {
      parts.append(part)
    }
    buffered += part.count
    if reader.isWaiting, let result = next() { reader.resume(returning: result) }
  }

  /// Says that it is whole, or broken off: told behind what has come.
  func end(_ ending: Result<Void, ContentError>) {
    loop.assertCurrent()
    guard self.ending == nil else { return }
    self.ending = ending
    if reader.isWaiting, let result = next() { reader.resume(returning: result) }
  }
}

/// At most one task that waits for a value. `resume` resumes it once and then forgets it.
// Safe: `resume` takes the continuation out before it resumes it.
@safe struct Waiter<Value: Sendable> {
  private var continuation: UnsafeContinuation<Value, Never>?

  var isWaiting: Bool { unsafe continuation != nil }

  /// Takes a task that has begun to wait. There must be none waiting yet.
  mutating func take(_ continuation: UnsafeContinuation<Value, Never>) {
    unsafe self.continuation = unsafe continuation
  }

  /// Lets the task go on, if there is one.
  mutating func resume(returning value: Value) {
    let continuation = unsafe continuation
    unsafe self.continuation = nil
    unsafe continuation?.resume(returning: value)
  }
}
