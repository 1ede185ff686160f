package import EventLoop

/// The pause before the next attempt at a connection, doubled by each failure up to a bound. Jitter keeps clients apart.
package struct BackOff {
  /// The earliest time of the next attempt.
  package private(set) var until = Deadline(nanoseconds: 0)

  private let least: Duration
  private let longest: Duration
  /// The failures since the last success.
  package private(set) var failures = 0

  package init(least: Duration, longest: Duration) { (self.least, self.longest) = (least, longest) }

  /// Records a failure.
  /// - Parameter jitter: From 0 to 1. The pause is shortened by this fraction of its half.
  package mutating func failed(at now: Deadline, jitter: Double) {
    let pause = min(longest, least * (1 << min(failures, 20)))
    failures += 1
    until = now.advanced(by: pause * (1 - jitter / 2))
  }

  /// Records a connection that broke with the requests that it carried: a pause of the shortest length, however often. What
  /// broke it may be one client's request, and the requests of others must not wait longer for that.
  package mutating func broke(at now: Deadline, jitter: Double) {
    until = max(until, now.advanced(by: least * (1 - jitter / 2)))
  }

  /// Records a success and resets the pause.
  package mutating func succeeded() {
    failures = 0
    until = Deadline(nanoseconds: 0)
  }
}
