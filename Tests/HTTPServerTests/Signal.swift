import Dispatch
import HTTPMessages
import Locks
import TestSupport

/// A queue of values between tasks of a server and the thread of a test.
final class Signal<Value: Sendable>: Sendable {
  @safe private struct State {
    var values: [Value] = []
    // Safe: the caller that takes the continuation resumes it, once.
    var waiter: UnsafeContinuation<Value?, Never>?
    var isCancelled = false

    mutating func takeValue() -> Value? { values.isEmpty ? nil : values.removeFirst() }

    mutating func takeWaiter() -> UnsafeContinuation<Value?, Never>? {
      defer { unsafe waiter = nil }
      return unsafe waiter
    }
  }

  private let state = Locked(State())
  /// Signaled for each waiting value. `next` takes values without it, so it may count too many.
  private let arrivals = DispatchSemaphore(value: 0)

  /// Sends a value to a thread or task that waits, or will wait, for a value.
  func send(_ value: Value) {
    let waiter = unsafe state.withLock { state in
      let waiter = unsafe state.takeWaiter()
      if unsafe waiter == nil { state.values.append(value) }
      return unsafe waiter
    }
    unsafe waiter?.resume(returning: value)
    arrivals.signal()
  }

  /// Blocks a thread until there is a value.
  /// - Throws: `TestFailure` if no value arrives within a minute.
  @discardableResult
  func wait() throws(TestFailure) -> Value {
    let end = DispatchTime.now() + 60
    while true {
      if let value = state.withLock({ $0.takeValue() }) { return value }
      guard arrivals.wait(timeout: end) == .success else { throw TestFailure("No signal came within 60 s.") }
    }
  }

  /// Suspends a task until there is a value; nil once the task is cancelled.
  func next() async -> Value? {
    await withTaskCancellationHandler {
      await unsafe withUnsafeContinuation { continuation in
        let (value, ends) = state.withLock { state in
          let value = state.takeValue()
          let ends = value != nil || state.isCancelled
          if !ends { unsafe state.waiter = continuation }
          return (value, ends)
        }
        if ends { unsafe continuation.resume(returning: value) }
      }
    } onCancel: {
      let waiter = unsafe state.withLock { state in
        state.isCancelled = true
        return unsafe state.takeWaiter()
      }
      unsafe waiter?.resume(returning: nil)
    }
  }
}

/// Content in parts that a test sends one by one; an empty part is the end.
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

/// A counter.
final class Count: Sendable {
  private let count = Locked(0)

  var value: Int { count.withLock { $0 } }

  func increment() { count.withLock { $0 += 1 } }
}
