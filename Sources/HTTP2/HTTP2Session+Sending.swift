import Bytes
import CNghttp2
import DequeModule
import HTTP1
public import HTTPTypes

// Sending. Each call only queues frames, and ignores closed and unknown streams: the peer may have closed one.
extension HTTP2Session {
  /// Opens a stream with a request, and returns it. Only for a client. If it `hasContent`, `send` follows.
  /// - Throws: `noStreamAvailable`, `fieldSectionTooLarge`, `malformedMessage`, or `internalFailure` without memory.
  public func submitRequest(_ head: HTTP2RequestHead, hasContent: Bool = false) throws(HTTP2Error) -> HTTP2StreamID {
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
    open(id)
    return id
  }

  /// Responds to a request, once, with a status of 200…999. Only for a server. If it `hasContent`, `send` follows.
  /// - Parameter writeHead: Appends the response's head in HTTP/1.1. The session omits the fields that HTTP/2 forbids.
  /// - Throws: `fieldSectionTooLarge`, `malformedMessage`, or `internalFailure` without memory.
  public func submitResponse(
    status: Int, on id: HTTP2StreamID, hasContent: Bool = false, writeHead: (inout [UInt8]) -> Void
  ) throws(HTTP2Error) {
    guard let stream = stream(id), stream.isLive else { return }
    guard 200...999 ~= status else { throw .malformedMessage }
    block.begin(status: status, writeHead)
    try checkBlock()
    let code = unsafe block.withPairs { pairs, count in
      var provider = unsafe Self.provider
      guard hasContent else { return unsafe nghttp2_submit_response(session, id, pairs, count, nil) }
      return unsafe nghttp2_submit_response(session, id, pairs, count, &provider)
    }
    guard code == 0 else { throw .internalFailure(unsafe String(cString: nghttp2_strerror(code))) }
  }

