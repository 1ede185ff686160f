/// News that waits to be told until the library is not at work.
///
/// It holds the stream itself, so that one closed later in the same bytes can still be told about.
enum SessionEvent {
  case request(Stream, HTTP2RequestHead)
  case oversizedRequest(Stream)
  case response(Stream, HTTP2ResponseHead)
  /// Where the content is in the bytes being received: it is told before they go away.
  case content(Stream, Range<Int>)
  case end(Stream)
  case room(Stream)
  case closed(Stream, HTTP2StreamClosure)
  case goAway(HTTP2GoAway)
  case settings
  case pong(UInt64)
}
