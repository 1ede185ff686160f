@testable import Access

/// A token bucket as the textbooks have it: a level that time fills and requests lower, in nanoseconds of filling so that
/// it is exact.
struct NaiveBucket {
  private var level: Int64
  private var filledAt: Int64 = 0
  private let interval: Int64
  private let capacity: Int64

  /// A full one, of an interval in nanoseconds and a number of tokens.
  init(interval: Int64, tokens: Int) {
    self.interval = interval
    capacity = interval * Int64(tokens)
    level = capacity
  }

  /// Takes a token if there is one.
  mutating func take(at now: Int64) -> Bool {
    level = min(capacity, level + (now - filledAt))
    filledAt = now
    guard level >= interval else { return false }
    level -= interval
    return true
  }

  /// Whole tokens in it.
  var tokens: Int { Int(level / interval) }

  /// How long until there is a whole token.
  var wait: Int64 { max(0, interval - level) }
}
