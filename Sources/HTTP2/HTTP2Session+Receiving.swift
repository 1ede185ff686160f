import CNghttp2
import HTTPTypes

// Callbacks while the library processes received bytes. They record state and queue events.
extension HTTP2Session {
  /// Starts a header section. Returns 0, or the library's code to reset the stream.
  func beginHeaders(_ frame: nghttp2_frame) -> CInt {
    // A PUSH_PROMISE that the server sent before it received our ENABLE_PUSH setting of 0 (RFC 9113 §6.5.2).
    guard unsafe frame.hd.type == UInt8(truncatingIfNeeded: NGHTTP2_HEADERS.rawValue) else {
      return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue
    }
    if role == .server { heads.begin() } else { builder = ResponseBuilder() }
    if unsafe frame.headers.cat == NGHTTP2_HCAT_REQUEST {
      open(unsafe frame.hd.stream_id)
      conduct.noteUse()
    }
    return 0
  }

  /// Adds a field line that the library has checked. Returns 0, or the library's code to reset the stream, or to pause.
  func receive(_ name: Span<UInt8>, _ value: Span<UInt8>, on id: HTTP2StreamID) -> CInt {
    guard let stream = stream(id) else { return 0 }
    if role == .server { heads.add(name, value, limits: limits) } else { builder.add(name, value, limits: limits) }
    guard heads.isOversized || builder.isOversized, role == .client || stream.hasHead else {
      if heads.isExcessive {
        // Without the rest of the section HPACK's table is not valid, so `process` ends the session.
        stream.cause = .fieldSectionTooLarge
        return NGHTTP2_ERR_PAUSE.rawValue
      }
      // The owner may still respond to an oversized request. Its other fields are decoded only to keep the HPACK table
      // valid. Small frames can expand to large heads, so many of them are delivered before the next.
      isPaused = heads.isFull
      return isPaused ? NGHTTP2_ERR_PAUSE.rawValue : 0
    }
    stream.cause = .fieldSectionTooLarge
    unsafe nghttp2_submit_rst_stream(session, 0, id, NGHTTP2_ENHANCE_YOUR_CALM.rawValue)
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue
  }

  /// Queues content as a range of the input.
  func receive(content: UnsafeBufferPointer<UInt8>, on id: HTTP2StreamID) {
    guard !content.isEmpty else { return }
    conduct.noteUse()
    guard let stream = stream(id), let input = unsafe input, let start = content.baseAddress else { return }
    let offset = unsafe start - input
    events.append(.content(stream, offset..<offset + content.count))
  }

  func receive(_ frame: nghttp2_frame) {
    switch unsafe nghttp2_frame_type(rawValue: UInt32(frame.hd.type)) {
    case NGHTTP2_HEADERS: unsafe receiveHeaders(frame.hd)
    case NGHTTP2_DATA: unsafe receiveEnd(frame.hd)
    case NGHTTP2_RST_STREAM: unsafe receiveReset(frame.rst_stream)
    case NGHTTP2_SETTINGS where unsafe !frame.hd.has(NGHTTP2_FLAG_ACK): events.append(.settings)
    case NGHTTP2_PING where unsafe frame.hd.has(NGHTTP2_FLAG_ACK):
      // Safe: any eight bytes are a valid number.
      let payload = unsafe withUnsafeBytes(of: frame.ping.opaque_data) { unsafe $0.loadUnaligned(as: UInt64.self) }
      events.append(.pong(UInt64(bigEndian: payload)))
    case NGHTTP2_GOAWAY: events.append(.goAway(unsafe HTTP2GoAway(frame.goaway)))
    default: break
    }
  }

  /// Records the end of a stream and queues the event.
  func close(_ stream: Stream, _ code: HTTP2ErrorCode) {
    let closure = stream.closure(code)
    stream.isClosed = true
    openStreams -= 1
    dropQueue(of: stream)
    if role == .server, closure.cause != .resetLocally {
      conduct.noteEnd(cutShort: closure.cause != .finished || stream.isOversized)
    }
    events.append(.closed(stream, closure))
  }