  /// Sends 100 (Continue) (RFC 9110 §10.1.1), unless all content has arrived. For a server, before `submitResponse`.
  public func submitContinue(on id: HTTP2StreamID) {
    guard let stream = stream(id), stream.isLive, !stream.hasEnd else { return }
    block.begin(status: 100) { _ in }
    unsafe block.withPairs { pairs, count in
      unsafe _ = nghttp2_submit_headers(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), id, nil, pairs, count, nil)
    }
  }

  /// Lets the content of a stream take turns with that of others, frame by frame. By default each waits for the end of
  /// those before it (RFC 9218 §4.2). The wishes of clients do not count: behind a proxy, streams are of several clients.
  private func takeTurns(_ stream: Stream) {
    stream.takesTurns = true
    guard role == .server else { return }
    var priority = nghttp2_extpri(urgency: UInt32(NGHTTP2_EXTPRI_DEFAULT_URGENCY), inc: 1)
    unsafe nghttp2_session_change_extpri_stream_priority(session, stream.id, &priority, 1)
  }

  /// Queues content of a submitted message. The session keeps the array, without a copy, until the content is sent.
  /// - Parameters:
  ///   - isLast: Whether this content completes the message. It may be empty then.
  ///   - isChargedElsewhere: Whether the content of this stream does not count in `heldBytes`.
  /// - Returns: Whether there is room for more. If not, wait for the delegate's `hasRoom`.
  @discardableResult
  public func send(
    _ content: [UInt8], on id: HTTP2StreamID, isLast: Bool = false, isChargedElsewhere: Bool = false
  ) -> Bool {
    guard let stream = stream(id), stream.isLive else { return false }
    // Shorter content is one frame.
    if !stream.takesTurns, !isLast || content.count > Self.frameLength { takeTurns(stream) }
    let before = stream.queue.count
    stream.queue.append(content, isLast: isLast)
    stream.isChargedElsewhere = isChargedElsewhere
    if !isChargedElsewhere { queuedBytes += stream.queue.count - before }
    if stream.isDeferred, stream.queue.count > 0 || stream.queue.isComplete {
      stream.isDeferred = false
      unsafe nghttp2_session_resume_data(session, id)
    }
    stream.awaitsRoom = stream.queue.count >= limits.sendQueue
    return !stream.awaitsRoom
  }

  /// Returns the bytes of content that were sent on a stream, and whether others wait for the windows of the peer.
  public func sending(on id: HTTP2StreamID) -> (sent: Int, isWaiting: Bool) {
    guard let stream = stream(id), stream.isLive else { return (0, false) }
    return (stream.sentContent, stream.queue.count > 0)
  }

  /// Reports that the reader has consumed `count` bytes of content of a stream. The peer may then send as many more.
  public func consume(_ count: Int, on id: HTTP2StreamID) {
    // No more content arrives on a stream that has ended. The connection's window was credited on delivery.
    guard count > 0, let stream = stream(id), stream.isLive, !stream.hasEnd else { return }
    unsafe nghttp2_session_consume_stream(session, id, count)
  }

  /// Resets a stream early and drops its content in both directions. The delegate receives only `streamClosed`.
  public func reset(_ id: HTTP2StreamID, _ code: HTTP2ErrorCode) {
    guard let stream = stream(id), !stream.isAbandoned else { return }
    stream.isAbandoned = true
    guard !stream.isClosed else { return }
    dropQueue(of: stream)
    unsafe nghttp2_submit_rst_stream(session, 0, id, code.rawValue)
  }

  /// The usual length of the content of a frame (RFC 9113 §4.2).
  private static let frameLength = 16_384

  func dropQueue(of stream: Stream) {
    if !stream.isChargedElsewhere { queuedBytes -= stream.queue.count }
    stream.queue = ContentQueue()
  }

  /// Announces the end of the connection: open streams continue, new streams are refused as unprocessed (RFC 9113 §6.8).
  /// A server that wants to answer requests in flight calls `announceGoAway` one round trip earlier.
  public func goAway() {
    let last = unsafe nghttp2_session_get_last_proc_stream_id(session)
    unsafe nghttp2_submit_goaway(session, 0, last, NGHTTP2_NO_ERROR.rawValue, nil, 0)
  }

  /// Ends the session: its last frame is a GOAWAY, and it `isOver` when that has been collected.
  public func terminate(_ code: HTTP2ErrorCode) {
    goAwayCode = code
    unsafe nghttp2_session_terminate_session(session, code.rawValue)
  }

  /// Requests that the client open no more streams. The session still accepts streams that it opens. Only for a server.
  public func announceGoAway() { unsafe nghttp2_submit_shutdown_notice(session) }

  /// Sends a ping to check that the peer is alive. `receivedPong` reports the same payload.
  public func ping(_ payload: UInt64) {
    // Safe: the library copies eight bytes.
    unsafe withUnsafeBytes(of: payload.bigEndian) { bytes in
      unsafe _ = nghttp2_submit_ping(session, 0, bytes.assumingMemoryBound(to: UInt8.self).baseAddress)
    }
  }

  /// Checks the size of the header section against the limits of the peer (RFC 9113 §10.5.1) and of the library.
  private func checkBlock() throws(HTTP2Error) {
    let peerLimit = unsafe nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE)
    let limit = min(Int(peerLimit), 61_440)
    guard block.size <= limit else { throw .fieldSectionTooLarge(limit: limit) }
  }

  /// The library's source of content: the queue of the stream.
  private static var provider: nghttp2_data_provider {
    unsafe nghttp2_data_provider(source: nghttp2_data_source()) { _, id, buffer, count, flags, _, owner in
      guard let session = unsafe HTTP2Session.of(owner), let flags = unsafe flags else {
        return Int(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue)
      }
      return unsafe session.moveContent(
        of: id, to: UnsafeMutableRawBufferPointer(start: buffer, count: count), flags: &flags.pointee)
    }
  }

  /// Moves content from the queue of a stream to a frame.
  private func moveContent(of id: HTTP2StreamID, to buffer: UnsafeMutableRawBufferPointer, flags: inout UInt32) -> Int {
    guard let stream = stream(id) else { return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue) }
    let count = unsafe stream.queue.move(to: buffer)
    stream.sentContent += count
    if !stream.isChargedElsewhere { queuedBytes -= count }
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

  /// Records that the library has output a frame.
  func sent(_ frame: nghttp2_frame) {
    switch unsafe nghttp2_frame_type(rawValue: UInt32(frame.hd.type)) {
    case NGHTTP2_HEADERS:
      unsafe stream(frame.hd.stream_id)?.isSent = true
      conduct.noteSent()
    case NGHTTP2_DATA: conduct.noteSent()
    // The peer must acknowledge it.
    case NGHTTP2_PING where unsafe !frame.hd.has(NGHTTP2_FLAG_ACK): conduct.noteSent()
    case NGHTTP2_GOAWAY: unsafe noteGoAway(frame.goaway)
    default: break
    }
  }

  /// Records a GOAWAY by which the library tells only the peer that it violates the protocol.
  private func noteGoAway(_ frame: nghttp2_goaway) {
    let goodbye = unsafe HTTP2GoAway(frame)
    guard failure == nil, goodbye.code != .noError, goodbye.code != goAwayCode else { return }
    failure = .connectionError(goodbye.code, goodbye.debugText)
  }
}

