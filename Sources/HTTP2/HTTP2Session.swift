import CNghttp2
import CPlatform
import HTTPTypes

/// The HTTP/2 protocol (RFC 9113) of one connection, as client or server: bytes in, bytes out; no socket and no clock.
///
/// Confined to one event loop; not `Sendable`. The owner passes received bytes to `receive`. After every call that may
/// produce output (`wantsWrite`) it sends the output of `collectOutput`. It closes the connection once `isOver`.
///
/// **Events** go to the delegate that is passed to those two calls, while the library is not at work. So the delegate
/// may respond, reset or credit, no library call is nested in another, and the session retains no delegate.
///
/// **Flow control** belongs to the reader: content counts against the window of its stream until the reader passes it
/// to `consume`, so a stalled stream makes the session keep at most ``HTTP2Limits/streamWindow``. The window of the
/// connection is replenished when content is delivered, so stalled streams do not starve others.
@safe public final class HTTP2Session {
  /// The end of the connection that this session is.
  public let role: HTTP2Role
  /// The limits of the session.
  public let limits: HTTP2Limits
  /// The error that ended the session. Nil if it is alive or ended without error.
  public internal(set) var failure: HTTP2Error?
  /// The number of open streams. A stream that waits for the peer's permission does not count.
  public internal(set) var openStreams = 0

  let session: OpaquePointer
  /// The bytes that the library's session holds, counted by its memory functions.
  private let libraryBytes: UnsafeMutablePointer<Int64>
  /// All streams until the owner receives their `streamClosed`.
  private(set) var streams: [HTTP2StreamID: Stream] = [:]
  /// The stream that was used last, because several calls in a row concern one stream.
  private var recent: Stream?
  /// The content to be sent, without that which the owner charges elsewhere.
  var queuedBytes = 0
  var events: [SessionEvent] = []
  var isDelivering = false
  /// The heads of requests, if this session is a server's.
  var heads = ReceivedHeads()
  /// The present header section, if this session is a client's.
  var builder = ResponseBuilder()
  /// Whether the library has to be called again, even without more input.
  var isPaused = false
  var block = FieldBlock()
  var conduct: PeerConduct
  private var scanner: FrameScanner
  /// The start of the bytes that the library processes. Set only during processing.
  var input: UnsafePointer<UInt8>? = nil
  /// The code of the GOAWAY with which the owner ended the session.
  var goAwayCode = HTTP2ErrorCode.noError
  /// Whether the library can no longer be used.
  var isBroken = false

  /// Creates a session. Its preface and settings are the first output. Throws `internalFailure` if memory runs out.
  public init(_ role: HTTP2Role, limits: HTTP2Limits = HTTP2Limits()) throws(HTTP2Error) {
    let libraryBytes = UnsafeMutablePointer<Int64>.allocate(capacity: 1)
    unsafe libraryBytes.initialize(to: 0)
    guard let session = unsafe Self.makeSession(role, limits, counter: libraryBytes) else {
      unsafe libraryBytes.deallocate()
      throw .internalFailure("The server has no memory for an HTTP/2 session.")
    }
    unsafe (self.libraryBytes, self.session) = (libraryBytes, session)
    (self.role, self.limits) = (role, limits)
    conduct = PeerConduct(limits)
    scanner = FrameScanner(from: role == .client ? .server : .client)
    // Safe: the library uses the pointer in callbacks only. They run during calls of this object's own methods.
    unsafe nghttp2_session_set_user_data(session, Unmanaged.passUnretained(self).toOpaque())
    guard submitSettings() else { throw .internalFailure("The server has no memory for an HTTP/2 session.") }
  }

  deinit {
    unsafe nghttp2_session_del(session)
    unsafe libraryBytes.deallocate()
  }

  /// Whether `collectOutput` would produce output.
  public var wantsWrite: Bool { unsafe !isBroken && nghttp2_session_want_write(session) != 0 }
  /// Whether nothing more will be sent or received, so that the owner must close the connection.
  public var isOver: Bool { unsafe isBroken || nghttp2_session_want_read(session) == 0 && !wantsWrite }
  /// The frame or header block of the peer that has begun and is incomplete.
  public var incompleteFrame: IncompleteFrame? { scanner.incomplete }

  /// The memory that the session holds: the library's, waiting heads, content to be sent, and its own buffers.
  public var heldBytes: Int {
    let own =
      events.capacity * MemoryLayout<SessionEvent>.stride + streams.capacity * Self.placeOfStream + block.heldBytes
    return Int(unsafe libraryBytes.pointee) + heads.heldBytes + queuedBytes + own
  }

  /// The bytes of a place in the table of streams, a third of which stay empty.
  private static let placeOfStream = 20

