/// When the key set of one provider may be fetched. A value: told the time, and what became of each fetch.
///
/// Once is not enough, since providers change keys; at every unknown `kid` is too often, since those are what strangers
/// make up. Whatever comes of it, the keys that are there stay in use.
public struct KeySetSchedule: Sendable, Equatable {
  /// Why a fetch would be welcome.
  public enum Occasion: Sendable, Hashable, CaseIterable {
    /// The present keys have come of age, or there are none yet.
    case age
    /// A JWT names a key that is not among them.
    case unknownKey
  }

  /// Seconds from one fetch because of unknown keys to the next: 30. The first unknown one has the set fetched at once,
  /// however young that is, so that a provider's new key is known the moment that it is used; made-up ones cost the
  /// provider two requests a minute.
  public static let unknownKeyPause = 30
  /// Seconds that a set is in use if the provider says nothing of it: 900. So long a withdrawn key is still taken.
  public static let defaultLifetime = 900
  /// Bounds to what the provider may say of it (Cache-Control's `max-age`), in seconds: 5 minutes to a day.
  public static let lifetimes = 300...86_400
  /// Seconds until another attempt after one that failed: 1. Doubled at each further failure.
  public static let leastBackOff = 1
  /// The longest such pause in seconds: 60.
  public static let longestBackOff = 60

  /// Whether one is under way.
  public private(set) var isFetching = false
  /// When the set in use was fetched; nil before the first.
  public private(set) var fetchedAt: Int?

  /// When the last fetch because of an unknown key began.
  private var unknownKeyAt: Int?
  private var dueAt = 0
  private var failures = 0
  private var notBefore = 0

  /// Nothing fetched yet, and all that is allowed.
  public init() {}

  /// Begins a fetch if one is due; then `succeeded` or `failed` must follow.
  ///
  /// - Parameter now: Seconds of a clock that never goes back, nor was ever below 0.
  /// - Returns: Whether it has begun.
  public mutating func begin(for occasion: Occasion, now: Int) -> Bool {
    guard !isFetching, now >= notBefore else { return false }
    switch occasion {
    case .age: guard now >= dueAt else { return false }
    case .unknownKey:
      // Without any set, each key is unknown: then the pauses between failures are pauses enough.
      guard fetchedAt != nil else { break }
      if let unknownKeyAt { guard now - unknownKeyAt >= Self.unknownKeyPause else { return false } }
      unknownKeyAt = now
    }
    isFetching = true
    return true
  }

  /// Notes a fetch that brought a set.
  ///
  /// - Parameter maxAge: How many seconds it may be used, as the provider says.
  public mutating func succeeded(now: Int, maxAge: Int? = nil) {
    let lifetime = maxAge.map { min(max($0, Self.lifetimes.lowerBound), Self.lifetimes.upperBound) }
    (isFetching, failures, notBefore) = (false, 0, 0)
    (fetchedAt, dueAt) = (now, now + (lifetime ?? Self.defaultLifetime))
  }

  /// Notes a fetch that brought none. The present set stays in use, and another attempt comes soon.
  public mutating func failed(now: Int) {
    let pause = min(Self.longestBackOff, Self.leastBackOff << min(failures, 10))
    (isFetching, failures) = (false, failures + 1)
    (notBefore, dueAt) = (now + pause, now + pause)
  }

  /// When `begin(for: .age)` will be true; in the past if it is already.
  public var nextAt: Int { max(dueAt, notBefore) }
}
