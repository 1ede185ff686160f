import CNghttp2
import HTTPTypes

/// One connection's HTTP/2 (RFC 9113), as client or as server: bytes in, bytes out, with no socket, clock or thread of
/// its own.
///
/// Confined to one event loop; not `Sendable`. Its owner passes what arrives to `receive`, sends what `collectOutput`
/// gives after every call that may have made some (`wantsWrite`), and closes the connection once `isOver`.
///
/// **Events** go to the delegate that is passed to those two calls, while the library is not at work. So the owner may
/// respond, reset or credit from there, no call is nested in another, and nothing is retained.
///
/// **Flow control** belongs to the reader: content counts against its stream's window until it is passed to `consume`,
/// so the peer can send at most one window more than the reader has taken. The session replenishes the window of the
/// connection as soon as content has been delivered, even before it is read. So streams that stall, even all except
/// one, do not starve the others. Each of them makes the session keep at most ``HTTP2Limits/streamWindow``.
@safe public final class HTTP2Session {
  /// Which end this is.
  public let role: HTTP2Role
  /// Its limits.
  public let limits: HTTP2Limits
  /// What ended the session, if it did not end in good order.
  public internal(set) var failure: HTTP2Error?
  /// Streams that are neither over nor waiting for the peer to allow them.
  public internal(set) var openStreams = 0

  let session: OpaquePointer
  /// All streams whose end the owner has not been told of.
  var streams: [HTTP2StreamID: Stream] = [:]
  var events: [SessionEvent] = []
  var isDelivering = false
  var builder = HeadBuilder()
  var block = FieldBlock()
  var conduct: PeerConduct
  private var scanner: FrameScanner
  /// Where the bytes are that the library works on. Set only while it does.
  var input: UnsafePointer<UInt8>? = nil
  /// The code of the last GOAWAY that the owner asked for.
  var goAwayCode = HTTP2ErrorCode.noError
  /// Whether the library is in no state to go on.
  var isBroken = false

  /// A session at its beginning. Its preface and settings are the first output.
  /// - Throws: `internalFailure` if there is no memory for it.
  public init(_ role: HTTP2Role, limits: HTTP2Limits = HTTP2Limits()) throws(HTTP2Error) {
    guard let session = unsafe Self.makeSession(role) else {
      throw .internalFailure("There is no memory for an HTTP/2 session.")
    }
    self.role = role
    self.limits = limits
    unsafe self.session = session
    conduct = PeerConduct(limits)
    scanner = FrameScanner(from: role == .client ? .server : .client)
    // Safe: the library uses it in callbacks only, which run during calls of this object's own methods.
    unsafe nghttp2_session_set_user_data(session, Unmanaged.passUnretained(self).toOpaque())
    guard submitSettings() else { throw .internalFailure("There is no memory for an HTTP/2 session.") }
  }

  deinit { unsafe nghttp2_session_del(session) }

  /// Whether `collectOutput` would give anything.
  public var wantsWrite: Bool {
    guard !isBroken else { return false }
    return unsafe nghttp2_session_want_write(session) != 0
  }

  /// Whether nothing more will be sent or received: close the connection.
  public var isOver: Bool {
    guard !isBroken else { return true }
    return unsafe nghttp2_session_want_read(session) == 0 && nghttp2_session_want_write(session) == 0
  }

