import Locks

/// How often each of four callers was let in, from any thread.
final class Counts: @unchecked Sendable {
  // Sendable: `counts` is touched only under `lock`.
  private let lock = Mutex()
  private var counts = [0, 0, 0, 0]

  func add(_ index: Int) { lock.withLock { counts[index] += 1 } }

  var all: [Int] { lock.withLock { counts } }
}
