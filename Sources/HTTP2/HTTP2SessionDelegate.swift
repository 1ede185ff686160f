public import HTTPTypes

/// What a session tells its owner, in the order in which it happened on the wire.
///
/// Each call that can have events takes the delegate; the session keeps no reference to it. The session calls the
/// delegate while the library is not at work. So the delegate may call every method of the session except `receive`.
///
/// A stream's events are: its head, content, its end, and last `streamClosed`, once for every stream. After `reset`
/// only that one comes; its cause is the older one if the stream was over by then.
public protocol HTTP2SessionDelegate: AnyObject {
  /// A client asks. Content and end follow.
  func receivedRequest(_ head: HTTP2RequestHead, on stream: HTTP2StreamID)

  /// A client asks, with a header section beyond the limits, which is not kept: response 431 (RFC 6585 §5), or `reset`.
  func receivedOversizedRequest(on stream: HTTP2StreamID)

  /// The server answers, finally: informational responses are left out. Content and end follow.
  func receivedResponse(_ head: HTTP2ResponseHead, on stream: HTTP2StreamID)

  /// Content arrived, never empty. It counts against the stream's window until it is passed to `consume`.
  func receivedContent(_ content: Span<UInt8>, on stream: HTTP2StreamID)

  /// The message that the peer sends on the stream is whole. Trailers are left out.
  func receivedEnd(on stream: HTTP2StreamID)

  /// The stream's queue, which was full, is at most half full.
  func hasRoom(on stream: HTTP2StreamID)

  /// The stream is over.
  func streamClosed(_ stream: HTTP2StreamID, _ closure: HTTP2StreamClosure)

  /// The peer takes no new streams. Streams that it left out are reported closed just after.
  func receivedGoAway(_ goAway: HTTP2GoAway)

  /// The peer has sent its settings: at the start, and whenever they change.
  func settingsChanged()

  /// The peer has answered the ping with this payload.
  func receivedPong(_ payload: UInt64)
}

extension HTTP2SessionDelegate {
  /// Nothing: a client gets none.
  public func receivedRequest(_ head: HTTP2RequestHead, on stream: HTTP2StreamID) {}

  /// Nothing: a client gets none.
  public func receivedOversizedRequest(on stream: HTTP2StreamID) {}

  /// Nothing: a server gets none.
  public func receivedResponse(_ head: HTTP2ResponseHead, on stream: HTTP2StreamID) {}

  /// Nothing: `canOpenStream` tells the same.
  public func receivedGoAway(_ goAway: HTTP2GoAway) {}

  /// Nothing: `canOpenStream` tells the same.
  public func settingsChanged() {}

  /// Nothing: for those who never ping.
  public func receivedPong(_ payload: UInt64) {}
}

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

/// The peer takes no new streams on this connection (RFC 9113 §6.8).
public struct HTTP2GoAway: Sendable, Equatable {
  /// Why; `noError` for a shutdown in good order.
  public let code: HTTP2ErrorCode
  /// The last stream that the peer has processed or may process yet. Those after it are closed as unprocessed.
  public let lastStreamID: HTTP2StreamID
  /// What the peer said besides, for the log: printable ASCII, anything else as `?`, at most 128 characters.
  public let debugText: String
}

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
