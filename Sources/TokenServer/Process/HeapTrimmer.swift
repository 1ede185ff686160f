import Dispatch
import Locks
import Memory

/// Returns free memory to the system after a burst, on a thread of its own.
final class HeapTrimmer: @unchecked Sendable {
  // Sendable: `isDue` is touched only under `lock`.
  private let lock = Mutex()
  private var isDue = false
  private let queue = DispatchQueue(label: "heap", qos: .utility)

  /// How long it waits, so that one walk through the heap serves a burst that ends in many steps.
  private static let delay = DispatchTimeInterval.seconds(2)

  /// Trims the heap a little later, once for any number of calls until then.
  func trimSoon() {
    let isFirst = lock.withLock {
      defer { isDue = true }
      return !isDue
    }
    guard isFirst else { return }
    queue.asyncAfter(deadline: .now() + Self.delay) {
      self.lock.withLock { self.isDue = false }
      Heap.trim()
    }
  }
}
