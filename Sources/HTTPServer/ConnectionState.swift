import EventLoop
import HTTPMessages
import TLS

/// What a connection waits for, until when, and what it does then.
///
/// Events and the time go in, actions come out. There is no socket, no clock and no loop in it: `Connection` reports
/// what happens, and does what the action says.
struct ConnectionState {
  /// How far the connection is.
  enum Phase: Equatable {
    /// The PROXY header is not complete.
    case proxyHeader(until: Deadline)
    /// The TLS handshake is not complete.
    case handshake(until: Deadline)
    /// No request has begun. The deadline is set when the connection rests for the first time.
    case idle(until: Deadline?)
    /// A header section has begun, or the server closes and gives a new connection the time for one.
    case head(until: Deadline)
    /// A request has its whole head and no complete response.
    case exchange
    /// Content is read at rest: for the response, or because the next request is behind it.
    case content(ContentDeadlines, isForResponse: Bool)
    /// The connection speaks HTTP/2.
    case http2(GoAway)
    /// The last response is out. The server discards what the peer still sends.
    case lingering(until: Deadline, discarded: Int)
    /// The connection only waits for the peer to take what the kernel still has.
    case unread(until: Deadline)
    /// The descriptor is closed.
    case closed
  }

  /// How far the end of an HTTP/2 connection has been announced (RFC 9113 §6.8).
  enum GoAway: Equatable {
    case none
    /// The client is asked to open no more streams. The GOAWAY that names the last one is due at the deadline.
    case announced(until: Deadline)
    case sent
  }

  /// Who may act on the connection.
  enum Turn: Equatable {
    /// No code runs for it: it waits for readiness or its deadline.
    case resting
    /// Its turn runs, or its task does.
    case busy
    /// Its task waits for a handler, or for a part of the response. If it `watchesHangup`, bytes have arrived that stay
    /// unread, and only the peer's end is of interest.
    case working(watchesHangup: Bool)
  }

  /// What the connection has to do.
  enum Action: Equatable {
    case nothing
    case read
    case wait(until: Deadline)
    case end(CloseReason)
    case close
    /// Close when the peer has taken what was sent.
    case closeWhenRead
    case discardInput
    case refuseProxyHeader
    case expireHandshake
    case announceGoAway
    case sendGoAway
    /// Find out whether readiness means bytes or the peer's end, and report it by `peerActed`.
    case lookForEnd
    case watchForHangup(until: Deadline)
    case cancelWork(until: Deadline)
    /// Close although the handler has not returned.
    case abandonWork
  }

  var phase = Phase.idle(until: nil)
  private(set) var turn = Turn.resting
  /// Why the work behind the request was cancelled.
  private(set) var interruption: CloseReason?
  /// Whether a whole head has arrived: from then on the preface of HTTP/2 is no longer possible.
  var hasCarriedRequest = false
  let limits: SharedLimits

  init(limits: SharedLimits) {
    self.limits = limits
  }

  // MARK: Before the first request

  /// The connection has been accepted.
  mutating func opened(at now: Deadline, awaitsProxyHeader: Bool, isSecure: Bool) {
    let deadline = now.advanced(by: limits.values.tlsHandshake)
    if awaitsProxyHeader {
      phase = .proxyHeader(until: deadline)
    } else if isSecure {
      phase = .handshake(until: deadline)
    }
  }

  /// The PROXY header is complete. The TLS handshake, if there is one, has the rest of the time.
  mutating func proxyHeaderCompleted() {
    if case .proxyHeader(let deadline) = phase { phase = .handshake(until: deadline) }
  }

  /// All that comes before the first request is complete. False if it was before.
  mutating func handshakeCompleted(at now: Deadline, isClosing: Bool) -> Bool {
    guard case .handshake = phase else { return false }
    // The client is about to send a request. A server that shuts down waits for it as for the rest of a head.
    phase = isClosing ? .head(until: now.advanced(by: limits.values.headerSection)) : .idle(until: nil)
    return true
  }

  // MARK: At rest

  /// The connection rests from now on. Returns its deadline.
  ///
  /// Only a request moves the end of an idle connection: bytes that complete nothing, such as a TLS record in drips, do
  /// not. With `grace`, the server closes, and a connection without a request gets only that time.
  mutating func rest(at now: Deadline, grace: Duration?) -> Deadline {
    turn = .resting
    switch phase {
    case .proxyHeader(let deadline), .handshake(let deadline), .head(let deadline), .lingering(let deadline, _),
      .unread(let deadline), .idle(let deadline?):
      return deadline
    case .content(let deadlines, _):
      return deadlines.next
    case .idle(nil), .exchange:
      let deadline = now.advanced(by: grace ?? limits.values.idle)
      phase = .idle(until: deadline)
      return deadline
    case .http2, .closed:
      return restOfHTTP2(at: now, isPending: false, isIdle: true)
    }
  }

