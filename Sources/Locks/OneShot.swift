/// A value that one task or function waits for and any thread may set. Only the first value counts.
package final class OneShot<Value: Sendable>: Sendable {
  // Safe: a continuation is removed before it is resumed.
  @safe private enum Waiter {
    case task(UnsafeContinuation<Value, Never>)
    case function(@Sendable (Value) -> Void)

    func resume(_ value: Value) {
      switch self {
      case .task(let continuation): unsafe continuation.resume(returning: value)
      case .function(let function): function(value)
      }
    }
  }

  private struct State {
    var value: Value?
    var waiter: Waiter?
  }

  private let state = Locked(State())

  package init() {}

  /// Creates a value, and keeps it in a variable as well.
  package convenience init(keptIn variable: inout OneShot?) {
    self.init()
    variable = self
  }

  /// Sets the value and resumes what waits for it. Returns false if the value was already set.
  @discardableResult
  package func resume(_ value: Value) -> Bool {
    let (isFirst, waiter) = state.withLock { state in
      guard state.value == nil else { return (false, nil as Waiter?) }
      state.value = value
      return (true, state.waiter.take())
    }
    waiter?.resume(value)
    return isFirst
  }

  package func get() async -> Value {
    await unsafe withUnsafeContinuation { continuation in wait(unsafe .task(continuation)) }
  }

  /// Calls a function with the value, at once or on the thread that sets it.
  package func whenSet(_ function: @escaping @Sendable (Value) -> Void) {
    wait(.function(function))
  }

  private func wait(_ waiter: Waiter) {
    let value = state.withLock { state in
      if state.value == nil { state.waiter = waiter }
      return state.value
    }
    if let value { waiter.resume(value) }
  }
}
