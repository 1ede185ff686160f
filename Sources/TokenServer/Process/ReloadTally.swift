import Locks

/// Counts reloads, and remembers how the last one ended.
final class ReloadTally: @unchecked Sendable {
  // Sendable: `total` is touched only under `lock`.
  private let lock = Mutex()
  private var total = Counts()

  struct Counts: Sendable, Equatable {
    /// Since the start.
    var reloads = 0
    /// Of those, the ones after which all of the old stayed.
    var refused = 0
    /// Whether the last one was such.
    var lastWasRefused = false
  }

  /// Counts one that has ended.
  func count(isRefused: Bool) {
    lock.withLock {
      total.reloads += 1
      total.refused += isRefused ? 1 : 0
      total.lastWasRefused = isRefused
    }
  }

  var counts: Counts { lock.withLock { total } }
}
