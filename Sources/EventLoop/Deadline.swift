import Glibc
import Synchronization

/// A moment on the monotonic clock, at which a wait gives up. Nanoseconds since an arbitrary start.
public struct Deadline: Sendable, Hashable, Comparable {
  /// Nanoseconds of `CLOCK_MONOTONIC`.
  public let nanoseconds: UInt64

  /// A moment that never comes.
  public static let never = Deadline(nanoseconds: .max)

  /// The present moment. One call of the vDSO, no system call.
  public static var now: Deadline {
    var time = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &time)
    return Deadline(nanoseconds: UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec))
  }

  /// A moment given in nanoseconds of the monotonic clock.
  public init(nanoseconds: UInt64) {
    self.nanoseconds = nanoseconds
  }

  /// This moment and `duration` more; `never` if that is past what can be counted.
  public func advanced(by duration: Duration) -> Deadline {
    let (seconds, attoseconds) = duration.components
    guard seconds >= 0, attoseconds >= 0 else { return self }
    let (whole, overflow) = UInt64(seconds).multipliedReportingOverflow(by: 1_000_000_000)
    let (length, carried) = whole.addingReportingOverflow(UInt64(attoseconds / 1_000_000_000))
    let (sum, past) = nanoseconds.addingReportingOverflow(length)
    return overflow || carried || past ? .never : Deadline(nanoseconds: sum)
  }

  /// Time from `earlier` to here, nothing if that is later than this.
  public func duration(since earlier: Deadline) -> Duration {
    guard self > earlier else { return .zero }
    return .nanoseconds(Int64(clamping: nanoseconds - earlier.nanoseconds))
  }

  /// Whether `left` comes first.
  public static func < (left: Deadline, right: Deadline) -> Bool {
    left.nanoseconds < right.nanoseconds
  }
}

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