  /// An HTTP/2 connection rests from now on. Returns its deadline.
  mutating func restOfHTTP2(at now: Deadline, isPending: Bool, isIdle: Bool) -> Deadline {
    turn = .resting
    let limit = isPending ? limits.values.writeProgress : isIdle ? limits.values.idle : limits.values.body
    let deadline = now.advanced(by: limit)
    guard case .http2(.announced(let goAway)) = phase else { return deadline }
    return min(deadline, goAway)
  }

  /// A wait of the connection itself has ended, not one of its task.
  mutating func woke(_ readiness: Readiness, at now: Deadline) -> Action {
    if case .closed = phase { return .nothing }
    guard case .resting = turn else { return interrupted(readiness, at: now) }
    turn = .busy
    if case .lingering = phase { return readiness == .ready ? .discardInput : .closeWhenRead }
    switch readiness {
    case .ready: return .read
    case .timedOut: return expired(at: now)
    case .cancelled: return refused()
    }
  }

  private func expired(at now: Deadline) -> Action {
    switch phase {
    case .proxyHeader: .refuseProxyHeader
    case .handshake: .expireHandshake
    case .head: .end(.refused(.headTimeout))
    case .content: .end(reason(for: .bodyTimeout))
    case .http2(.announced(let deadline)) where now >= deadline: .sendGoAway
    case .idle, .exchange, .http2, .lingering, .unread, .closed: .close
    }
  }

  /// The server has waited long enough.
  private func refused() -> Action {
    switch phase {
    case .head: .end(.refused(.draining))
    case .content: .end(reason(for: .draining))
    case .proxyHeader, .handshake, .idle, .exchange, .http2, .lingering, .unread, .closed: .close
    }
  }

  /// How the connection ends for `refusal`. Once the response is given, the client would take a refusal for the response
  /// to its next request.
  func reason(for refusal: ErrorResponse) -> CloseReason {
    if case .content(_, isForResponse: false) = phase { .finished(lingers: true) } else { .refused(refusal) }
  }

  /// The server closes its connections without a request. A client may be about to send one, or have sent it, and a
  /// close that crosses a request loses it: so the connection stays for `grace`, and the response to that request says
  /// that it is the last.
  mutating func drainBegan(at now: Deadline, grace: Duration) -> Action {
    let deadline = now.advanced(by: grace)
    if case .http2(let goAway) = phase {
      if goAway == .none { phase = .http2(.announced(until: deadline)) }
      return goAway == .none ? .announceGoAway : .nothing
    }
    guard turn == .resting, case .idle(let present) = phase else { return .nothing }
    let earlier = min(present ?? .never, deadline)
    phase = .idle(until: earlier)
    return .wait(until: earlier)
  }

  // MARK: HTTP/2

  /// The client has sent the preface of HTTP/2. `grace` is nil unless the server closes: then the end of the connection
  /// is announced at once.
  mutating func upgraded(at now: Deadline, grace: Duration?) -> Action {
    phase = .http2(grace.map { .announced(until: now.advanced(by: $0)) } ?? .none)
    return grace == nil ? .nothing : .announceGoAway
  }

  /// The GOAWAY that names the last stream goes out. False if it has before.
  mutating func goAwaySent() -> Bool {
    switch phase {
    case .http2(.none), .http2(.announced):
      phase = .http2(.sent)
      return true
    default:
      return false
    }
  }

  // MARK: The end

  /// The last response is out, and the peer may still be sending.
  mutating func lingerBegan(at now: Deadline) {
    phase = .lingering(until: now.advanced(by: limits.values.linger), discarded: 0)
  }

  /// So many bytes were discarded. Returns the end of the wait for more, or how the connection ends.
  mutating func discarded(_ count: Int, at now: Deadline) -> Action {
    guard case .lingering(let deadline, var discarded) = phase else { return .closeWhenRead }
    discarded += count
    guard discarded < limits.values.lingerBytes, now < deadline else { return .closeWhenRead }
    phase = .lingering(until: deadline, discarded: discarded)
    return .wait(until: deadline)
  }

  /// Only the peer's acknowledgement is awaited. Returns until when.
  mutating func unreadBegan(at now: Deadline) -> Deadline {
    let deadline = now.advanced(by: limits.values.writeProgress)
    phase = .unread(until: deadline)
    return deadline
  }

  mutating func closed() {
    phase = .closed
  }
}

// MARK: What others may ask

extension ConnectionState {
  /// Whether something is missing that comes before the first request.
  var isHandshaking: Bool {
    switch phase {
    case .proxyHeader, .handshake: true
    case .idle, .head, .exchange, .content, .http2, .lingering, .unread, .closed: false
    }
  }

