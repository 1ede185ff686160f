public import EventLoop
import Glibc

/// Where the emulator has its time from.
public struct SandboxClock: Sendable {
  /// Seconds since 1970, before any skew.
  public var seconds: @Sendable () -> Int
  /// A time that only goes forward, for rates.
  public var now: @Sendable () -> Deadline

  /// A clock.
  public init(seconds: @escaping @Sendable () -> Int, now: @escaping @Sendable () -> Deadline) {
    (self.seconds, self.now) = (seconds, now)
  }

  /// The machine's clocks.
  public static let system = SandboxClock(seconds: { Glibc.time(nil) }, now: { .now })
}
