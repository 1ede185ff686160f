/// What a 401 of Apple's means, and whether a fresh developer token is made for it.
///
/// Callers choose the path, the parameters and the user token, so a 401 to one request proves nothing about the
/// developer token. It counts against the token only if `/v1/test`, which no caller has a say in, refuses that token as
/// well. Where the response depends on a user, `/v1/test` is asked first. Elsewhere a fresh token is tried first, at most
/// once in ``interval``, and `/v1/test` is asked if Apple refuses that one, too. One request asks there, the others wait
/// for its result, and the result holds for a while. Any response that proves a token good clears what was held against
/// it.
///
/// One value serves the whole process, behind a lock. Tokens have versions: a 401 for an old one says nothing about the
/// current one.
public struct TokenRefreshPolicy: Sendable {
  /// Least time between two tokens that are made because of a 401: 30 s.
  public static let interval: Duration = .seconds(30)

  /// How long a token that was accepted is beyond suspicion: 10 s. So while the catalog is asked as well, a user's 401
  /// costs no request to `/v1/test`.
  static let trust: Duration = .seconds(10)

  /// How long the refusal of a token by `/v1/test` holds before `/v1/test` is asked again: 10 s.
  static let distrust: Duration = .seconds(10)

  /// How long `/v1/test` is not asked again after it could not say: 1 s.
  static let doubt: Duration = .seconds(1)

  /// How long `/v1/test` may take before another request asks: 5 s. The task that asked may have been cancelled.
  static let testTime: Duration = .seconds(5)

  /// How often those who wait for it look: every 50 ms.
  static let pollInterval: Duration = .milliseconds(50)

  /// The version of the token to send.
  public private(set) var current = TokenVersion(number: 1)

  /// Whether Apple seems to refuse our token. Ends with the first request that shows that the current token is valid.
  public private(set) var isDegraded = false

  private var lastMint: Duration?
  private var trustedUntil: Duration?
  private var doubtedUntil: Duration?
  private var testedUntil: Duration?
  /// The token that `/v1/test` refused last, and until when that holds.
  private var refusal: (version: TokenVersion, until: Duration)?

  /// As at the start, with a first token.
  public init() {}

  /// A token was made for another reason than a 401: the last one had grown old, there is another key, or the wall clock
  /// was set.
  ///
  /// - Parameter isUnjudged: Whether what is known about the last one does not hold for it.
  /// - Returns: The version that it is of.
  public mutating func renewed(isUnjudged: Bool) -> TokenVersion {
    current = TokenVersion(number: current.number + 1)
    if isUnjudged {
      lastMint = nil
      trustedUntil = nil
    }
    return current
  }

  /// A response came that Apple gives only to a token that it accepts.
  public mutating func accepted(_ version: TokenVersion, now: Duration) {
    if refusal?.version == version { refusal = nil }
    guard version == current else { return }
    isDegraded = false
    trustedUntil = now + Self.trust
  }

  /// A request was answered with 401, and a fresh token may help.
  ///
  /// - Parameters:
  ///   - version: Of the token that it bore.
  ///   - isRetry: Whether it had been sent before and was answered with 401 then, too.
  public mutating func unauthorized(_ version: TokenVersion, isRetry: Bool, now: Duration) -> Decision {
    if version < current { return isRetry ? .exhausted : .retryWithCurrent }
    let isTooSoon = lastMint.map { now - $0 < Self.interval } ?? false
    guard !isRetry, !isTooSoon else { return .exhausted }
    lastMint = now
    trustedUntil = nil
    current = TokenVersion(number: current.number + 1)
    return .mint(current)
  }

  /// Whether a 401 is about the developer token that the request bore.
  public mutating func suspected(_ version: TokenVersion, now: Duration) -> Suspicion {
    if version < current { return .refused }
    if let refusal, refusal.version == version, now < refusal.until { return .refused }
    if let trustedUntil, now < trustedUntil { return .accepted }
    if let doubtedUntil, now < doubtedUntil { return .unknown }
    if let testedUntil, now < testedUntil { return .wait(Self.pollInterval) }
    testedUntil = now + Self.testTime
    return .askTest
  }

  /// `/v1/test` has been asked.
  ///
  /// - Parameter version: Of the token that it was asked with.
  public mutating func tested(_ verdict: Verdict, _ version: TokenVersion, now: Duration) {
    testedUntil = nil
    switch verdict {
    case .accepted: accepted(version, now: now)
    case .refused:
      refusal = (version, now + Self.distrust)
      if version == current { trustedUntil = nil }
    case .unknown: doubtedUntil = now + Self.doubt
    case .abandoned: break
    }
  }

  /// Apple refuses this token, and no other helps for now.
  public mutating func rejected(_ version: TokenVersion) {
    if version == current { isDegraded = true }
  }
}
