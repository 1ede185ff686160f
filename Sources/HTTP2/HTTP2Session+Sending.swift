import CNghttp2
public import HTTPTypes

// What is sent. Each call only puts frames in line for `collectOutput`. Streams that are over, or never were, are passed
// by in silence: the peer may have closed one before its owner has heard of it.
extension HTTP2Session {
  /// Opens a stream with a request. As a client only.
  /// - Parameter hasContent: Whether `send` will follow.
  /// - Returns: The stream. It ends with the delegate's `streamClosed`.
  /// - Throws: `noStreamAvailable`, `fieldSectionTooLarge`, `malformedMessage`, or `internalFailure` for want of memory.
  public func submitRequest(
    _ head: HTTP2RequestHead, hasContent: Bool = false
  ) throws(HTTP2Error) -> HTTP2StreamID {
    guard canOpenStream else { throw .noStreamAvailable }
    guard head.isSendable else { throw .malformedMessage }
    block.begin(head)
    try checkBlock()
    let id = unsafe block.withPairs { pairs, count in
      var provider = unsafe Self.provider
      guard hasContent else { return unsafe nghttp2_submit_request(session, nil, pairs, count, nil, nil) }
      return unsafe nghttp2_submit_request(session, nil, pairs, count, &provider, nil)
    }
    guard id > 0 else { throw .noStreamAvailable }
    streams[id] = Stream(id)
    openStreams += 1
    return id
  }

  /// Answers a request. As a server only, once for each stream.
  /// - Parameter hasContent: Whether `send` will follow.
  /// - Throws: `fieldSectionTooLarge`, `malformedMessage`, or `internalFailure` for want of memory.
  public func submitResponse(
    _ head: HTTP2ResponseHead, on id: HTTP2StreamID, hasContent: Bool = false
  ) throws(HTTP2Error) {
    guard let stream = streams[id], !stream.isClosed, !stream.isAbandoned else { return }
    guard 200...999 ~= head.status else { throw .malformedMessage }
    block.begin(head)
    try checkBlock()
    let code = unsafe block.withPairs { pairs, count in
      var provider = unsafe Self.provider
      guard hasContent else { return unsafe nghttp2_submit_response(session, id, pairs, count, nil) }
      return unsafe nghttp2_submit_response(session, id, pairs, count, &provider)
    }
    guard code == 0 else { throw .internalFailure(unsafe String(cString: nghttp2_strerror(code))) }
  }

  /// Sends content of a message that was submitted with it. The array is kept, not copied, until it is sent.
  /// - Parameter isLast: Whether the message is whole with this; it may be empty then.
  /// - Returns: Whether there is room for more. If not, wait for the delegate's `hasRoom`.
  @discardableResult
  public func send(_ content: [UInt8], on id: HTTP2StreamID, isLast: Bool = false) -> Bool {
    guard let stream = streams[id], !stream.isClosed, !stream.isAbandoned else { return false }
    stream.queue.append(content, isLast: isLast)
    if stream.isDeferred, stream.queue.count > 0 || stream.queue.isComplete {
      stream.isDeferred = false
      unsafe nghttp2_session_resume_data(session, id)
    }
    stream.awaitsRoom = stream.queue.count >= limits.sendQueue
    return !stream.awaitsRoom
  }

  /// Says that `count` bytes of the content that came on a stream have been read, and the peer may send as many more.
  public func consume(_ count: Int, on id: HTTP2StreamID) {
    // Nothing more comes on a stream that has ended; the connection's window was credited before.
    guard count > 0, let stream = streams[id], !stream.isClosed, !stream.isAbandoned, !stream.hasEnd else { return }
    unsafe nghttp2_session_consume_stream(session, id, count)
  }

  /// Ends a stream early. Its content in both directions is dropped; the delegate hears only that it is closed.
  public func reset(_ id: HTTP2StreamID, _ code: HTTP2ErrorCode) {
    guard let stream = streams[id], !stream.isAbandoned else { return }
    stream.isAbandoned = true
    guard !stream.isClosed else { return }
    stream.queue = ContentQueue()
    unsafe nghttp2_submit_rst_stream(session, 0, id, code.rawValue)
  }

  /// Says that the connection will end: streams that are open go on, new ones are refused (RFC 9113 §6.8).
  ///
  /// Requests that are on their way meanwhile are refused as unprocessed. A server that would rather answer them calls
  /// `announceGoAway` one round trip before.
  public func goAway(_ code: HTTP2ErrorCode = .noError) {
    goAwayCode = code
    let last = unsafe nghttp2_session_get_last_proc_stream_id(session)
    unsafe nghttp2_submit_goaway(session, 0, last, code.rawValue, nil, 0)
  }

  /// Asks the client to open no more streams, while those that it opens yet are still taken. As a server only.
  public func announceGoAway() {
    unsafe nghttp2_submit_shutdown_notice(session)
  }

  /// Asks the peer for a sign of life: `receivedPong` bears the same payload.
  public func ping(_ payload: UInt64) {
    // Safe: the library copies eight bytes.
    unsafe withUnsafeBytes(of: payload.bigEndian) { bytes in
      unsafe _ = nghttp2_submit_ping(session, 0, bytes.assumingMemoryBound(to: UInt8.self).baseAddress)
    }
  }

