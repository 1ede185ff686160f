import Glibc
public import HTTPCache

/// The clocks of the gateway.
public struct CatalogClock: Sendable {
  private let read: @Sendable () -> CacheTime

  /// Creates a clock that reads the time with `read`.
  public init(_ read: @escaping @Sendable () -> CacheTime) {
    self.read = read
  }

  /// The clocks of the operating system.
  public static let system = CatalogClock {
    var monotonic = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &monotonic)
    return CacheTime(monotonic: monotonic.tv_sec * 1_000_000_000 + monotonic.tv_nsec, wall: Glibc.time(nil))
  }

  var now: CacheTime { read() }

  var elapsed: Duration { read().elapsed }
}

extension CacheTime {
  /// The time on the monotonic clock.
  var elapsed: Duration { .nanoseconds(Int64(monotonic)) }
}

extension Duration {
  /// Parses `Retry-After`: seconds or an HTTP-date (RFC 9110 §10.2.3). Returns nil otherwise. The maximum is one day.
  init?(retryAfter text: String, now: Int) {
    if !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
      // A number that does not fit counts as the maximum.
      self = .seconds(min(Int(text) ?? .max, 86_400))
    } else if let date = FieldDate.seconds(text, now: now) {
      let (seconds, overflow) = date.subtractingReportingOverflow(now)
      self = .seconds(overflow ? 0 : min(max(seconds, 0), 86_400))
    } else {
      return nil
    }
  }
}
