public import HTTPTypes

/// The peer takes no new streams on this connection (RFC 9113 §6.8).
public struct HTTP2GoAway: Sendable, Equatable {
  /// Why; `noError` for a shutdown in good order.
  public let code: HTTP2ErrorCode
  /// The last stream that the peer has processed or may process yet. Those after it are closed as unprocessed.
  public let lastStreamID: HTTP2StreamID
  /// What the peer said besides, for the log: printable ASCII, anything else as `?`, at most 128 characters.
  public let debugText: String
}
