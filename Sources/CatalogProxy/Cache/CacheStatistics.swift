/// Figures about a cache.
public struct CacheStatistics: Sendable, Equatable {
  /// How many targets it has answers to.
  public let entries: Int
  /// What they take, in bytes.
  public let bytes: Int
  /// How many had to go for others since the start.
  public let evictions: Int
}
