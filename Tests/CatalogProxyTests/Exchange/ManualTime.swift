import Locks
import TestSupport

@testable import CatalogProxy
@testable import HTTPCache

/// Clocks that stand still until a test moves them, and pauses that end when the clock reaches their end.
final class ManualTime: Sendable {
  private struct State {
    var now = Sample.time(0)
    var lastID = 0
    var sleepers: [Int: (until: Int, continuation: CheckedContinuation<Bool, Never>)] = [:]
    var cancelled: Set<Int> = []
  }

  private let state = Locked(State())

  var clock: CatalogClock { CatalogClock { self.state.withLock { $0.now } } }

  /// The number of pauses in progress.
  var pauses: Int { state.withLock { $0.sleepers.count } }

  /// Advances both clocks.
  func advance(by duration: Duration) {
    let nanoseconds = Int(duration / .nanoseconds(1))
    let due = state.withLock { state in
      state.now.monotonic += nanoseconds
      state.now.wall += nanoseconds / 1_000_000_000
      let due = state.sleepers.filter { $0.value.until <= state.now.monotonic }
      for id in due.keys { state.sleepers[id] = nil }
      return due.values.map { $0.continuation }
    }
    for continuation in due { continuation.resume(returning: true) }
  }

  /// Changes the wall clock only, as an operator or NTP does.
  func setWallClock(by seconds: Int) {
    state.withLock { $0.now.wall += seconds }
  }

  /// Pauses until the clock has advanced by `duration`. Throws if the task is cancelled first.
  func pause(for duration: Duration) async throws(CancellationError) {
    let id = state.withLock { state in
      state.lastID += 1
      return state.lastID
    }
    let isOver = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isOver: Bool? = state.withLock { state in
          if state.cancelled.remove(id) != nil { return false }
          let until = state.now.monotonic + Int(duration / .nanoseconds(1))
          if until <= state.now.monotonic { return true }
          state.sleepers[id] = (until, continuation)
          return nil
        }
        if let isOver { continuation.resume(returning: isOver) }
      }
    } onCancel: {
      let continuation = state.withLock { state in
        let sleeper = state.sleepers.removeValue(forKey: id)
        if sleeper == nil { state.cancelled.insert(id) }
        return sleeper?.continuation
      }
      continuation?.resume(returning: false)
    }
    guard isOver else { throw CancellationError() }
  }
}

/// The start time of the tests, and directives to send.
enum Sample {
  /// 2027-01-15 08:00:00 UTC, a Friday.
  static let start = 1_800_000_000
  static let date = "Fri, 15 Jan 2027 08:00:00 GMT"

  /// The time `seconds` after the start, on both clocks.
  static func time(_ seconds: Int) -> CacheTime {
    CacheTime(monotonic: 5_000_000_000 + seconds * 1_000_000_000, wall: start + seconds)
  }

  /// The request directives of one Cache-Control line.
  static func request(_ line: String) -> RequestDirectives {
    var directives = RequestDirectives()
    directives.add(cacheControl: Array(line.utf8).span)
    return directives
  }
}
