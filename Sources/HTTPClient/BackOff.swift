import EventLoop

/// How long to wait before another attempt at a connection: twice as long after each that failed, up to a bound, with
/// jitter so that many clients do not come back together.
struct BackOff {
  /// No attempt before this.
  private(set) var until = Deadline(nanoseconds: 0)

  private let least: Duration
  private let longest: Duration
  private var failures = 0

  init(least: Duration, longest: Duration) {
    self.least = least
    self.longest = longest
  }

  /// Notes a failure.
  /// - Parameter jitter: From 0 to 1: by how much of its half the pause is shortened.
  mutating func failed(at now: Deadline, jitter: Double) {
    let pause = min(longest, least * (1 << min(failures, 20)))
    failures += 1
    until = now.advanced(by: pause * (1 - jitter / 2))
  }

  /// Notes that all is well.
  mutating func succeeded() {
    failures = 0
    until = Deadline(nanoseconds: 0)
  }
}
