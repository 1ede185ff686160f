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

  /// A client asks, with a header section beyond the limits, which is not kept: answer 431 (RFC 6585 §5), or `reset`.
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
