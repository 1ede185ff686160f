import Glibc
public import HTTPCache

/// What time it is.
public struct CatalogClock: Sendable {
  private let read: @Sendable () -> CacheTime

  /// A clock that `read` reads.
  public init(_ read: @escaping @Sendable () -> CacheTime) {
    self.read = read
  }

  /// The system's clocks.
  public static let system = CatalogClock {
    var monotonic = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &monotonic)
    return CacheTime(monotonic: monotonic.tv_sec * 1_000_000_000 + monotonic.tv_nsec, wall: Glibc.time(nil))
  }

  /// The present on both clocks.
  var now: CacheTime { read() }

  /// The present on the clock that never jumps.
  var elapsed: Duration { .nanoseconds(Int64(read().monotonic)) }
}
