public import HTTPTypes

/// How a stream ended.
public struct HTTP2StreamClosure: Sendable, Equatable {
  /// What ended it.
  public enum Cause: Sendable, Equatable {
    /// Both sides said all that they had to say.
    case finished
    /// `reset` was called before the end.
    case resetLocally
    /// The peer cut it short.
    case resetByPeer
    /// The peer provably did nothing with the request, so any method may be sent again (RFC 9113 §8.7): it refused the
    /// stream, its GOAWAY left it out, or the request was never sent.
    case unprocessed
    /// What the peer sent on it breaks the protocol; it was reset (RFC 9113 §8.1.1).
    case malformed
    /// The peer's header section exceeds a limit; it was reset. Only as a client: a server gets to answer.
    case fieldSectionTooLarge
    /// The connection is gone.
    case connectionLost
  }

  /// What ended it.
  public let cause: Cause
  /// The error code that was received or sent (RFC 9113 §7).
  public let code: HTTP2ErrorCode
}
