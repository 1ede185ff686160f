import CNghttp2

extension HTTP2Session {
  /// A session of the library, without its owner yet; nil if there is no memory.
  static func makeSession(_ role: HTTP2Role) -> OpaquePointer? {
    var options: OpaquePointer?
    guard let callbacks = unsafe callbacks, unsafe nghttp2_option_new(&options) == 0 else { return nil }
    defer { unsafe nghttp2_option_del(options) }
    unsafe nghttp2_option_set_no_auto_window_update(options, 1)
    unsafe nghttp2_option_set_no_closed_streams(options, 1)
    // Acknowledgements that wait: more than one slice of input asks for, since exceeding it leaves the library broken.
    // `PeerConduct` ends the session long before, in good order.
    unsafe nghttp2_option_set_max_outbound_ack(options, 4096)
    // The library's own bound counts by its own clock; `PeerConduct` counts by ratio.
    unsafe nghttp2_option_set_stream_reset_rate_limit(options, .max, .max)

    var session: OpaquePointer?
    let code =
      role == .client
      ? unsafe nghttp2_session_client_new2(&session, callbacks, nil, options)
      : unsafe nghttp2_session_server_new2(&session, callbacks, nil, options)
    return code == 0 ? unsafe session : nil
  }

  /// Says our settings (RFC 9113 §6.5.2) and opens the connection's window.
  func submitSettings() -> Bool {
    var settings = [
      Self.entry(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits.streamWindow),
      Self.entry(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, limits.fieldSection),
    ]
    switch role {
    case .client:
      settings.append(Self.entry(NGHTTP2_SETTINGS_ENABLE_PUSH, 0))
    case .server:
      settings.append(Self.entry(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits.concurrentStreams))
      // The old priorities are deprecated, and a peer can cause work by changing their tree (RFC 9218 §2.1).
      settings.append(Self.entry(NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1))
    }
    // It begins at 65 535 and cannot be made smaller than that (RFC 9113 §6.9.2).
    let window = Int32(clamping: max(limits.connectionWindow, 65_535))
    let none = UInt8(truncatingIfNeeded: NGHTTP2_FLAG_NONE.rawValue)
    return unsafe nghttp2_submit_settings(session, none, settings, settings.count) == 0
      && nghttp2_session_set_local_window_size(session, none, 0, window) == 0
  }

  private static func entry(_ id: nghttp2_settings_id, _ value: Int) -> nghttp2_settings_entry {
    // No setting may exceed 2³¹−1 (RFC 9113 §6.5.2).
    nghttp2_settings_entry(settings_id: Int32(bitPattern: id.rawValue), value: UInt32(Int32(clamping: max(0, value))))
  }
}
