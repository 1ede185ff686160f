/// How often somebody may do something: a token bucket.
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
}
