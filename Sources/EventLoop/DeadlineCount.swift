import Synchronization

/// Counts the connections of a loop that wait without a deadline.
///
/// Within a turn a connection may be between two waits. At the end of a turn each one must have a deadline, or a peer
/// that does nothing would hold it for ever: a debug build stops there, and a release build tells its metrics.
final class DeadlineCount: @unchecked Sendable {
  // Sendable: `current` and `isFatal` are confined to the loop, and what other threads read is atomic.
  private var current = 0
  private let published = Atomic(0)
  /// Whether a debug build stops at a connection without a deadline. Only a test that makes one turns it off.
  var isFatal = true

  /// The count at the end of the last turn. From any thread.
  var atEndOfTurn: Int { published.load(ordering: .relaxed) }

  /// A connection has been opened; it has no deadline yet.
  func opened() { current += 1 }

  /// The deadline of an open connection has changed.
  func changed(from old: Deadline, to new: Deadline) {
    if old == .never { current -= 1 }
    if new == .never { current += 1 }
  }

  /// A connection with this deadline has been closed.
  func closed(at deadline: Deadline) {
    if deadline == .never { current -= 1 }
  }

  /// Nothing more happens before the loop waits.
  func endTurn() {
    assert(current == 0 || !isFatal, "\(current) connections wait without a deadline")
    if current != atEndOfTurn { published.store(current, ordering: .relaxed) }
  }
}
