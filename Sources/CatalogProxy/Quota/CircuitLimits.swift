/// The bounds of a ``CircuitBreaker``: name, default, unit and reason.
public struct CircuitLimits: Sendable, Equatable {
  /// Failures in a row that open it: 5. Fewer happen to a healthy service.
  public var consecutive = 5

  /// The least attempts in the window for its share of failures to mean something: 20.
  public var leastAttempts = 20

  /// The share of failures in the window that opens it, in percent: 50.
  public var failurePercent = 50

  /// How long an attempt counts: 10 s.
  public var window: Duration = .seconds(10)

  /// How long it stays open before the first probe: 500 ms.
  public var firstPause: Duration = .milliseconds(500)

  /// The longest time between two probes: 2 s. Each that fails doubles it. An upstream that has come back is in use within
  /// 5 s, time to connect included.
  public var longestPause: Duration = .seconds(2)

  /// How long a probe may take before another request may be one: 10 s. Its caller may have gone and said nothing.
  public var probeTime: Duration = .seconds(10)

  /// The defaults.
  public init() {}
}
