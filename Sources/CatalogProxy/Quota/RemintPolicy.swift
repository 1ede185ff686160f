/// What a 401 of Apple's means, and whether a fresh developer token is made for it.
///
/// On the catalog it is our token's, which is made anew: at most once in a while, however many callers run into it,
/// because a key that Apple does not take costs two requests for each. Under `/v1/me` it may be the user's: it counts
/// against our token only if that has been refused elsewhere, or if `/v1/test` refuses it, too. One request asks there,
/// the others wait for what it hears.
///
/// One value serves the whole process, behind a lock. Tokens have versions: a 401 for an old one says nothing about the
/// current one.
public struct RemintPolicy: Sendable {
  /// Least time between two tokens that are made because of a 401: 30 s.
  public static let interval: Duration = .seconds(30)

  /// How long a token that was accepted is beyond suspicion: 10 s. So while the catalog is asked as well, a user's 401
  /// costs no request to `/v1/test`.
  static let trust: Duration = .seconds(10)

  /// How long a 401 under `/v1/me` counts as the user's after `/v1/test` could not say: 1 s.
  static let doubt: Duration = .seconds(1)

  /// How long `/v1/test` may take before another request asks: 5 s. Who asked may have gone and said nothing.
  static let testTime: Duration = .seconds(5)

  /// How often those who wait for it look: every 50 ms.
  static let pollInterval: Duration = .milliseconds(50)

  /// The version of the token to send.
  public private(set) var current = TokenVersion(number: 1)

  /// Whether Apple refuses our token, as far as is known. Ends with the first request that the current one is good for.
  public private(set) var isDegraded = false

  private var lastMint: Duration?
  private var lastRefused = TokenVersion(number: 0)
  private var trustedUntil: Duration?
  private var testedUntil: Duration?

  /// As at the start, with a first token.
  public init() {}

  /// A token was made for another reason than a 401: the last one had grown old, or there is another key.
  ///
  /// - Parameter hasNewKey: Whether what is known about the last one does not hold for it.
  /// - Returns: The version that it is of.
  public mutating func renewed(hasNewKey: Bool) -> TokenVersion {
    current = TokenVersion(number: current.number + 1)
    if hasNewKey {
      lastMint = nil
      trustedUntil = nil
    }
    return current
  }

  /// A request was answered with anything but 401.
  public mutating func accepted(_ version: TokenVersion, now: Duration) {
    guard version == current else { return }
    isDegraded = false
    trustedUntil = now + Self.trust
  }

  /// A request was answered with 401 that is our token's.
  ///
  /// - Parameters:
  ///   - version: Of the token that it bore.
  ///   - isRetry: Whether it had been sent before and was answered with 401 then, too.
  public mutating func unauthorized(_ version: TokenVersion, isRetry: Bool, now: Duration) -> Decision {
    lastRefused = max(lastRefused, version)
    if version < current { return isRetry ? .rejected : .retryWithCurrent }
    trustedUntil = nil
    let isTooSoon = lastMint.map { now - $0 < Self.interval } ?? false
    guard !isRetry, !isTooSoon else {
      isDegraded = true
      return .rejected
    }
    lastMint = now
    current = TokenVersion(number: current.number + 1)
    return .mint(current)
  }

  /// A request under `/v1/me` was answered with 401.
  ///
  /// - Parameter version: Of the token that it bore.
  public mutating func suspected(_ version: TokenVersion, now: Duration) -> Suspicion {
    if version <= lastRefused { return .ours }
    if let trustedUntil, now < trustedUntil { return .theirs }
    if let testedUntil, now < testedUntil { return .wait(Self.pollInterval) }
    testedUntil = now + Self.testTime
    return .askTest
  }

  /// `/v1/test` has been asked.
  ///
  /// - Parameter version: Of the token that it was asked with.
  public mutating func tested(_ outcome: TestOutcome, _ version: TokenVersion, now: Duration) {
    testedUntil = nil
    switch outcome {
    case .accepted: accepted(version, now: now)
    case .refused:
      lastRefused = max(lastRefused, version)
      trustedUntil = nil
    case .inconclusive: trustedUntil = now + Self.doubt
    }
  }
}
