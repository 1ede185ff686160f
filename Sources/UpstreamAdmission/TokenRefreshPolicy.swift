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

extension TokenRefreshPolicy {
  /// What a 401 leads to that may be about our token.
  public enum Decision: Sendable, Equatable {
    /// Make a fresh token, which is of this version, and send the request once more.
    case mint(TokenVersion)
    /// Another request's 401 has led to a fresh token by now: send the request once more with that.
    case retryWithCurrent
    /// A fresh token does not help, or has just been tried.
    case exhausted
  }

  /// Whether a 401 is about the developer token.
  public enum Suspicion: Sendable, Equatable {
    /// Apple accepts the token: the 401 is about the request.
    case accepted
    /// Apple refuses the token.
    case refused
    /// `/v1/test` has been asked, and could not say.
    case unknown
    /// Ask `/v1/test` with the same token, and report with `tested`.
    case askTest
    /// Another request is asking: ask here again after this time.
    case wait(Duration)
  }

  /// What `/v1/test` says of a token.
  public enum Verdict: Sendable, Equatable {
    /// The token is good.
    case accepted
    /// 401.
    case refused
    /// Something else, or nothing.
    case unknown
    /// The request that asked was cancelled.
    case abandoned
  }
}

/// The likely reason why Apple refuses our developer token. Apple's 401 has no content, so the server infers the
/// reason.
public struct TokenRejection: Sendable, Equatable, CustomStringConvertible {
  /// What the signing key is known to be.
  public enum KeyState: Sendable, Equatable {
    /// It is the one that is configured as active.
    case active
    /// There is no key to sign with.
    case missing
    /// It is configured as retired.
    case retired
  }

  /// The likely reason.
  public enum Reason: Sendable, Equatable {
    /// This clock is ahead of Apple's, by so many seconds: tokens look as if they were issued in the future, or lived
    /// too long.
    case clockAhead(seconds: Int)
    /// This clock is behind Apple's: tokens expire before they are used.
    case clockBehind(seconds: Int)
    /// There is no active key.
    case key(KeyState)
    /// Clock and key seem to be in order. So key, key ID and team do not belong together, or the key has been revoked.
    case unknown
  }

  /// The likely reason.
  public let reason: Reason

  /// The smallest difference of the clocks that is told: 30 s. 34 s were enough for a 401; below that lies what a slow
  /// response and the whole seconds of `Date` can make up.
  public static let leastSkew = 30

  /// Judges a 401.
  ///
  /// - Parameters:
  ///   - upstreamDate: The response's `Date` (RFC 9110 §6.6.1) in seconds since the epoch; nil if it has no date.
  ///   - now: This clock when it came, in seconds since the epoch.
  ///   - key: What the key is known to be.
  public init(upstreamDate: Int?, now: Int, key: KeyState) {
    let (skew, overflow) = now.subtractingReportingOverflow(upstreamDate ?? now)
    if key != .active {
      reason = .key(key)
    } else if !overflow, skew >= Self.leastSkew {
      reason = .clockAhead(seconds: skew)
    } else if !overflow, skew <= -Self.leastSkew {
      reason = .clockBehind(seconds: Int(clamping: skew.magnitude))
    } else {
      reason = .unknown
    }
  }

  /// What happened, and what to do: for the operator and the caller alike.
  public var description: String {
    "Apple Music refuses this server's developer token. " + advice
  }

  private var advice: String {
    switch reason {
    case .clockAhead(let seconds):
      "Its clock is \(seconds) s ahead of Apple's, so that tokens seem to come from the future: set it, for example by NTP."
    case .clockBehind(let seconds):
      "Its clock is \(seconds) s behind Apple's, so that tokens seem to have expired: set it, for example by NTP."
    case .key(.missing): "It has no active key to sign with: configure one."
    case .key(.retired): "It is signed with a key that is configured as retired: make another one active."
    case .key(.active), .unknown:
      """
      Either key, key ID and team ID do not belong together, or the key has been revoked: compare them with the \
      developer account.
      """
    }
  }
}

/// Which of the developer tokens that were made one after the other a request bore.
public struct TokenVersion: Sendable, Hashable, Comparable {
  let number: UInt64

  /// Whether `left` is the older one.
  public static func < (left: TokenVersion, right: TokenVersion) -> Bool {
    left.number < right.number
  }
}
