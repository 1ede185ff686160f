/// A number of requests that may be under way: it grows while it is in use and the upstream answers.
///
/// It keeps an upstream that hangs from taking every connection and all memory. The quota is the ``RatePacer``'s.
struct AdaptiveLimit: Sendable {
  private let limits: ConcurrencyLimits
  private(set) var value: Int
  /// Successes with the limit in use since it last changed: as many as the limit are about a round trip.
  private var successes = 0

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
}

extension ConcurrencyLimits {
  /// The value that the limit may have.
  fileprivate func bounded(_ value: Int) -> Int { max(min(value, maximum), 1) }
}
