public import HTTPTypes

/// Why a session ended, or would not do what it was asked to.
public enum HTTP2Error: Error, Sendable, Equatable {
  /// The peer does not speak HTTP/2: it began with something else (RFC 9113 §3.4).
  case notHTTP2
  /// The peer broke the protocol; a GOAWAY with this code tells it so. The text is for the log.
  case connectionError(HTTP2ErrorCode, String)
  /// The peer makes work without asking for anything, see ``HTTP2Limits``; GOAWAY with ENHANCE_YOUR_CALM.
  case flood(Flood)
  /// No stream can be opened now: the peer's limit or ours, a GOAWAY, or no numbers left.
  case noStreamAvailable
  /// The message to be sent has a header section larger than the peer or the library takes, in bytes.
  case fieldSectionTooLarge(limit: Int)
  /// The message to be sent has control data that no HTTP message may have.
  case malformedMessage
  /// The owner has said that the connection is gone.
  case connectionLost
  /// The library gave up, because memory ran out or because of an error in this program. Its words.
  case internalFailure(String)

  /// What there was too much of.
  public enum Flood: Sendable, Equatable {
    /// Frames that neither ask nor carry anything.
    case idleFrames
    /// Streams that were opened and cut short.
    case resets
  }
}