  /// Holds the laid-out header section against what the peer takes (RFC 9113 §10.5.1) and the library sends.
  private func checkBlock() throws(HTTP2Error) {
    let peerLimit = unsafe nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE)
    let limit = min(Int(peerLimit), 61_440)
    guard block.size <= limit else { throw .fieldSectionTooLarge(limit: limit) }
  }
}

extension HTTP2Session {
  /// Where the library gets content from: the stream's own queue.
  private static var provider: nghttp2_data_provider {
    unsafe nghttp2_data_provider(source: nghttp2_data_source()) { _, id, buffer, count, flags, _, owner in
      guard let session = unsafe HTTP2Session.of(owner), let flags = unsafe flags else {
        return Int(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue)
      }
      return unsafe session.moveContent(
        of: id, to: UnsafeMutableRawBufferPointer(start: buffer, count: count), flags: &flags.pointee)
    }
  }

  /// Moves content from a stream's queue to a frame.
  private func moveContent(
    of id: HTTP2StreamID, to buffer: UnsafeMutableRawBufferPointer, flags: inout UInt32
  ) -> Int {
    guard let stream = streams[id] else { return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue) }
    let count = unsafe stream.queue.move(to: buffer)
    if stream.awaitsRoom, stream.queue.count <= limits.sendQueue / 2 {
      stream.awaitsRoom = false
      events.append(.room(stream))
    }
    if stream.queue.count == 0, stream.queue.isComplete {
      flags |= NGHTTP2_DATA_FLAG_EOF.rawValue
    } else if count == 0 {
      stream.isDeferred = true
      return Int(NGHTTP2_ERR_DEFERRED.rawValue)
    }
    return count
  }

  /// A frame has been handed out.
  func sent(_ frame: nghttp2_frame) {
    switch unsafe nghttp2_frame_type(rawValue: UInt32(frame.hd.type)) {
    case NGHTTP2_HEADERS:
      unsafe streams[frame.hd.stream_id]?.isSent = true
      conduct.noteSent()
    case NGHTTP2_DATA: conduct.noteSent()
    case NGHTTP2_GOAWAY: unsafe noteGoAway(frame.goaway)
    default: break
    }
  }

  /// Notes a GOAWAY that the library sends on its own because the peer breaks the protocol. The library reports it only
  /// to the peer.
  private func noteGoAway(_ frame: nghttp2_goaway) {
    let goodbye = unsafe HTTP2GoAway(frame)
    guard failure == nil, goodbye.code != .noError, goodbye.code != goAwayCode else { return }
    failure = .connectionError(goodbye.code, goodbye.debugText)
  }
}

extension HTTP2RequestHead {
  /// Whether the control data may stand in a message: nothing in it could end a line or a field, and what must be there
  /// is (RFC 9113 §8.3.1).
  fileprivate var isSendable: Bool {
    guard HTTPRequest.Method(method) != nil, [scheme, authority, path].allSatisfy(HTTPField.isValidValue) else {
      return false
    }
    return method == "CONNECT" ? scheme.isEmpty && path.isEmpty : !scheme.isEmpty && !path.isEmpty
  }
}

/// Parts of content in the order in which they are to be sent. Holds the arrays that it is given; nothing is copied
/// before it is sent.
struct ContentQueue {
  /// Bytes that wait.
  private(set) var count = 0
  /// Whether nothing comes after those.
  private(set) var isComplete = false
  private var parts: [[UInt8]] = []
  /// The first part that still has bytes, and how many of them are gone.
  private var first = 0
  private var offset = 0

  /// Appends a part; after the last one, nothing.
  mutating func append(_ part: [UInt8], isLast: Bool) {
    guard !isComplete else { return }
    isComplete = isLast
    guard !part.isEmpty else { return }
    count += part.count
    parts.append(part)
  }

  /// Moves bytes to `buffer`: as many as it holds, or all that there are.
  /// - Returns: How many.
  mutating func move(to buffer: UnsafeMutableRawBufferPointer) -> Int {
    var moved = 0
    while moved < buffer.count, first < parts.count {
      let length = min(parts[first].count - offset, buffer.count - moved)
      unsafe parts[first].withUnsafeBytes { part in
        // Safe: both ranges are within their buffers by the line above.
        unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[moved..<moved + length])
          .copyMemory(from: UnsafeRawBufferPointer(rebasing: part[offset..<offset + length]))
      }
      moved += length
      offset += length
      if offset == parts[first].count { dropFirst() }
    }
    count -= moved
    return moved
  }

  /// Frees the first part, and the list once it is through, so that a long message does not lengthen it for ever.
  private mutating func dropFirst() {
    parts[first] = []
    first += 1
    offset = 0
    if first == parts.count {
      parts.removeAll(keepingCapacity: true)
      first = 0
    } else if first >= 32, first * 2 >= parts.count {
      parts.removeFirst(first)
      first = 0
    }
  }
}
