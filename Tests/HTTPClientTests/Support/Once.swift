import Locks

/// A value that one thread waits for and another gives.
final class Once<Value: Sendable>: @unchecked Sendable {
  // Sendable: `value` is touched only inside `monitor`.
  private let monitor = Monitor()
  private var value: Value?

  func give(_ value: Value) {
    monitor.lock()
    self.value = value
    monitor.broadcast()
    monitor.unlock()
  }

  func wait() -> Value {
    monitor.lock()
    defer { monitor.unlock() }
    while true {
      if let value { return value }
      monitor.wait()
    }
  }
}
