/// The rate that a token bucket allows.
public struct Rate: Sendable, Equatable {
  /// Requests per second in the long run; above 0.
  public var perSecond: Double
  /// Requests at once, after a pause; at least 1.
  public var burst: Int

  /// A rate.
  public init(perSecond: Double, burst: Int) {
    self.perSecond = perSecond
    self.burst = burst
  }

  /// What ``perSecond`` may be: from one request in 100 seconds, less being a ban rather than a rate, to more than one
  /// server answers.
  public static let perSecondRange = 0.01...1_000_000.0

  /// What ``burst`` may be. With the slowest rate, the greatest takes three years to come back, which is still a number
  /// of nanoseconds that an `Int64` holds a hundred times.
  public static let burstRange = 1...1_000_000
}