  /// How many streams the peer lets us open (RFC 9113 §5.1.2): 100 until its settings are here.
  public var peerMaxConcurrentStreams: Int {
    Int(unsafe nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS))
  }

  /// Whether `submitRequest` would find a stream now.
  public var canOpenStream: Bool {
    guard failure == nil, openStreams < min(limits.concurrentStreams, peerMaxConcurrentStreams) else { return false }
    return unsafe nghttp2_session_check_request_allowed(session) != 0
  }

  /// Takes all of the bytes that arrived, cut anywhere, and tells the delegate what they mean.
  ///
  /// When the peer breaks the protocol, the GOAWAY that says so is output like any other: the session `isOver` when it
  /// has been collected, and has its `failure`.
  /// - Throws: What ended the session, after telling all that came before. Every later call throws the same. Send what
  ///   `collectOutput` still gives, and close the connection.
  public func receive(_ bytes: Span<UInt8>, delegate: some HTTP2SessionDelegate) throws(HTTP2Error) {
    precondition(!isDelivering, "A delegate may not call receive.")
    var start = 0
    repeat {
      if let failure { throw failure }
      let end = min(start + Self.sliceLength, bytes.count)
      let slice = bytes.extracting(start..<end)
      process(slice)
      deliver(to: delegate, slice)
      start = end
    } while start < bytes.count
    if let failure { throw failure }
  }

  /// Appends what is to be sent.
  /// - Parameters:
  ///   - output: Gets whole frames.
  ///   - limit: Stops when this many bytes were appended, or up to a frame (16 393 bytes) more. The rest stays here.
  ///   - delegate: Hears of streams that end thereby, and of queues that have room.
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
      // Safe: the frame is the library's until its next call.
      unsafe output.append(contentsOf: UnsafeBufferPointer(start: frame, count: count))
    }
    deliver(to: delegate, Span())
  }

  /// Reports every stream that is still open as closed: the connection is gone, or given up. What was never sent is
  /// reported as unprocessed. `failure` is known by then, also if its GOAWAY was never collected.
  public func connectionLost(delegate: some HTTP2SessionDelegate) {
    let open = streams.values.sorted { $0.id < $1.id }.filter { !$0.isClosed }
    for stream in open where stream.cause == nil {
      stream.cause = role == .server || stream.isSent ? .connectionLost : .unprocessed
    }
    discardOutput()
    isBroken = true
    if failure == nil { failure = .connectionLost }
    for stream in open where !stream.isClosed { close(stream, .noError) }
    deliver(to: delegate, Span())
  }

  /// Drops what waits to be sent, up to the GOAWAY, by which alone the library tells that the peer broke the protocol.
  private func discardOutput() {
    while failure == nil, !isBroken {
      var frame: UnsafePointer<UInt8>?
      guard unsafe nghttp2_session_mem_send(session, &frame) > 0 else { return }
    }
  }

  /// Has the library do what follows from `slice`, and judges the peer by it.
  private func process(_ slice: Span<UInt8>) {
    conduct.noteFrames(scanner.count(slice))
    let result = unsafe slice.withUnsafeBufferPointer { buffer in
      unsafe input = buffer.baseAddress
      defer { unsafe input = nil }
      return unsafe nghttp2_session_mem_recv(session, buffer.baseAddress, buffer.count)
    }
    if result < 0 {
      fail(result)
    } else if let flood = conduct.flood {
      failure = .flood(flood)
      unsafe nghttp2_session_terminate_session(session, NGHTTP2_ENHANCE_YOUR_CALM.rawValue)
    }
  }

  /// Notes an error after which the library may not be used (those above a negative number leave it in order).
  private func fail(_ code: Int) {
    isBroken = true
    failure =
      switch nghttp2_error(rawValue: Int32(truncatingIfNeeded: code)) {
      case NGHTTP2_ERR_BAD_CLIENT_MAGIC: .notHTTP2
      case NGHTTP2_ERR_FLOODED: .flood(.idleFrames)
      default: .internalFailure(unsafe String(cString: nghttp2_strerror(Int32(truncatingIfNeeded: code))))
      }
  }

  /// How much the library gets at once. The peer is judged after each: at most 1820 frames go unjudged.
  private static let sliceLength = 16_384
}

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

/// Which end of a connection a session is.
public enum HTTP2Role: Sendable, Equatable {
  /// Sends requests.
  case client
  /// Answers them.
  case server
}

/// The number of a stream (RFC 9113 §5.1.1): odd, above 0, each used once on a connection.
public typealias HTTP2StreamID = Int32

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
    // The library closes with this what a GOAWAY left out and what it never sent. Once a response has begun, a peer that
    // says so contradicts itself.
    return code == .refusedStream && !hasHead ? .unprocessed : .malformed
  }
}
