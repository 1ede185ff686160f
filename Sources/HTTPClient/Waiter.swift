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
