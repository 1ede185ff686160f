import Locks
import TestSupport

@testable import CatalogProxy
@testable import HTTPCache

/// Clocks that stand still until a test moves them, and pauses that end when they have moved far enough.
final class ManualTime: @unchecked Sendable {
  // Sendable: everything is touched only under `mutex`.
  private let mutex = Mutex()
  private var now = Sample.time(0)
  private var lastID = 0
  private var sleepers: [Int: (until: Int, continuation: CheckedContinuation<Bool, Never>)] = [:]
  private var cancelled: Set<Int> = []

  /// The clock for a proxy.
  var clock: CatalogClock { CatalogClock { self.mutex.withLock { self.now } } }

  /// How many pauses are under way.
  var pauses: Int { mutex.withLock { sleepers.count } }

  /// Lets time pass on both clocks.
  func advance(by duration: Duration) {
    let nanoseconds = Int(duration / .nanoseconds(1))
    let due = mutex.withLock {
      now.monotonic += nanoseconds
      now.wall += nanoseconds / 1_000_000_000
      let due = sleepers.filter { $0.value.until <= now.monotonic }
      for id in due.keys { sleepers[id] = nil }
      return due.values.map { $0.continuation }
    }
    for continuation in due { continuation.resume(returning: true) }
  }

  /// Sets the wall clock, as an operator or NTP does.
  func setWallClock(by seconds: Int) {
    mutex.withLock { now.wall += seconds }
  }

  /// Pauses until the clock has been moved so far. Throws when the task is cancelled first.
  func pause(for duration: Duration) async throws(CancellationError) {
    let id = mutex.withLock {
      lastID += 1
      return lastID
    }
    let isOver = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isOver: Bool? = mutex.withLock {
          if cancelled.remove(id) != nil { return false }
          let until = now.monotonic + Int(duration / .nanoseconds(1))
          if until <= now.monotonic { return true }
          sleepers[id] = (until, continuation)
          return nil
        }
        if let isOver { continuation.resume(returning: isOver) }
      }
    } onCancel: {
      let continuation = mutex.withLock {
        let sleeper = sleepers.removeValue(forKey: id)
        if sleeper == nil { cancelled.insert(id) }
        return sleeper?.continuation
      }
      continuation?.resume(returning: false)
    }
    guard isOver else { throw CancellationError() }
  }
}

/// Waits until it is so, which other tasks bring about. What never comes is a failure.
func eventually(_ what: String, _ condition: () async throws -> Bool) async throws {
  let end = ContinuousClock.now + .seconds(60)
  while try await !condition() {
    guard ContinuousClock.now < end else { throw TestFailure("It never happened that \(what).") }
    await Task.yield()
  }
}
