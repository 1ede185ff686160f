import Glibc

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
