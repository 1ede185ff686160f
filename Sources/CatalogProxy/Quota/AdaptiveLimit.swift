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

  /// What those who want everything may have: an eighth is left to others, at least one, so that another's request does
  /// not have to wait until one of the greedy one's ends.
  var share: Int { Self.lessAnEighth(of: value) }

  /// That, of a number of requests.
  static func lessAnEighth(of count: Int) -> Int { max(count - max(count / 8, 1), 1) }

  /// A part of the limit, at least one; all of it for nil.
  func most(of share: Double?) -> Int {
    guard let share else { return value }
    return min(max(Int(exactly: (Double(value) * share).rounded(.down)) ?? 1, 1), value)
  }

  /// A request was answered. Grows by one when as many as the limit were, and if it was tried: if so many were in flight
  /// that one who wants everything could have no more, or if it kept somebody waiting who has a smaller share, while half
  /// of it was in use (half is what validates TCP's window, too: RFC 7661). Up to where it began it needs no such proof:
  /// nobody had tried that either.
  mutating func succeeded(inFlight: Int, isWanted: Bool) {
    let isTried = inFlight >= share || isWanted && (inFlight >= value / 2 || value < limits.bounded(limits.initial))
    guard isTried, value < limits.maximum else { return }
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
