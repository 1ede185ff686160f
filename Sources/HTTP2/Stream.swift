import HTTPTypes

/// What a session knows of one stream.
final class Stream {
  let id: HTTP2StreamID
  /// Content that waits to be sent.
  var queue = ContentQueue()
  /// Whether the library waits for content and must be told of it.
  var isDeferred = false
  /// Whether the owner was told that the queue is full, and not yet that it has room again.
  var awaitsRoom = false
  /// Whether the head of the final message has arrived: what comes after it are trailers.
  var hasHead = false
  /// Whether the peer's message is whole.
  var hasEnd = false
  /// Whether a client has sent the request.
  var isSent = false
  /// Whether the owner has reset it: it wants to hear of nothing but its end.
  var isAbandoned = false
  /// Whether it is over for the library. The owner may still have to be told.
  var isClosed = false
  /// What is known of its end before it ends.
  var cause: HTTP2StreamClosure.Cause?

  init(_ id: HTTP2StreamID) { self.id = id }

  /// How it ended, with the library's `code`.
  func closure(_ code: HTTP2ErrorCode) -> HTTP2StreamClosure {
    HTTP2StreamClosure(cause: isAbandoned ? .resetLocally : cause ?? likelyCause(code), code: code)
  }

  private func likelyCause(_ code: HTTP2ErrorCode) -> HTTP2StreamClosure.Cause {
    if code == .noError { return hasEnd ? .finished : .resetByPeer }
    // The library closes with this what a GOAWAY left out and what it never sent. Once an answer has begun, a peer that
    // says so contradicts itself.
    return code == .refusedStream && !hasHead ? .unprocessed : .malformed
  }
}
