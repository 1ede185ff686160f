import Dispatch
import EventLoop
import HTTPMessages
import Logging

/// What all key sets of a process have in common.
struct KeySetContext: Sendable {
  let logger: Logger
  /// Seconds of a clock that never goes back.
  var clock: @Sendable () -> Int = { Int(Deadline.now.nanoseconds / 1_000_000_000) }
  /// How long a fetch may take.
  var timeouts = KeySetFetch.timeouts
  /// The fetches under way.
  let underWay = DispatchGroup()
}
