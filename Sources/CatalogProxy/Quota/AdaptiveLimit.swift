/// A number of requests that may be under way: additive increase, multiplicative decrease, as TCP has it for its window
/// (RFC 5681 §3.1).
///
/// Apple's quota is unknown, is the team's, and is announced by nothing but a 429. So the limit feels its way: a 429
/// halves it, a round of successes adds one. It follows what was really under way: a limit of 200 that nobody uses proves
/// nothing, so it does not grow then, and a 429 halves what was in flight and not the 200.
struct AdaptiveLimit: Sendable {
  private let limits: ConcurrencyLimits
  private(set) var value: Int
  /// Successes with the limit in use since it last changed: as many as the limit are about a round trip.
  private var successes = 0
  private var lastDecrease: Duration?

  init(_ limits: ConcurrencyLimits) {
    self.limits = limits
    value = limits.bounded(limits.initial)
  }

  /// The most that one caller may have under way: an eighth of the limit, at least one, is left to others, so that a
  /// request of another caller does not have to wait until one of the greedy caller's ends. Never below half of the
  /// limit, so that no two callers reach it at once.
  var share: Int {
    max(value - max(value / 8, 1), 1)
  }

  /// A request was answered. Grows by one when as many as the limit were, and if so many were in flight that a single
  /// caller could have no more: otherwise nobody has tried what the limit is.
  mutating func succeeded(inFlight: Int) {
    guard inFlight >= share, value < limits.maximum else { return }
    successes += 1
    guard successes >= value else { return }
    value += 1
    successes = 0
  }

  /// A request was refused with 429. Halves what was in flight, once in a while.
  mutating func refused(inFlight: Int, now: Duration) {
    if let lastDecrease, now - lastDecrease < limits.decreaseInterval { return }
    let used = min(value, max(inFlight, 1))
    value = limits.bounded(Int(Double(used) * limits.decreaseFactor))
    successes = 0
    lastDecrease = now
  }
}

extension ConcurrencyLimits {
  /// The value that the limit may have. An operator who sets the maximum below the minimum means the maximum.
  fileprivate func bounded(_ value: Int) -> Int { max(min(max(value, minimum), maximum), 1) }
}
