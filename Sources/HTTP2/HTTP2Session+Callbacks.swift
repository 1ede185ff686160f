import CNghttp2

// What the library calls. Each finds its session through the user data, and only takes notes there: nothing but that,
// resets and the library's own `submit` functions may be done while the library is at work.
extension HTTP2Session {
  // Made once, never changed and never freed, so any thread may read the pointer to it. Sessions copy its contents.
  nonisolated(unsafe) static let callbacks: OpaquePointer? = unsafe makeCallbacks()

  private static func makeCallbacks() -> OpaquePointer? {
    var callbacks: OpaquePointer?
    guard unsafe nghttp2_session_callbacks_new(&callbacks) == 0, let callbacks = unsafe callbacks else { return nil }
    unsafe addReceivingCallbacks(callbacks)
    unsafe addSendingCallbacks(callbacks)
    return unsafe callbacks
  }

  private static func addReceivingCallbacks(_ callbacks: OpaquePointer) {
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
      return unsafe session.receive(
        UnsafeBufferPointer(start: name, count: nameCount), UnsafeBufferPointer(start: value, count: valueCount),
        on: frame.pointee.hd.stream_id)
    }
    // Without this one the library would leave out such fields and go on.
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
      unsafe HTTP2Session.of(owner)?.libraryClosed(stream, code: code)
      return 0
    }
  }

  private static func addSendingCallbacks(_ callbacks: OpaquePointer) {
    unsafe nghttp2_session_callbacks_set_on_frame_send_callback(callbacks) { _, frame, owner in
      guard let frame = unsafe frame, let session = unsafe HTTP2Session.of(owner) else { return 0 }
      unsafe session.sent(frame.pointee)
      return 0
    }
  }

  /// The session that the library's user data stand for. Safe: the library belongs to it, so it is alive.
  static func of(_ owner: UnsafeMutableRawPointer?) -> HTTP2Session? {
    guard let owner = unsafe owner else { return nil }
    return unsafe Unmanaged<HTTP2Session>.fromOpaque(owner).takeUnretainedValue()
  }
}
