/// What a token bucket would hold that fills at the learned rate, holds a second's requests at most, and was empty at the
/// last 429. When it is overdrawn and nothing was refused, the quota is no such bucket: it allows more.
struct ImaginedBucket: Sendable {
  /// Requests; below zero if it is overdrawn.
  private(set) var stored = 0.0
  private var updated = 0.0

  /// A request goes.
  mutating func take(rate: Double, now: Double) {
    stored = min(stored + (now - updated) * rate, rate) - 1
    updated = now
  }

  /// A request was refused.
  mutating func empty(now: Double) {
    (stored, updated) = (0, now)
  }
}
