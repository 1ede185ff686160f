/// A moment as the cache needs it: by the clock that never jumps, and by the one that servers write into `Date`.
///
/// Ages grow by the first (RFC 9111 §4.2.3 resident time), so that a step of the wall clock makes nothing fresh or stale.
public struct CacheTime: Sendable, Equatable {
  /// Nanoseconds of a monotonic clock, from any start.
  public var monotonic: Int
  /// Seconds since 1970-01-01 00:00:00 UTC.
  public var wall: Int

  /// A moment on both clocks.
  public init(monotonic: Int, wall: Int) {
    self.monotonic = monotonic
    self.wall = wall
  }

  /// Whole seconds from `earlier` to here by the monotonic clock; 0 if that is later than this.
  func seconds(since earlier: CacheTime) -> Int {
    let (nanoseconds, overflow) = monotonic.subtractingReportingOverflow(earlier.monotonic)
    return overflow ? 0 : max(nanoseconds, 0) / 1_000_000_000
  }
  /// By how many seconds the wall clock was set ahead between `earlier` and here; back if negative.
  func wallClockStep(since earlier: CacheTime) -> Int {
    let (passed, overflow) = wall.subtractingReportingOverflow(earlier.wall)
    let step = passed.subtractingReportingOverflow(seconds(since: earlier))
    return overflow || step.overflow ? .max : step.partialValue
  }
}
