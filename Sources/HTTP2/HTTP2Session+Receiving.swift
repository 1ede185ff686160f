import CNghttp2
import HTTPTypes

// What happens while the library works on received bytes: notes, and news put in line.
extension HTTP2Session {
  /// A header section begins.
  /// - Returns: 0, or the library's word for resetting the stream.
  func beginHeaders(_ frame: nghttp2_frame) -> CInt {
    // A promise that crossed our setting against it (RFC 9113 §6.5.2).
    guard unsafe frame.hd.type == UInt8(truncatingIfNeeded: NGHTTP2_HEADERS.rawValue) else {
      return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue
    }
    builder.reset()
    if unsafe frame.headers.cat == NGHTTP2_HCAT_REQUEST {
      let id = unsafe frame.hd.stream_id
      streams[id] = Stream(id)
      openStreams += 1
      conduct.noteUse()
    }
    return 0
  }

  /// A field line, which the library has checked.
  /// - Returns: 0, or the library's word for resetting the stream.
  func receive(
    _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>, on id: HTTP2StreamID
  ) -> CInt {
    guard let stream = streams[id] else { return 0 }
    unsafe builder.add(name, value, limits: limits)
    // The owner gets to answer a request; the rest of its fields are decoded for the table's sake only.
    guard builder.isOversized, role == .client || stream.hasHead else { return 0 }
    stream.cause = .fieldSectionTooLarge
    unsafe nghttp2_submit_rst_stream(session, 0, id, NGHTTP2_ENHANCE_YOUR_CALM.rawValue)
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue
  }

  /// Content, within the input.
  func receive(content: UnsafeBufferPointer<UInt8>, on id: HTTP2StreamID) {
    guard !content.isEmpty else { return }
    conduct.noteUse()
    guard let stream = streams[id], let input = unsafe input, let start = content.baseAddress else { return }
    let offset = unsafe start - input
    events.append(.content(stream, offset..<offset + content.count))
  }

  /// A whole frame, found to be in order.
  func receive(_ frame: nghttp2_frame) {
    switch unsafe nghttp2_frame_type(rawValue: UInt32(frame.hd.type)) {
    case NGHTTP2_HEADERS: unsafe receiveHeaders(frame.hd)
    case NGHTTP2_DATA: unsafe receiveEnd(frame.hd)
    case NGHTTP2_RST_STREAM: unsafe receiveReset(frame.rst_stream)
    case NGHTTP2_SETTINGS:
      if unsafe !frame.hd.has(NGHTTP2_FLAG_ACK) { events.append(.settings) }
    case NGHTTP2_PING:
      if unsafe frame.hd.has(NGHTTP2_FLAG_ACK) { events.append(.pong(unsafe frame.ping.payload)) }
    case NGHTTP2_GOAWAY: events.append(.goAway(unsafe HTTP2GoAway(frame.goaway)))
    default: break
    }
  }

  /// The library is done with a stream.
  func libraryClosed(_ id: HTTP2StreamID, code: UInt32) {
    guard let stream = streams[id] else { return }
    close(stream, HTTP2ErrorCode(rawValue: code))
  }

  /// Notes a stream's end and puts it in line.
  func close(_ stream: Stream, _ code: HTTP2ErrorCode) {
    let closure = stream.closure(code)
    stream.isClosed = true
    openStreams -= 1
    if role == .server, closure.cause != .resetLocally { conduct.noteEnd(cutShort: closure.cause != .finished) }
    events.append(.closed(stream, closure))
  }

  private func receiveHeaders(_ header: nghttp2_frame_hd) {
    guard let stream = streams[header.stream_id] else { return }
    if !stream.hasHead {
      // 1xx: another section follows (RFC 9113 §8.1).
      if role == .client, builder.status < 200 { return }
      receiveHead(of: stream)
    }
    conduct.noteUse()
    receiveEnd(header)
  }

  private func receiveHead(of stream: Stream) {
    stream.hasHead = true
    if role == .client {
      events.append(.response(stream, builder.response()))
    } else if builder.isOversized {
      events.append(.oversizedRequest(stream))
    } else if let head = builder.request() {
      events.append(.request(stream, head))
    } else {
      stream.hasHead = false
      stream.cause = .malformed
      unsafe nghttp2_submit_rst_stream(session, 0, stream.id, NGHTTP2_PROTOCOL_ERROR.rawValue)
    }
  }

  private func receiveEnd(_ header: nghttp2_frame_hd) {
    guard header.has(NGHTTP2_FLAG_END_STREAM), let stream = streams[header.stream_id] else { return }
    conduct.noteUse()
    stream.hasEnd = true
    if stream.hasHead { events.append(.end(stream)) }
  }

  private func receiveReset(_ frame: nghttp2_rst_stream) {
    guard let stream = streams[frame.hd.stream_id], stream.cause == nil else { return }
    let code = HTTP2ErrorCode(rawValue: frame.error_code)
    // A server that has answered in whole may say in this way that it needs no more content (RFC 9113 §8.1).
    if code == .noError, stream.hasEnd { return }
    let isRefusal = code == .refusedStream && role == .client && !stream.hasHead
    stream.cause = isRefusal ? .unprocessed : .resetByPeer
  }
}

extension nghttp2_frame_hd {
  /// Whether `flag` is set.
  func has(_ flag: nghttp2_flag) -> Bool { UInt32(flags) & flag.rawValue != 0 }
}

extension nghttp2_ping {
  /// The eight bytes as a number, in network order.
  var payload: UInt64 {
    // Safe: eight bytes make a number, whatever they are.
    UInt64(bigEndian: unsafe withUnsafeBytes(of: opaque_data) { unsafe $0.loadUnaligned(as: UInt64.self) })
  }
}

extension HTTP2GoAway {
  init(_ frame: nghttp2_goaway) {
    code = unsafe HTTP2ErrorCode(rawValue: frame.error_code)
    lastStreamID = unsafe frame.last_stream_id
    // Safe: the library lends the bytes for the callback that this is called from.
    let debugData = unsafe UnsafeBufferPointer(start: frame.opaque_data, count: frame.opaque_data_len)
    debugText = unsafe Self.printable(debugData)
  }

  /// At most 128 of `bytes` as printable ASCII.
  static func printable(_ bytes: UnsafeBufferPointer<UInt8>) -> String {
    String(decoding: unsafe bytes.prefix(128).map { 0x20..<0x7f ~= $0 ? $0 : UInt8(ascii: "?") }, as: UTF8.self)
  }
}
