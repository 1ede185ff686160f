/// How the proxy is at a moment.
public struct CatalogStatus: Sendable {
  /// Apple refuses our developer token.
  public let isTokenRejected: Bool
  /// The upstream has failed repeatedly and is not asked for now.
  public let isCircuitOpen: Bool
  /// How many requests may be at the upstream at once, as far as is known of the quota.
  public let limit: Int
  /// How many are.
  public let inFlight: Int
  /// How many wait for their turn.
  public let waiting: Int
  /// Seconds by which the upstream's clock is ahead, as little as its latest responses allow.
  public let clockSkew: Int
  /// Sums since the start.
  public let counts: CatalogCounts
  /// What the cache holds.
  public let cache: CacheStatistics

  /// The part of the limit that is in use, from 0 to 1; a limit that has just fallen may be exceeded.
  public var saturation: Double { limit > 0 ? min(Double(inFlight) / Double(limit), 1) : 1 }
}

/// What has happened since the start.
public struct CatalogCounts: Sendable, Equatable {
  /// Requests sent to the upstream, retries among them.
  public var attempts = 0
  /// Attempts behind the first one of a request.
  public var retries = 0
  /// 401 to a developer token.
  public var tokenRejections = 0
  /// Developer tokens minted for the upstream.
  public var tokensMinted = 0
  /// 429.
  public var limited = 0
  /// 5xx, and exchanges that failed.
  public var failures = 0
  /// Answers from the cache, fresh or stale.
  public var hits = 0
  /// Requests that went upstream, as far as the cache is for them.
  public var misses = 0
  /// Requests that shared another's answer.
  public var collapsed = 0
  /// Stale answers in place of a failure.
  public var staleOnError = 0
  /// Stale answers because the upstream took long.
  public var staleWhileWaiting = 0
}