  private func receiveHeaders(_ header: nghttp2_frame_hd) {
    guard let stream = stream(header.stream_id) else { return }
    if !stream.hasHead {
      // 1xx: another header section follows (RFC 9113 §8.1).
      if role == .client, builder.head.status < 200 { return }
      receiveHead(of: stream)
    }
    conduct.noteUse()
    receiveEnd(header)
  }

  private func receiveHead(of stream: Stream) {
    stream.hasHead = true
    if role == .client {
      events.append(.response(stream, builder.head))
    } else if let head = heads.complete() {
      stream.isOversized = heads.isOversized
      events.append(.request(stream, head))
    } else {
      stream.hasHead = false
      stream.cause = .malformed
      unsafe nghttp2_submit_rst_stream(session, 0, stream.id, NGHTTP2_PROTOCOL_ERROR.rawValue)
    }
  }

  private func receiveEnd(_ header: nghttp2_frame_hd) {
    guard header.has(NGHTTP2_FLAG_END_STREAM), let stream = stream(header.stream_id) else { return }
    conduct.noteUse()
    stream.hasEnd = true
    if stream.hasHead { events.append(.end(stream)) }
  }

  private func receiveReset(_ frame: nghttp2_rst_stream) {
    guard let stream = stream(frame.hd.stream_id), stream.cause == nil else { return }
    let code = HTTP2ErrorCode(rawValue: frame.error_code)
    // A server may reset a stream behind a complete response if it needs no more content (RFC 9113 §8.1).
    if role == .client, code == .noError, stream.hasEnd { return }
    let isRefusal = code == .refusedStream && role == .client && !stream.hasHead
    stream.cause = isRefusal ? .unprocessed : .resetByPeer
  }
}

extension nghttp2_frame_hd {
  func has(_ flag: nghttp2_flag) -> Bool { UInt32(flags) & flag.rawValue != 0 }
}

extension HTTP2GoAway {
  init(_ frame: nghttp2_goaway) {
    code = unsafe HTTP2ErrorCode(rawValue: frame.error_code)
    lastStreamID = unsafe frame.last_stream_id
    // Safe: the library keeps the bytes valid during the callback that calls this initializer.
    let debugData = unsafe UnsafeBufferPointer(start: frame.opaque_data, count: frame.opaque_data_len)
    let printable = unsafe debugData.prefix(128).map { 0x20..<0x7f ~= $0 ? $0 : UInt8(ascii: "?") }
    debugText = String(decoding: printable, as: UTF8.self)
  }
}

// The callbacks of the library. Each finds its session through the user data and only records state there. While the
// library works, only that, stream resets and the library's own `submit` functions are allowed.
extension HTTP2Session {
  // Created once, never changed and never freed, so any thread may read the pointer. Each session copies the contents.
  nonisolated(unsafe) static let callbacks: OpaquePointer? = unsafe makeCallbacks()

