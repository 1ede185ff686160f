/// What has become of the key sets that are fetched, for metrics.
struct KeySetCounts: Sendable, Equatable {
  // Totals.

  /// Fetches that have ended, one way or the other.
  var fetches = 0
  /// Of those, the ones that brought no key set.
  var failures = 0

  // Present numbers.

  /// Providers whose keys the server has not fetched yet: it refuses all of their JWTs.
  var missing = 0
  /// Seconds since the oldest set in use was fetched; nil if none was.
  var oldestAge: Int?

  /// Adds what others have done, but not how they are.
  mutating func addTotals(of others: KeySetCounts) {
    fetches += others.fetches
    failures += others.failures
  }
}
