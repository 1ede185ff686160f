import Dispatch
import Locks
import TestSupport

/// A value that one thread waits for and another thread gives, once.
final class Once<Value: Sendable>: Sendable {
  private let value = Locked<Value?>(nil)
  private let giving = DispatchSemaphore(value: 0)

  func give(_ value: Value) {
    self.value.withLock { $0 = value }
    giving.signal()
  }

  /// - Throws: `TestFailure` if no value arrives within a minute.
  func wait() throws(TestFailure) -> Value {
    let end = DispatchTime.now() + 60
    while true {
      if let value = value.withLock({ $0 }) { return value }
      guard giving.wait(timeout: end) == .success else { throw TestFailure("No value came within 60 s.") }
    }
  }
}
