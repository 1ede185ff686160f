/// A value that one task or function waits for and any thread may set. Only the first value counts.
package final class OneShot<Value: Sendable>: Sendable {
  private struct State {
    var value: Value?
    var waiter: (@Sendable (Value) -> Void)?
  }

  private let state = Locked(State())

  package init() {}

  /// Sets the value and resumes what waits for it. Returns false if the value was already set.
  @discardableResult
  package func resume(_ value: Value) -> Bool {
    let (isFirst, waiter) = state.withLock { state in
      guard state.value == nil else { return (false, nil as (@Sendable (Value) -> Void)?) }
      state.value = value
      return (true, state.waiter.take())
    }
    waiter?(value)
    return isFirst
  }

  package func get() async -> Value {
    await unsafe withUnsafeContinuation { continuation in
      // Safe: only the first value reaches the function, so it resumes the task once.
      whenSet { unsafe continuation.resume(returning: $0) }
    }
  }

  /// Calls a function with the value, at once or on the thread that sets it.
  package func whenSet(_ function: @escaping @Sendable (Value) -> Void) {
    let value = state.withLock { state in
      if state.value == nil { state.waiter = function }
      return state.value
    }
    if let value { function(value) }
  }
}
