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
  /// answer and the whole seconds of `Date` can make up.
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
