import Locks

/// The number of admissions of each of four callers, counted from any thread.
final class Counts: Sendable {
  private let counts = Locked([0, 0, 0, 0])

  func add(_ index: Int) { counts.withLock { $0[index] += 1 } }

  var all: [Int] { counts.withLock { $0 } }
}