extension HTTP2RequestHead {
  /// Whether the control data are present, and contain nothing that could end a line or a field (RFC 9113 §8.3.1).
  fileprivate var isSendable: Bool {
    guard HTTPRequest.Method(method) != nil, [scheme, authority].allSatisfy(HTTPField.isValidValue) else {
      return false
    }
    guard method != "CONNECT" else { return scheme.isEmpty && path.count == 0 }
    return !scheme.isEmpty && path.count > 0 && path.bytes.allSatisfy { $0 > 0x20 && $0 < 0x7f }
  }
}

/// A queue of parts of content. It holds the arrays and copies nothing until the content is sent.
struct ContentQueue {
  private(set) var count = 0
  /// Whether the queued bytes are the last of the message.
  private(set) var isComplete = false
  private var parts = Deque<[UInt8]>()
  /// The number of bytes of the first part that are already sent.
  private var offset = 0

  /// Appends a part. Ignores parts after the last one.
  mutating func append(_ part: [UInt8], isLast: Bool) {
    guard !isComplete else { return }
    isComplete = isLast
    guard !part.isEmpty else { return }
    count += part.count
    parts.append(part)
  }

  /// Moves bytes to `buffer`, until it is full or the queue is empty. Returns their number.
  mutating func move(to buffer: UnsafeMutableRawBufferPointer) -> Int {
    var moved = 0
    while moved < buffer.count, let part = parts.first {
      let length = min(part.count - offset, buffer.count - moved)
      unsafe part.withUnsafeBytes { part in
        // Safe: the line above keeps both ranges within their buffers.
        unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[moved..<moved + length])
          .copyMemory(from: UnsafeRawBufferPointer(rebasing: part[offset..<offset + length]))
      }
      moved += length
      offset += length
      if offset == part.count {
        parts.removeFirst()
        offset = 0
      }
    }
    count -= moved
    return moved
  }
}

/// A header section to be sent, in the layout of nghttp2. A session reuses one block to keep its storage.
// Safe: the pointers refer to the bytes of this block, and are read only while `withPairs` holds those bytes.
@safe struct FieldBlock {
  /// The size as RFC 9113 §6.5.2 counts it.
  private(set) var size = 0
  private var bytes: [UInt8] = []
  private var lines: [Line] = []
  private var pairs: [nghttp2_nv] = unsafe []

  private struct Line {
    let name: Range<Int>
    let value: Range<Int>
    let isIndexed: Bool
  }

  var heldBytes: Int {
    let ofPairs = unsafe pairs.capacity * MemoryLayout<nghttp2_nv>.stride
    return bytes.capacity + lines.capacity * MemoryLayout<Line>.stride + ofPairs
  }

  /// Starts a request. CONNECT has neither scheme nor path (RFC 9113 §8.5).
  mutating func begin(_ head: HTTP2RequestHead) {
    reset()
    append(":method", head.method)
    if !head.scheme.isEmpty { append(":scheme", head.scheme) }
    append(":authority", head.authority)
    if head.path.count > 0 { append(":path", head.path.bytes.span) }
    append(head.fields)
    append(head.credential)
  }

  /// Starts a response with the head that it has in HTTP/1.1.
  mutating func begin(status: Int, _ writeHead: (inout [UInt8]) -> Void) {
    reset()
    bytes.append(":status")
    let value = bytes.count
    bytes.append(decimal: status, width: 3)
    let start = bytes.count
    note(0..<value, value..<start)
    writeHead(&bytes)
    splitLines(from: start)
  }

