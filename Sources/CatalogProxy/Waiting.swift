import Locks

/// A value that a task waits for, and that any thread may give, once: the first one counts.
@safe final class OneShot<Value: Sendable>: @unchecked Sendable {
  // Sendable: everything is touched only under `mutex`. Safe: the continuation is taken out before it is resumed.
  private let mutex = Mutex()
  private var value: Value?
  private var continuation: UnsafeContinuation<Value, Never>?

  /// Gives the value. False if there was one already.
  @discardableResult
  func resume(_ value: Value) -> Bool {
    let (isFirst, continuation) = unsafe mutex.withLock {
      guard self.value == nil else { return unsafe (false, nil as UnsafeContinuation<Value, Never>?) }
      self.value = value
      let continuation = unsafe self.continuation
      unsafe self.continuation = nil
      return unsafe (true, continuation)
    }
    unsafe continuation?.resume(returning: value)
    return isFirst
  }

  /// Waits for the value.
  func get() async -> Value {
    await unsafe withUnsafeContinuation { continuation in
      let value = mutex.withLock {
        if self.value == nil { unsafe self.continuation = continuation }
        return self.value
      }
      if let value { unsafe continuation.resume(returning: value) }
    }
  }
}
