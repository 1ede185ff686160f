/// A number of requests that may be under way: it grows while it is in use and the upstream answers.
///
/// It keeps an upstream that hangs from taking every connection and all memory. The quota is the ``RatePacer``'s.
struct AdaptiveLimit: Sendable {
  private let limits: ConcurrencyLimits
  private(set) var value: Int

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

  /// A request was answered. Grows by one if it was tried: if so many were in flight that one who wants everything could
  /// have no more, or if it kept somebody waiting who has a smaller share, while half of it was in use (half is what
  /// validates TCP's window, too: RFC 7661). Up to where it began it needs no such proof: nobody had tried that either.
  /// It grows as TCP's slow start does (RFC 5681 §3.1): nothing but a bound of our own is above it, and a quota that has
  /// doubled is to be in use within 5 s.
  mutating func succeeded(inFlight: Int, isWanted: Bool) {
    let isTried = inFlight >= share || isWanted && (inFlight >= value / 2 || value < limits.bounded(limits.initial))
    if isTried, value < limits.maximum { value += 1 }
  }
}

extension ConcurrencyLimits {
  /// The value that the limit may have.
  fileprivate func bounded(_ value: Int) -> Int { max(min(value, maximum), 1) }
}