  /// Calls `body` with the fields. The library copies them.
  mutating func withPairs<Result>(_ body: (UnsafePointer<nghttp2_nv>?, Int) -> Result) -> Result {
    unsafe pairs.removeAll(keepingCapacity: true)
    return unsafe bytes.withUnsafeMutableBufferPointer { buffer in
      guard let start = buffer.baseAddress else { return body(nil, 0) }
      for line in lines {
        let flags = line.isIndexed ? NGHTTP2_NV_FLAG_NONE : NGHTTP2_NV_FLAG_NO_INDEX
        // Safe: the ranges of a line are within the bytes.
        unsafe pairs.append(
          nghttp2_nv(
            name: start + line.name.lowerBound, value: start + line.value.lowerBound, namelen: line.name.count,
            valuelen: line.value.count, flags: UInt8(truncatingIfNeeded: flags.rawValue)))
      }
      return unsafe pairs.withUnsafeBufferPointer { unsafe body($0.baseAddress, $0.count) }
    }
  }

  private mutating func reset() {
    size = 0
    bytes.removeAll(keepingCapacity: true)
    lines.removeAll(keepingCapacity: true)
  }

  private mutating func append(_ name: StaticString, _ value: String) { value.withUTF8Bytes { append(name, $0) } }

  private mutating func append(_ name: StaticString, _ value: Span<UInt8>) {
    let start = bytes.count
    bytes.append(name)
    let middle = bytes.count
    bytes.append(copying: value)
    note(start..<middle, middle..<bytes.count)
  }

  private mutating func append(_ fields: FieldLines) {
    let offset = bytes.count
    bytes.append(copying: fields.bytes.span)
    for line in fields.lines {
      let name = line.name.lowerBound + offset..<line.name.upperBound + offset
      bytes.lowercase(name)
      note(name, line.value.lowerBound + offset..<line.value.upperBound + offset, isIndexed: !line.isUnindexed)
    }
  }

  private mutating func splitLines(from start: Int) {
    let end = bytes.count
    guard let statusEnd = bytes.span.firstIndex(of: UInt8(ascii: "\n"), in: start..<end) else { return }
    var next = statusEnd + 1
    while next < end, let colon = bytes.span.firstIndex(of: UInt8(ascii: ":"), in: next..<end),
      let lineEnd = bytes.span.firstIndex(of: UInt8(ascii: "\r"), in: colon..<end)
    {
      bytes.lowercase(next..<colon)
      note(next..<colon, min(colon + 2, lineEnd)..<lineEnd)
      next = lineEnd + 2
    }
  }

  private mutating func note(_ name: Range<Int>, _ value: Range<Int>, isIndexed: Bool = true) {
    guard !isOfConnection(name) else { return }
    size += name.count + value.count + 32
    // A value that differs in each response would only displace others in the HPACK table.
    let isUnique = name.count == 12 && isNamed(name, "x-request-id")
    lines.append(Line(name: name, value: value, isIndexed: isIndexed && !isUnique))
  }

  /// Returns whether HTTP/2 forbids the field (RFC 9113 §8.2.2), or it is Host, which `:authority` replaces (§8.3.1).
  private func isOfConnection(_ name: Range<Int>) -> Bool {
    switch name.count {
    case 4: isNamed(name, "host")
    case 7: isNamed(name, "upgrade")
    case 10: isNamed(name, "connection") || isNamed(name, "keep-alive")
    case 14: isNamed(name, "http2-settings")
    case 16: isNamed(name, "proxy-connection")
    case 17: isNamed(name, "transfer-encoding")
    default: false
    }
  }

  private func isNamed(_ name: Range<Int>, _ text: StaticString) -> Bool { bytes.span.equals(name, text) }
}

extension [UInt8] {
  /// Makes a field name lower-case (RFC 9113 §8.2.1).
  fileprivate mutating func lowercase(_ name: Range<Int>) {
    unsafe withUnsafeMutableBufferPointer { bytes in
      // Safe: the slice is within the bytes, or it traps.
      let letters = unsafe UnsafeMutableBufferPointer(rebasing: bytes[name])
      for index in letters.indices { unsafe letters[index] = letters[index].lowercased }
    }
  }
}
