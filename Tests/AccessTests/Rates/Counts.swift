import Locks

/// How often each of four callers was let in, from any thread.
final class Counts: Sendable {
  private let counts = Locked([0, 0, 0, 0])

  func add(_ index: Int) { counts.withLock { $0[index] += 1 } }

  var all: [Int] { counts.withLock { $0 } }
}
