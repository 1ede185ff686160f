import EventLoop
import HTTP2

/// How long the client of an HTTP/2 connection may take, with the limits of HTTP/1.1.
///
/// While streams are open, or bytes are pending, the connection looks at all of them a few times within the shortest
/// limit. So a frame or a part of content costs no timer, and a limit is exceeded by a quarter at most.
struct HTTP2Deadlines {
  /// When the idle time began. PING and SETTINGS do not change it: they keep no connection open.
  private var idleSince: Deadline
  private var frame: (number: Int, since: Deadline)?
  private var writing: (accepted: Int, since: Deadline)?
  private var nextLook: Deadline

  init(at now: Deadline) { (idleSince, nextLook) = (now, now) }

  struct Waits {
    var hasStreams = false
    var frame: IncompleteFrame?
    /// The bytes that the socket has accepted so far, if it has not accepted all. Nil if nothing is pending.
    var accepted: Int?
  }

  enum Expiry {
    case nothing, idle
    /// A frame or a header block did not arrive in time.
    case frame
    /// The client has read nothing.
    case writing
  }

  /// Begins the idle time: when a stream ends, and again for a connection that then still waits for its peer.
  mutating func beginIdleTime(at now: Deadline) { idleSince = now }

  /// Notes what the connection waits for, and returns the time of the next look at it.
  mutating func rest(_ waits: Waits, at now: Deadline, _ limits: ServerLimits) -> Deadline {
    if frame?.number != waits.frame?.number { frame = waits.frame.map { ($0.number, now) } }
    if writing?.accepted != waits.accepted { writing = waits.accepted.map { ($0, now) } }
    guard waits.hasStreams || frame != nil || writing != nil else { return idleSince.advanced(by: limits.idle) }
    if nextLook <= now {
      let shortest = min(limits.headerSection, limits.bodyProgress, limits.body, min(limits.writeProgress, limits.work))
      nextLook = now.advanced(by: min(shortest, limits.idle) / 4)
    }
    return min(nextLook, waits.hasStreams ? .never : idleSince.advanced(by: limits.idle))
  }

  func expiry(of waits: Waits, at now: Deadline, _ limits: ServerLimits) -> Expiry {
    if let writing, now >= writing.since.advanced(by: limits.writeProgress) { return .writing }
    if let frame, let incomplete = waits.frame {
      let limit = incomplete.isContent ? limits.bodyProgress : limits.headerSection
      if now >= frame.since.advanced(by: limit) { return .frame }
    }
    return !waits.hasStreams && now >= idleSince.advanced(by: limits.idle) ? .idle : .nothing
  }
}

/// How long a stream has made no progress.
struct StreamDeadlines {
  private let began: Deadline
  private var received: (bytes: Int, since: Deadline)
  private var sent: (bytes: Int, since: Deadline)
  private var workSince: Deadline?

  init(at now: Deadline) { (began, received, sent) = (now, (0, now), (0, now)) }

  struct Waits {
    var isReceiving = false
    /// Whether the client need not wait for its window.
    var wantsContent = false
    var received = 0
    /// Whether content waits for the client's windows or its reading.
    var isSending = false
    var sent = 0
    /// Whether a handler works, without a response or without the next part of it.
    var isWorking = false
  }

  enum Expiry {
    case nothing, content, reader, work
  }

  /// Notes the progress since the last look, and returns what has taken too long.
  mutating func look(at waits: Waits, at now: Deadline, _ limits: ServerLimits) -> Expiry {
    if !waits.wantsContent || waits.received != received.bytes { received = (waits.received, now) }
    if !waits.isWorking || waits.sent != sent.bytes { workSince = nil }
    if waits.isWorking, workSince == nil { workSince = now }
    if !waits.isSending || waits.sent != sent.bytes { sent = (waits.sent, now) }
    let contentEnd = min(began.advanced(by: limits.body), received.since.advanced(by: limits.bodyProgress))
    if waits.isReceiving, now >= contentEnd { return .content }
    if now >= sent.since.advanced(by: limits.writeProgress), waits.isSending { return .reader }
    if let workSince, now >= workSince.advanced(by: limits.work) { return .work }
    return .nothing
  }
}

/// What the client of an HTTP/2 connection has done wrong, for metrics and the log.
package enum HTTP2Misconduct: String, Sendable, CaseIterable {
  /// It has broken the protocol (RFC 9113 §5.4.1).
  case protocolError = "protocol_error"
  /// It has opened streams and cut them short, or made the server do so (CVE-2023-44487, CVE-2025-8671).
  case resets
  /// It has sent frames for nothing: SETTINGS, PING, empty DATA, and others.
  case idleFrames = "idle_frames"
  /// It has sent a header section beyond the server's limit, also by HPACK or in too many frames (CVE-2024-28182).
  case headerSection = "header_section"
  /// It has not completed a frame or a header block in time.
  case slowFrame = "slow_frame"
  case slowContent = "slow_content"
  /// It has not read a response in time, or given no window for it.
  case slowReader = "slow_reader"

  init?(_ error: HTTP2Error?) {
    switch error {
    case .flood(.resets): self = .resets
    case .flood(.idleFrames): self = .idleFrames
    case .flood(.continuations), .flood(.fieldSection): self = .headerSection
    case .notHTTP2, .connectionError: self = .protocolError
    default: return nil
    }
  }
}