  var awaitsProxyHeader: Bool { if case .proxyHeader = phase { true } else { false } }
  var isLingering: Bool { if case .lingering = phase { true } else { false } }
  var isUnread: Bool { if case .unread = phase { true } else { false } }
  var isResting: Bool { if case .resting = turn { true } else { false } }
  var isWorking: Bool { if case .working = turn { true } else { false } }
  var watchesHangup: Bool { if case .working(watchesHangup: true) = turn { true } else { false } }

  /// Whether a request has begun that needs its `Request` while the connection rests.
  var keepsRequest: Bool {
    switch phase {
    case .head, .content: true
    case .proxyHeader, .handshake, .idle, .exchange, .http2, .lingering, .unread, .closed: false
    }
  }

  /// Whether a refusal would reach the peer as the response to a request.
  var takesRefusal: Bool {
    switch phase {
    case .idle, .head, .exchange, .content, .unread, .closed: true
    case .proxyHeader, .handshake, .http2, .lingering: false
    }
  }
}

// MARK: Work

extension ConnectionState {
  /// The task waits for a handler, or for a part of the response.
  mutating func workBegan() {
    turn = .working(watchesHangup: false)
  }

  /// The connection is watched for the peer's end while the task waits. Returns the action to take meanwhile.
  mutating func watchBegan(at now: Deadline) -> Action {
    if case .working = turn { turn = .working(watchesHangup: false) }
    if interruption != nil { return .cancelWork(until: now.advanced(by: limits.values.cancelledWork)) }
    return .wait(until: now.advanced(by: limits.values.work))
  }

  /// The connection is not watched any more.
  mutating func watchEnded() {
    if case .working = turn { turn = .working(watchesHangup: false) }
  }

  mutating func workEnded() {
    turn = .busy
  }

  private mutating func interrupted(_ readiness: Readiness, at now: Deadline) -> Action {
    if interruption != nil, readiness != .ready {
      // The handler goes on although it was cancelled.
      interruption = .gone
      return .abandonWork
    }
    switch readiness {
    case .ready where turn == .working(watchesHangup: true): return interrupt(.gone, at: now)
    case .ready: return .lookForEnd
    case .timedOut: return interrupt(.refused(.workTimeout), at: now)
    case .cancelled: return interrupt(.refused(.draining), at: now)
    }
  }

  /// The peer has sent its end, or bytes that stay unread until the work is done.
  mutating func peerActed(isEnd: Bool, at now: Deadline) -> Action {
    guard !isEnd else { return interrupt(.gone, at: now) }
    turn = .working(watchesHangup: true)
    return .watchForHangup(until: now.advanced(by: limits.values.work))
  }

  /// The work behind the request is cancelled. A handler that was cancelled ends soon; until then nothing that the peer
  /// does is of interest.
  mutating func interrupt(_ reason: CloseReason, at now: Deadline) -> Action {
    interruption = reason
    return .cancelWork(until: now.advanced(by: limits.values.cancelledWork))
  }

  func cancelledWorkDeadline(at now: Deadline) -> Deadline { now.advanced(by: limits.values.cancelledWork) }

  /// When a write that the socket has not taken must have made progress.
  func writeDeadline(at now: Deadline) -> Deadline { now.advanced(by: limits.values.writeProgress) }
}

/// When content must be there: the whole of it, and more of it. A client that drips makes progress, but is not served
/// for ever.
struct ContentDeadlines: Equatable {
  private let end: Deadline
  private var progress: Deadline

  init(at now: Deadline, limits: ServerLimits) {
    end = now.advanced(by: limits.body)
    progress = now.advanced(by: limits.bodyProgress)
  }

  /// When the wait for it ends.
  var next: Deadline { min(progress, end) }

  /// The wait for more begins.
  mutating func waitBegan(at now: Deadline, limits: ServerLimits) {
    progress = now.advanced(by: limits.bodyProgress)
  }
}

/// The limits in memory that all connections of a loop share: the value itself would be a quarter of each connection.
final class SharedLimits: Sendable {
  let values: ServerLimits

  init(_ values: ServerLimits) { self.values = values }
}

/// Why a connection ends.
enum CloseReason: Error, Equatable {
  /// The peer is gone or does not read, so nothing more is sent.
  case gone
  /// The last response says that it is the last. `lingers` if the peer may still be sending.
  case finished(lingers: Bool)
  /// A response has broken off: the peer must not treat it as whole.
  case brokenOff
  /// A request is refused in a way that leaves the connection's bytes without meaning.
  case refused(ErrorResponse)
  /// The TLS session is over; what is left to send of it is in `outgoing`.
  case failedTLS(TLSError)
}