  /// The number of streams that the peer lets us open (RFC 9113 §5.1.2): 100 until its settings arrive.
  public var peerMaxConcurrentStreams: Int {
    Int(unsafe nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS))
  }

  /// Whether `submitRequest` could open a stream now.
  public var canOpenStream: Bool {
    guard failure == nil, openStreams < min(limits.concurrentStreams, peerMaxConcurrentStreams) else { return false }
    return unsafe nghttp2_session_check_request_allowed(session) != 0
  }

  /// Processes all received bytes, split at any point, and delivers their events to the delegate.
  /// If the peer violates the protocol, the session `isOver` and has its `failure` when the GOAWAY has been collected.
  /// - Throws: The error that ended the session, after delivery of all earlier events; every later call throws it too.
  ///   Send the remaining output of `collectOutput`, and close the connection.
  public func receive(_ bytes: Span<UInt8>, delegate: some HTTP2SessionDelegate) throws(HTTP2Error) {
    precondition(!isDelivering, "A delegate may not call receive.")
    var start = 0
    repeat {
      let end = min(start + Self.sliceLength, bytes.count)
      var slice = bytes.extracting(start..<end)
      conduct.noteFrames(scanner.count(slice))
      repeat {
        if let failure { throw failure }
        isPaused = false
        let count = process(slice)
        deliver(to: delegate, slice)
        slice = slice.extracting(count...)
      } while isPaused
      start = end
    } while start < bytes.count
    if let failure { throw failure }
  }

  /// Appends the frames to be sent, up to `limit` bytes, or up to a frame (16 393 bytes) more, and keeps the rest.
  /// - Parameter delegate: Receives the streams that end by this call, and the queues that have room.
  public func collectOutput(into output: inout [UInt8], limit: Int, delegate: some HTTP2SessionDelegate) {
    let end = output.count + limit
    while output.count < end, !isBroken {
      var frame: UnsafePointer<UInt8>?
      let count = unsafe nghttp2_session_mem_send(session, &frame)
      guard count >= 0 else {
        fail(count)
        break
      }
      guard count > 0, let frame = unsafe frame else { break }
      // Safe: the frame stays valid until the next call of the library.
      unsafe output.append(contentsOf: UnsafeBufferPointer(start: frame, count: count))
    }
    deliver(to: delegate, Span())
  }

  /// Reports every open stream as closed, because the connection is lost or given up: a request that was never sent as
  /// unprocessed. `failure` is set by then, even if its GOAWAY was never collected.
  public func connectionLost(delegate: some HTTP2SessionDelegate) {
    let open = streams.values.sorted { $0.id < $1.id }.filter { !$0.isClosed }
    for stream in open where stream.cause == nil {
      stream.cause = role == .server || stream.isSent ? .connectionLost : .unprocessed
    }
    // Drops the output up to the GOAWAY: only by it the library tells that the peer violated the protocol.
    var frame: UnsafePointer<UInt8>?
    while failure == nil, !isBroken, unsafe nghttp2_session_mem_send(session, &frame) > 0 {}
    isBroken = true
    if failure == nil { failure = .connectionLost }
    for stream in open where !stream.isClosed { close(stream, .noError) }
    deliver(to: delegate, Span())
  }

  /// Lets the library process `bytes`, up to a pause, and checks the peer. Returns the number of processed bytes.
  private func process(_ bytes: Span<UInt8>) -> Int {
    let result = unsafe bytes.withUnsafeBufferPointer { buffer in
      unsafe input = buffer.baseAddress
      defer { unsafe input = nil }
      return unsafe nghttp2_session_mem_recv(session, buffer.baseAddress, buffer.count)
    }
    if result < 0 {
      fail(result)
    } else if let flood = heads.isExcessive ? .fieldSection : conduct.flood {
      failure = .flood(flood)
      unsafe nghttp2_session_terminate_session(session, NGHTTP2_ENHANCE_YOUR_CALM.rawValue)
    }
    return max(result, 0)
  }

  /// Records an error after which the library must not be used. Only negative results of the library are such errors.
  private func fail(_ code: Int) {
    isBroken = true
    failure =
      switch nghttp2_error(rawValue: Int32(truncatingIfNeeded: code)) {
      case NGHTTP2_ERR_BAD_CLIENT_MAGIC: .notHTTP2
      case NGHTTP2_ERR_FLOODED: .flood(.idleFrames)
      case _ where code == Self.tooManyContinuations: .flood(.continuations)
      default: .internalFailure(unsafe String(cString: nghttp2_strerror(Int32(truncatingIfNeeded: code))))
      }
  }

  /// `NGHTTP2_ERR_TOO_MANY_CONTINUATIONS`, which the headers of older versions lack.
  private static let tooManyContinuations = -905

  /// The most bytes per call of the library, after which the peer is checked: at most 1820 frames go unchecked.
  private static let sliceLength = 16_384

  /// Returns the stream with this number until the owner receives its `streamClosed`; nil for any other.
  func stream(_ id: HTTP2StreamID) -> Stream? {
    if let recent, recent.id == id { return recent }
    guard let stream = streams[id] else { return nil }
    recent = stream
    return stream
  }

  func open(_ id: HTTP2StreamID) {
    let stream = Stream(id)
    streams[id] = stream
    recent = stream
    openStreams += 1
  }

  func forget(_ stream: Stream) {
    streams[stream.id] = nil
    if recent === stream { recent = nil }
  }

  /// Returns a library session without an owner, whose memory functions count in `counter`, or nil if memory runs out.
  private static func makeSession(
    _ role: HTTP2Role, _ limits: HTTP2Limits, counter: UnsafeMutablePointer<Int64>
  ) -> OpaquePointer? {
    var options: OpaquePointer?
    guard let callbacks = unsafe callbacks, unsafe nghttp2_option_new(&options) == 0 else { return nil }
    defer { unsafe nghttp2_option_del(options) }
    unsafe nghttp2_option_set_no_auto_window_update(options, 1)
    unsafe nghttp2_option_set_no_closed_streams(options, 1)
    unsafe nghttp2_option_set_max_deflate_dynamic_table_size(options, limits.fieldTable)
    // More than a slice of input can cause: reaching it breaks the library. `PeerConduct` ends the session much earlier.
    unsafe nghttp2_option_set_max_outbound_ack(options, 4096)
    // The library's own limit uses its own clock. `PeerConduct` uses a ratio.
    unsafe nghttp2_option_set_stream_reset_rate_limit(options, .max, .max)

    // The library copies it.
    var memory = unsafe nghttp2_mem(
      mem_user_data: counter, malloc: cplatform_counted_malloc, free: cplatform_counted_free,
      calloc: cplatform_counted_calloc, realloc: cplatform_counted_realloc)
    var session: OpaquePointer?
    let code =
      role == .client
      ? unsafe nghttp2_session_client_new3(&session, callbacks, nil, options, &memory)
      : unsafe nghttp2_session_server_new3(&session, callbacks, nil, options, &memory)
    return code == 0 ? unsafe session : nil
  }

  /// Submits our settings (RFC 9113 §6.5.2) and enlarges the window of the connection.
  private func submitSettings() -> Bool {
    var settings = [
      Self.entry(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits.streamWindow),
      Self.entry(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, limits.fieldSection),
    ]
    if role == .client {
      settings.append(Self.entry(NGHTTP2_SETTINGS_ENABLE_PUSH, 0))
    } else {
      settings.append(Self.entry(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits.concurrentStreams))
      // RFC 7540 priorities are deprecated, and a peer can cause work by changing their tree (RFC 9218 §2.1).
      settings.append(Self.entry(NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1))
    }
    // The window starts at 65 535 and cannot be made smaller (RFC 9113 §6.9.2).
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

/// The end of a connection that a session is.
public enum HTTP2Role: Sendable, Equatable {
  case client, server
}

/// A stream number (RFC 9113 §5.1.1): odd, above 0, used once on a connection.
public typealias HTTP2StreamID = Int32

final class Stream {
  let id: HTTP2StreamID
  var queue = ContentQueue()
  /// Whether the content takes turns with that of other streams.
  var takesTurns = false
  /// Whether the owner charges the memory of the content.
  var isChargedElsewhere = false
  /// The bytes of content that the library has taken for frames.
  var sentContent = 0
  /// Whether the library waits for content, so that the session must resume it.
  var isDeferred = false
  /// Whether the owner knows that the queue is full, but not yet that it has room again.
  var awaitsRoom = false
  /// Whether the head of the final message has arrived. A later header section is a trailer section.
  var hasHead = false
  var hasEnd = false
  /// Whether the header section of the request exceeded a limit.
  var isOversized = false
  var isSent = false
  /// Whether the owner has reset the stream. The owner then receives only its end.
  var isAbandoned = false
  /// Whether the library has closed the stream. The owner may not have received the event yet.
  var isClosed = false
  /// Whether the request has ended before the owner could receive it.
  var isUndelivered = false
  /// Whether the owner receives no more events of the stream, except its end.
  var isSilent: Bool { isAbandoned || isUndelivered }
  /// Whether the owner can still send on it.
  var isLive: Bool { !isClosed && !isAbandoned }
  /// The cause of the end, if it is known before the end.
  var cause: HTTP2StreamClosure.Cause?

  init(_ id: HTTP2StreamID) { self.id = id }

  /// Returns the closure of the stream with the library's `code`.
  func closure(_ code: HTTP2ErrorCode) -> HTTP2StreamClosure {
    HTTP2StreamClosure(cause: isAbandoned ? .resetLocally : cause ?? likelyCause(code), code: code)
  }

  private func likelyCause(_ code: HTTP2ErrorCode) -> HTTP2StreamClosure.Cause {
    if code == .noError { return hasEnd ? .finished : .resetByPeer }
    // The library's code beyond a GOAWAY and for requests never sent. After the start of a response it makes no sense.
    return code == .refusedStream && !hasHead ? .unprocessed : .malformed
  }
}
