/// Decides what a 401 from Apple means, and whether to mint a new developer token.
///
/// Callers choose the path, the parameters and the user token, so a 401 to one request proves nothing about the developer
/// token. It counts only if `/v1/test`, which callers cannot influence, refuses the token as well. If the response depends
/// on a user, the server requests `/v1/test` first. Otherwise it tries a new token first, at most once in ``interval``, and
/// requests `/v1/test` if Apple refuses that, too. One request tests, others wait for the result, which stays valid for a
/// while. Any response that proves a token valid clears its refusals.
///
/// One value serves the whole process. Tokens have versions: a 401 for an old one says nothing about the current one.
package struct TokenRefreshPolicy: Sendable {
  /// The least time between two tokens minted because of a 401: 30 s.
  package static let interval: Duration = .seconds(30)
  /// The time for which an accepted token needs no test: 10 s. So during traffic, a user's 401 causes none.
  static let trust: Duration = .seconds(10)
  /// The time for which a refusal by `/v1/test` stays valid without a new test: 10 s.
  static let distrust: Duration = .seconds(10)
  /// The time without a new test after an inconclusive result of `/v1/test`: 1 s.
  static let doubt: Duration = .seconds(1)
  /// The time after which another request may test: 5 s. The task that tested may have been cancelled.
  static let testTime: Duration = .seconds(5)
  /// The polling interval of requests that wait for the test: 50 ms.
  static let pollInterval: Duration = .milliseconds(50)

  /// The version of the token to send.
  package private(set) var current = TokenVersion(number: 1)
  /// Whether Apple seems to refuse our token, until a request proves the current one valid.
  package private(set) var isDegraded = false
  private var lastMint: Duration?
  private var trustedUntil: Duration?
  private var doubtedUntil: Duration?
  private var testedUntil: Duration?
  /// The last token that `/v1/test` refused, and the end of the refusal's validity.
  private var refusal: (version: TokenVersion, until: Duration)?

  package init() {}

  /// Returns the version of a token minted without a 401: the last one expired, the key changed, or the clock was set.
  ///
  /// - Parameter isUnjudged: Whether the knowledge about the last token does not apply to the new one.
  package mutating func renewed(isUnjudged: Bool) -> TokenVersion {
    current = TokenVersion(number: current.number + 1)
    if isUnjudged { (lastMint, trustedUntil) = (nil, nil) }
    return current
  }

  /// Records a response that proves that Apple accepts the token.
  package mutating func accepted(_ version: TokenVersion, now: Duration) {
    if refusal?.version == version { refusal = nil }
    guard version == current else { return }
    isDegraded = false
    trustedUntil = now + Self.trust
  }

  /// Decides what to do after a 401 that a new token may resolve.
  ///
  /// - Parameter isRetry: Whether the request is a retry after an earlier 401.
  package mutating func unauthorized(_ version: TokenVersion, isRetry: Bool, now: Duration) -> RefreshAction {
    if version < current { return isRetry ? .exhausted : .retryWithCurrent }
    let isTooSoon = lastMint.map { now - $0 < Self.interval } ?? false
    guard !isRetry, !isTooSoon else { return .exhausted }
    (lastMint, trustedUntil) = (now, nil)
    current = TokenVersion(number: current.number + 1)
    return .mint(current)
  }

  /// Returns whether a 401 is about the developer token in the request.
  ///
  /// - Parameter mayResend: Whether a request with an earlier token can be sent again with the current one, whose response
  ///   then decides. Otherwise the earlier token is judged: a newer one does not make it invalid.
  package mutating func suspected(_ version: TokenVersion, mayResend: Bool = true, now: Duration) -> Suspicion {
    if version < current, mayResend { return .refused }
    if let refusal, refusal.version == version, now < refusal.until { return .refused }
    if let trustedUntil, now < trustedUntil { return .accepted }
    if let doubtedUntil, now < doubtedUntil { return .unknown }
    if let testedUntil, now < testedUntil { return .wait(Self.pollInterval) }
    testedUntil = now + Self.testTime
    return .askTest
  }

  /// Records the result of a request to `/v1/test` with this version.
  package mutating func tested(_ verdict: TokenVerdict, _ version: TokenVersion, now: Duration) {
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

  /// Records the verdict on another token of the key that signs, which no request has sent.
  package mutating func judged(_ verdict: TokenVerdict) {
    switch verdict {
    case .accepted: isDegraded = false
    case .refused: isDegraded = true
    case .unknown, .abandoned: break
    }
  }

  /// Records that Apple refuses this token, and that no other one helps for now.
  package mutating func rejected(_ version: TokenVersion) {
    if version == current { isDegraded = true }
  }

  package enum RefreshAction: Sendable, Equatable {
    /// Mint a new token of this version, and send the request once more.
    case mint(TokenVersion)
    /// Another request's 401 has already led to a new token: send the request once more with that token.
    case retryWithCurrent
    /// A new token does not help, or was tried recently.
    case exhausted
  }

  package enum Suspicion: Sendable, Equatable {
    /// Apple accepts the token, so the 401 is about the request.
    case accepted
    case refused
    /// A test at `/v1/test` had no conclusive result.
    case unknown
    /// Request `/v1/test` with the same token, and report the result with `tested`.
    case askTest
    /// Another request is testing. Call again after this time.
    case wait(Duration)
  }
}

/// The result of a request to `/v1/test`.
public enum TokenVerdict: Sendable, Equatable {
  case accepted
  /// The response is 401.
  case refused
  /// Another response or none.
  case unknown
  /// The request to `/v1/test` was cancelled.
  case abandoned
}

/// The likely reason why Apple refuses our developer token, which the server infers, because Apple's 401 has no content.
public enum TokenRejection: Sendable, Equatable, CustomStringConvertible {
  /// This clock is ahead of Apple's by `seconds`. Tokens seem to be issued in the future, or to live too long.
  case clockAhead(seconds: Int)
  /// This clock is behind Apple's by `seconds`. Tokens expire before they are used.
  case clockBehind(seconds: Int)
  /// The clock seems correct. So key, key ID and team do not match, or the key has been revoked.
  case unknown

  /// The least clock difference that is reported, in seconds: 30. One of 34 s was enough for a 401. A smaller one can result
  /// from a slow response and from the whole seconds of `Date`.
  public static let leastSkew = 30

  /// Infers the reason of a 401.
  ///
  /// - Parameters:
  ///   - upstreamDate: The response's `Date` (RFC 9110 §6.6.1) in seconds since the epoch. Nil without a date.
  ///   - now: This clock at arrival of the response, in seconds since the epoch.
  public init(upstreamDate: Int?, now: Int) {
    let (skew, overflow) = now.subtractingReportingOverflow(upstreamDate ?? now)
    if !overflow, skew >= Self.leastSkew {
      self = .clockAhead(seconds: skew)
    } else if !overflow, skew <= -Self.leastSkew {
      self = .clockBehind(seconds: Int(clamping: skew.magnitude))
    } else {
      self = .unknown
    }
  }

  /// The problem and its solution, for the operator and the caller.
  public var description: String { "Apple Music refuses this server's developer token. " + advice }

  /// The likely reason and its solution.
  public var advice: String {
    switch self {
    case .clockAhead(let seconds):
      "The server's clock is \(seconds) s ahead of Apple's, so tokens seem to come from the future. Set it, or use NTP."
    case .clockBehind(let seconds):
      "The server's clock is \(seconds) s behind Apple's, so tokens seem to have expired. Set it, or use NTP."
    case .unknown:
      """
      Either key, key ID and team ID do not belong together, or the key is revoked. Compare them with the developer \
      account.
      """
    }
  }
}

/// The version of a developer token. Each new token has a higher version.
package struct TokenVersion: Sendable, Hashable, Comparable {
  let number: UInt64

  package static func < (left: TokenVersion, right: TokenVersion) -> Bool { left.number < right.number }
}
