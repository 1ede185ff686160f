/// The schedule of fetches of one provider's key set: a value that gets the time and the result of each fetch. One
/// fetch is not enough, because providers change keys. A fetch at every unknown `kid` is too much, because a stranger
/// can invent them. The present keys stay in use, whatever the result.
public struct KeySetSchedule: Sendable, Equatable {
  /// The reason for a fetch.
  public enum Occasion: Sendable, Hashable, CaseIterable {
    /// The present keys are too old, or there are none yet.
    case age
    /// A JWT names a key that is not in the present set, or one that did not make its signature.
    case unknownKey
  }

  /// The seconds from one fetch for an unknown key to the next. The first unknown key causes a fetch at once, however
  /// young the set is, so a provider's new key works as soon as it is used. Invented keys cost two requests a minute.
  static let unknownKeyPause = 30
  /// The lifetime of a set in seconds if the provider states none. The server accepts a withdrawn key for that long.
  static let defaultLifetime = 900
  /// The bounds of the lifetime that the provider states (Cache-Control's `max-age`), in seconds: 5 minutes to a day.
  public static let lifetimes = 300...86_400
  /// The backoff after the first failure in seconds. It doubles at each further failure.
  public static let leastBackOff = 1
  /// The longest backoff in seconds.
  public static let longestBackOff = 60

  private(set) var isFetching = false
  /// The time when the present set was fetched; nil before the first.
  public private(set) var fetchedAt: Int?

  private var unknownKeyAt: Int?
  private var dueAt = 0
  private var failures = 0
  private var notBefore = 0

  /// Creates a schedule without a set, which allows a fetch at once.
  public init() {}

  /// Begins a fetch if one is due at `now`, in monotonic seconds from 0. If true, call `succeeded` or `failed` next.
  public mutating func begin(for occasion: Occasion, now: Int) -> Bool {
    guard allows(occasion, now: now) else { return false }
    // Without a set, every key is unknown. The backoff then limits the fetches.
    if occasion == .unknownKey, fetchedAt != nil { unknownKeyAt = now }
    isFetching = true
    return true
  }

  /// Returns whether a fetch may begin.
  public func allows(_ occasion: Occasion, now: Int) -> Bool {
    guard !isFetching, now >= notBefore else { return false }
    switch occasion {
    case .age: return now >= dueAt
    case .unknownKey:
      guard fetchedAt != nil, let unknownKeyAt else { return true }
      return now - unknownKeyAt >= Self.unknownKeyPause
    }
  }

  /// Records a fetch that returned a set, with the lifetime in seconds that the provider states; nil if it states none.
  public mutating func succeeded(now: Int, maxAge: Int? = nil) {
    let lifetime = maxAge.map { min(max($0, Self.lifetimes.lowerBound), Self.lifetimes.upperBound) }
    (isFetching, failures, notBefore) = (false, 0, 0)
    (fetchedAt, dueAt) = (now, now + (lifetime ?? Self.defaultLifetime))
  }

  /// Records a failed fetch. The present set stays in use, and the next attempt follows after a backoff.
  public mutating func failed(now: Int) {
    let pause = min(Self.longestBackOff, Self.leastBackOff << min(failures, 10))
    (isFetching, failures) = (false, failures + 1)
    (notBefore, dueAt) = (now + pause, now + pause)
  }

  /// The time from which `begin(for: .age)` returns true; it may be in the past.
  public var nextAt: Int { max(dueAt, notBefore) }
}