  private static func makeCallbacks() -> OpaquePointer? {
    var callbacks: OpaquePointer?
    guard unsafe nghttp2_session_callbacks_new(&callbacks) == 0, let callbacks = unsafe callbacks else { return nil }
    unsafe nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks) { _, _, owner in
      unsafe HTTP2Session.of(owner)?.conduct.beginFrame()
      return 0
    }
    unsafe nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks) { _, frame, owner in
      guard let frame = unsafe frame, let session = unsafe HTTP2Session.of(owner) else { return 0 }
      return unsafe session.beginHeaders(frame.pointee)
    }
    unsafe nghttp2_session_callbacks_set_on_header_callback(callbacks) {
      _, frame, name, nameCount, value, valueCount, _, owner in
      guard let frame = unsafe frame, let session = unsafe HTTP2Session.of(owner) else { return 0 }
      // Safe: the bytes are valid during the callback, and no span leaves it.
      let name = unsafe Span(_unsafeElements: UnsafeBufferPointer(start: name, count: nameCount))
      let value = unsafe Span(_unsafeElements: UnsafeBufferPointer(start: value, count: valueCount))
      return unsafe session.receive(name, value, on: frame.pointee.hd.stream_id)
    }
    // Without this callback the library would drop such fields and continue.
    unsafe nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks) { _, _, _, _, _, _, _, _ in
      NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue
    }
    unsafe nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks) {
      _, _, stream, bytes, count, owner in
      guard let bytes = unsafe bytes, let session = unsafe HTTP2Session.of(owner) else { return 0 }
      unsafe session.receive(content: UnsafeBufferPointer(start: bytes, count: count), on: stream)
      return 0
    }
    unsafe nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks) { _, frame, owner in
      guard let frame = unsafe frame, let session = unsafe HTTP2Session.of(owner) else { return 0 }
      unsafe session.receive(frame.pointee)
      return 0
    }
    unsafe nghttp2_session_callbacks_set_on_stream_close_callback(callbacks) { _, stream, code, owner in
      guard let session = unsafe HTTP2Session.of(owner), let stream = session.stream(stream) else { return 0 }
      session.close(stream, HTTP2ErrorCode(rawValue: code))
      return 0
    }
    unsafe nghttp2_session_callbacks_set_on_frame_send_callback(callbacks) { _, frame, owner in
      guard let frame = unsafe frame, let session = unsafe HTTP2Session.of(owner) else { return 0 }
      unsafe session.sent(frame.pointee)
      return 0
    }
    return unsafe callbacks
  }

  /// Returns the session in the library's user data. Safe: the session owns the library's object, so it is alive.
  static func of(_ owner: UnsafeMutableRawPointer?) -> HTTP2Session? {
    unsafe owner.map { unsafe Unmanaged.fromOpaque($0).takeUnretainedValue() }
  }

  /// Delivers all queued events in order, including events that arise meanwhile. `bytes` hold the content.
  func deliver(to delegate: some HTTP2SessionDelegate, _ bytes: Span<UInt8>) {
    // A delegate may collect output. The outer call delivers the events that result.
    guard !isDelivering, !events.isEmpty else { return }
    isDelivering = true
    defer { isDelivering = false }
    var next = 0
    while next < events.count {
      tell(events[next], to: delegate, bytes)
      next += 1
    }
    // A connection that waits keeps no more than its usual events need.
    events.removeAll(keepingCapacity: events.capacity <= Self.keptEvents)
    heads.dropComplete()
  }

  private static let keptEvents = 128

  private func tell(_ event: SessionEvent, to delegate: some HTTP2SessionDelegate, _ bytes: Span<UInt8>) {
    switch event {
    case .request(let stream, let head):
      // A client that resets a stream at once, or breaks its rules, gets no work for it (CVE-2023-44487).
      guard stream.isLive else { return stream.isUndelivered = true }
      let request = HTTP2ReceivedRequest(head, in: heads, isOversized: stream.isOversized)
      delegate.receivedRequest(request, on: stream.id)
    case .response(let stream, let head):
      if !stream.isAbandoned { delegate.receivedResponse(head, on: stream.id) }
    case .content(let stream, let range):
      // Credited at once, so that no stream blocks other streams. The stream's own window waits for `consume`.
      unsafe nghttp2_session_consume_connection(session, range.count)
      if !stream.isSilent { delegate.receivedContent(bytes.extracting(range), on: stream.id) }
    case .end(let stream):
      if !stream.isSilent { delegate.receivedEnd(on: stream.id) }
    case .room(let stream):
      if stream.isLive { delegate.hasRoom(on: stream.id) }
    case .closed(let stream, let closure):
      forget(stream)
      // The delegate knows no request that the session refused, or that ended before its delivery.
      if role == .client || stream.hasHead, !stream.isUndelivered {
        delegate.streamClosed(stream.id, closure)
      } else if [.malformed, .resetByPeer, .fieldSectionTooLarge].contains(closure.cause) {
        delegate.lostRequest(closure)
      }
    case .goAway(let goAway): delegate.receivedGoAway(goAway)
    case .settings: delegate.settingsChanged()
    case .pong(let payload): delegate.receivedPong(payload)
    }
  }
}

/// An event that waits until the library is not at work. It holds the stream, which may close later in the same bytes.
enum SessionEvent {
  case request(Stream, ReceivedHead)
  case response(Stream, HTTP2ResponseHead)
  /// The range of the content in the received bytes. The event is delivered while those bytes are valid.
  case content(Stream, Range<Int>)
  case end(Stream)
  case room(Stream)
  case closed(Stream, HTTP2StreamClosure)
  case goAway(HTTP2GoAway)
  case settings
  case pong(UInt64)
}
