import HTTPMessages
import Locks

/// What tasks of a server and the thread of a test tell each other.
@safe final class Signal<Value: Sendable>: @unchecked Sendable {
  // Sendable: everything is touched only inside `monitor`. Safe: whoever takes `waiter` out, resumes it, once.
  private let monitor = Monitor()
  private var values: [Value] = []
  private var waiter: UnsafeContinuation<Value?, Never>?
  private var isCancelled = false

  /// Gives a value to whoever waits, or waits for one later.
  func send(_ value: Value) {
    monitor.lock()
    let waiter = unsafe self.waiter
    unsafe self.waiter = nil
    if unsafe waiter == nil { values.append(value) }
    monitor.broadcast()
    monitor.unlock()
    unsafe waiter?.resume(returning: value)
  }

  /// Blocks a thread until there is a value.
  func wait() -> Value {
    monitor.lock()
    defer { monitor.unlock() }
    while values.isEmpty { monitor.wait() }
    return values.removeFirst()
  }

  /// Suspends a task until there is a value; nil once the task is cancelled.
  func next() async -> Value? {
    await withTaskCancellationHandler {
      await unsafe withUnsafeContinuation { continuation in
        monitor.lock()
        let value = values.isEmpty ? nil : values.removeFirst()
        let ends = value != nil || isCancelled
        if !ends { unsafe waiter = continuation }
        monitor.unlock()
        if ends { unsafe continuation.resume(returning: value) }
      }
    } onCancel: {
      monitor.lock()
      isCancelled = true
      let waiter = unsafe self.waiter
      unsafe self.waiter = nil
      monitor.unlock()
      unsafe waiter?.resume(returning: nil)
    }
  }
}

/// Content of parts that a test sends one by one; an empty one is the end.
final class TestContent: ContentReader {
  let parts = Signal<Result<[UInt8], ContentError>>()
  let cancelled = Signal<Void>()
  let reads = Count()

  func read() async throws(ContentError) -> [UInt8]? {
    reads.increment()
    guard let part = await parts.next() else { throw .cancelled }
    let bytes = try part.get()
    return bytes.isEmpty ? nil : bytes
  }

  func cancel() { cancelled.send(()) }

  func send(_ text: String) { parts.send(.success(Array(text.utf8))) }
}

/// Counts.
final class Count: Sendable {
  private let count = Locked(0)

  var value: Int { count.withLock { $0 } }

  func increment() { count.withLock { $0 += 1 } }
}
