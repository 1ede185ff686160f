public import HTTPTypes

/// The receiver of a session's events, in their order on the wire. It may call all of the session except `receive`.
///
/// The events of a stream are its head, its content, its end, and finally `streamClosed`, once for every stream whose
/// head was delivered. After `reset` only `streamClosed` follows, with the earlier cause if the stream was closed before.
public protocol HTTP2SessionDelegate: AnyObject {
  /// Receives a client's request. Content and end follow. The delegate copies what it needs.
  func receivedRequest(_ request: HTTP2ReceivedRequest, on stream: HTTP2StreamID)
  /// Reports that a client's request ended before its delivery: it is malformed, or the client has reset it in the bytes
  /// that brought it, or its header section is so large that it ended the session. No other event of its stream comes.
  func lostRequest(_ closure: HTTP2StreamClosure)
  /// Receives the final response of the server. The session omits informational responses. Content and end follow.
  func receivedResponse(_ head: HTTP2ResponseHead, on stream: HTTP2StreamID)
  /// Receives content, never empty. It counts against the window of the stream until the reader passes it to `consume`.
  func receivedContent(_ content: Span<UInt8>, on stream: HTTP2StreamID)
  /// Receives the end of the peer's message on the stream. The session omits trailers.
  func receivedEnd(on stream: HTTP2StreamID)
  /// Reports that the queue of the stream, which was full, is at most half full.
  func hasRoom(on stream: HTTP2StreamID)
  /// Reports that the stream is closed.
  func streamClosed(_ stream: HTTP2StreamID, _ closure: HTTP2StreamClosure)
  /// Reports that the peer accepts no new streams. The streams that the peer excluded are reported as closed next.
  func receivedGoAway(_ goAway: HTTP2GoAway)
  /// Reports the settings of the peer: at the start, and whenever they change.
  func settingsChanged()
  /// Reports the peer's answer to the ping with this payload.
  func receivedPong(_ payload: UInt64)
}

/// The events that one side never has, or that an owner need not know because `canOpenStream` tells it.
extension HTTP2SessionDelegate {
  /// For a client.
  public func receivedRequest(_ request: HTTP2ReceivedRequest, on stream: HTTP2StreamID) {}
  /// For a client.
  public func lostRequest(_ closure: HTTP2StreamClosure) {}
  /// For a server.
  public func receivedResponse(_ head: HTTP2ResponseHead, on stream: HTTP2StreamID) {}
  /// For an owner that asks `canOpenStream`.
  public func receivedGoAway(_ goAway: HTTP2GoAway) {}
  /// For an owner that asks `canOpenStream`.
  public func settingsChanged() {}
  /// For an owner that never sends a ping.
  public func receivedPong(_ payload: UInt64) {}
}

/// The end of a stream.
public struct HTTP2StreamClosure: Sendable, Equatable {
  /// The cause of the end.
  public enum Cause: Sendable, Equatable {
    /// Both messages are complete.
    case finished
    case resetLocally
    case resetByPeer
    /// The peer provably did not process the request, so any method may be sent again (RFC 9113 §8.7): the peer refused
    /// the stream, its GOAWAY excluded the stream, or the request was never sent.
    case unprocessed
    /// The peer violated the protocol on this stream, and the session reset it (RFC 9113 §8.1.1).
    case malformed
    /// The peer's header section exceeds a limit, and the stream was reset. A server can respond to too large a request,
    /// so for it the section was a trailer section, or so large that it ended the session.
    case fieldSectionTooLarge
    case connectionLost
  }

  /// The cause of the end.
  public let cause: Cause
  /// The error code that was received or sent (RFC 9113 §7).
  public let code: HTTP2ErrorCode
}

/// The peer's announcement that it accepts no new streams on this connection (RFC 9113 §6.8).
public struct HTTP2GoAway: Sendable, Equatable {
  /// The reason. `noError` means an orderly shutdown.
  public let code: HTTP2ErrorCode
  /// The last stream that the peer has processed or may still process. Later streams are closed as unprocessed.
  public let lastStreamID: HTTP2StreamID
  /// The peer's debug data for the log: printable ASCII, other bytes as `?`, at most 128 characters.
  public let debugText: String
}

/// The reason why a session ended or rejected a call.
public enum HTTP2Error: Error, Sendable, Equatable {
  /// The peer does not speak HTTP/2: its first bytes are no connection preface (RFC 9113 §3.4).
  case notHTTP2
  /// The peer violated the protocol, and the session sends a GOAWAY with this code. The text is for the log.
  case connectionError(HTTP2ErrorCode, String)
  /// The peer causes work without useful requests, see ``HTTP2Limits``. GOAWAY with ENHANCE_YOUR_CALM follows.
  case flood(Flood)
  /// No stream can be opened now: the peer's limit or ours, a GOAWAY, or no stream numbers left.
  case noStreamAvailable
  /// The header section of the message to be sent exceeds `limit`, in bytes, of the peer or the library.
  case fieldSectionTooLarge(limit: Int)
  /// The message to be sent has control data that are invalid in HTTP.
  case malformedMessage
  case connectionLost
  /// The library failed, because memory ran out or because of an error in this program. The text is the library's.
  case internalFailure(String)

  /// The kind of excess.
  public enum Flood: Sendable, Equatable {
    /// Frames that neither request nor carry anything.
    case idleFrames
    /// Streams that the client opened and cut short.
    case resets
    /// CONTINUATION frames of one header block (CVE-2024-28182).
    case continuations
    /// A header section far beyond the limit, see ``HTTP2Limits/refusedSection``.
    case fieldSection
  }
}
