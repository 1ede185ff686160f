/// How many requests a team may make: a token bucket.
public struct RequestRate: Sendable, Equatable {
  /// Requests that become possible each second.
  public let perSecond: Int
  /// Most that are possible at once.
  public let burst: Int

  /// A rate; nil unless both are at least 1.
  public init?(perSecond: Int, burst: Int) {
    guard (1...1_000_000).contains(perSecond), (1...1_000_000).contains(burst) else { return nil }
    (self.perSecond, self.burst) = (perSecond, burst)
  }
}
