@testable import Access

/// A textbook token bucket: time fills a level and requests lower the level, exactly, in nanoseconds of filling.
struct NaiveBucket {
  private var level: Int64
  private var filledAt: Int64 = 0
  private let interval: Int64
  private let capacity: Int64

  /// A full bucket, with the interval of a token in nanoseconds and a number of tokens.
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

  /// The number of whole tokens.
  var tokens: Int { Int(level / interval) }

  /// The time until there is a whole token.
  var wait: Int64 { max(0, interval - level) }
}
