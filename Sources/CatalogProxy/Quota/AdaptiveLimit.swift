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

  /// Counts a request that the upstream answered. The limit grows by one if the traffic has tried it. That is so if as
  /// many requests were in flight as one greedy caller may have. It is also so if a request waits because its client's
  /// share is smaller, while at least half of the limit is in use (half also validates TCP's window: RFC 7661). Below
  /// its initial value the limit needs no such proof of use, because the initial value was untested, too. The limit
  /// grows like TCP's slow start (RFC 5681 §3.1): only our own maximum is above it, and if the quota doubles, requests
  /// should use it within 5 s.
  mutating func succeeded(inFlight: Int, isWanted: Bool) {
    let isTried = inFlight >= share || isWanted && (inFlight >= value / 2 || value < limits.bounded(limits.initial))
    if isTried, value < limits.maximum { value += 1 }
  }
}

extension ConcurrencyLimits {
  /// The value that the limit may have.
  fileprivate func bounded(_ value: Int) -> Int { max(min(value, maximum), 1) }
}
