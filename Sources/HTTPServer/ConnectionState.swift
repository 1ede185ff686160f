import EventLoop
import HTTP1
import HTTPMessages

/// The state machine of a connection: the event that it waits for, the deadline, and the next action.
///
/// It maps the events that `Connection` reports to the actions that it performs, without a socket, clock or loop.
struct ConnectionState {
  enum Phase: Equatable {
    case proxyHeader(until: Deadline)
    case handshake(until: Deadline)
    /// No request has begun. The deadline is set when the connection rests for the first time.
    case idle(until: Deadline?)
    /// A header section has begun, or the server is closing and allows a new connection the time for one.
    case head(until: Deadline)
    /// A request has its whole head, and its response is not complete.
    case exchange
    /// The server reads content without a task: for the response, or because the next request follows it.
    /// A slow client makes progress, but is not served forever.
    case content(progress: Deadline, end: Deadline, isForResponse: Bool)
    case http2(GoAway)
    /// The last response has been sent. The server discards further bytes of the peer.
    case lingering(until: Deadline, discarded: Int)
    /// The connection only waits for the peer to acknowledge the bytes that the kernel still has.
    case unread(until: Deadline)
    case closed
  }

  enum Occupation: Equatable {
    /// No code runs for the connection: it waits for readiness or its deadline.
    case resting
    /// Its turn runs, or its task does.
    case busy
    /// Its task waits until the peer takes what was sent.
    case sending
    /// A request waits for its handler, or the task for a part of the response. If it `watchesHangup`, received bytes stay
    /// unread, and only the peer's end is relevant.
    case working(watchesHangup: Bool)
  }

  enum Action: Equatable {
    case nothing
    case read
    case wait(until: Deadline)
    case end(CloseReason)
    case close
    case closeWhenRead
    case discardInput
    case refuseProxyHeader
    case expireHandshake
    case announceGoAway
    case sendGoAway
    /// End the streams and the connection that have taken too long.
    case checkHTTP2
    /// Determine whether readiness means bytes or the peer's end, and report it by `peerActed`.
    case lookForEnd
    case watchForHangup(until: Deadline)
    case cancelWork(until: Deadline)
  }

  var phase = Phase.idle(until: nil)
  private(set) var occupation = Occupation.resting
  /// The reason why the work of the request was cancelled.
  private(set) var interruption: CloseReason?
  /// Whether a whole head has arrived, over HTTP/2 on any stream. Then the preface of HTTP/2 is no longer possible.
  var hasCarriedRequest = false
  /// Whether a request had work that waits: since the connection last rested, and before that.
  private var hadWork = (sinceRest: false, before: false)
  let limits: SharedLimits

  init(limits: SharedLimits) { self.limits = limits }

  mutating func opened(at now: Deadline, awaitsProxyHeader: Bool, isSecure: Bool) {
    let deadline = now.advanced(by: limits.values.tlsHandshake)
    if awaitsProxyHeader {
      phase = .proxyHeader(until: deadline)
    } else if isSecure {
      phase = .handshake(until: deadline)
    }
  }

  /// Records that the PROXY header is complete. The TLS handshake, if there is one, has the rest of the time.
  mutating func proxyHeaderCompleted() {
    if case .proxyHeader(let deadline) = phase { phase = .handshake(until: deadline) }
  }

  /// Records that everything before the first request is complete. Returns false if it already was.
  mutating func handshakeCompleted(at now: Deadline, isClosing: Bool) -> Bool {
    guard case .handshake = phase else { return false }
    // The client is about to send a request. A server that is shutting down waits for it as for the rest of a head.
    phase = isClosing ? .head(until: now.advanced(by: limits.values.headerSection)) : .idle(until: nil)
    return true
  }

  /// Records that the connection rests, which means that it waits without a task, and returns its deadline.
  ///
  /// Only a request changes the deadline of an idle connection. Bytes that complete nothing, such as parts of a TLS
  /// record, do not. A server that is closing gives a connection without a request only the time of `grace`.
  mutating func rest(at now: Deadline, grace: Duration?) -> Deadline {
    occupation = .resting
    switch phase {
    case .proxyHeader(let deadline), .handshake(let deadline), .head(let deadline), .lingering(let deadline, _),
      .unread(let deadline), .idle(let deadline?):
      return deadline
    case .content(let progress, let end, _):
      return min(progress, end)
    case .idle(nil), .exchange:
      let deadline = now.advanced(by: grace ?? limits.values.idle)
      phase = .idle(until: deadline)
      return deadline
    case .http2, .closed:
      return restOfHTTP2(until: now.advanced(by: limits.values.idle))
    }
  }

  /// Records that an HTTP/2 connection rests until `deadline`, and returns the time until which it may rest.
  mutating func restOfHTTP2(until deadline: Deadline) -> Deadline {
    occupation = .resting
    guard case .http2(.announced(let goAway)) = phase else { return deadline }
    return min(deadline, goAway)
  }

  /// Handles the end of a wait of the connection itself, not of its task.
  mutating func woke(_ readiness: Readiness, at now: Deadline) -> Action {
    if case .closed = phase { return .nothing }
    guard occupation == .resting else { return interrupted(readiness, at: now) }
    occupation = .busy
    hadWork = (false, hadWork.sinceRest)
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
    case .http2: .checkHTTP2
    case .idle, .exchange, .lingering, .unread, .closed: .close
    }
  }

  private func refused() -> Action {
    switch phase {
    case .head: .end(.refused(.draining))
    case .content: .end(reason(for: .draining))
    case .proxyHeader, .handshake, .idle, .exchange, .http2, .lingering, .unread, .closed: .close
    }
  }

  /// Returns the reason to close for `refusal`. After the response, it would count as that to the next request.
  func reason(for refusal: ErrorResponse) -> CloseReason {
    if case .content(_, _, isForResponse: false) = phase { .finished(lingers: true) } else { .refused(refusal) }
  }

  /// Prepares the close of an idle connection, because the server is shutting down. A client may be sending a request,
  /// and a close at the same time loses it. So the connection stays open for `grace`. A response announces the close.
  mutating func drainBegan(at now: Deadline, grace: Duration) -> Action {
    let deadline = now.advanced(by: grace)
    if case .http2(let goAway) = phase {
      if goAway == .none { phase = .http2(.announced(until: deadline)) }
      return goAway == .none ? .announceGoAway : .nothing
    }
    guard occupation == .resting, case .idle(let present) = phase else { return .nothing }
    let earlier = min(present ?? .never, deadline)
    phase = .idle(until: earlier)
    return .wait(until: earlier)
  }

  mutating func lingerBegan(at now: Deadline) {
    phase = .lingering(until: now.advanced(by: limits.values.linger), discarded: 0)
  }

  /// Records that `count` bytes were discarded. Returns whether to wait for more.
  mutating func discarded(_ count: Int, at now: Deadline) -> Bool {
    guard case .lingering(let deadline, let discarded) = phase else { return false }
    phase = .lingering(until: deadline, discarded: discarded + count)
    return discarded + count < limits.values.lingerBytes && now < deadline
  }

  mutating func unreadBegan(at now: Deadline) -> Deadline {
    let deadline = now.advanced(by: limits.values.writeProgress)
    phase = .unread(until: deadline)
    readerAwaited()
    return deadline
  }

  /// What the connection waits for, if only its peer can end the wait; nil otherwise. HTTP/2 may have streams.
  var peerWait: HeldPlace.Wait? {
    guard occupation == .resting else { return occupation == .sending ? .exchange : nil }
    switch phase {
    case .proxyHeader, .handshake: return .firstRequest
    case .idle, .http2: return hasCarriedRequest ? .nextRequest : .firstRequest
    case .head: return hasCarriedRequest ? .exchange : .firstRequest
    case .content, .lingering: return .exchange
    case .exchange, .unread, .closed: return nil
    }
  }

  /// Begins a wait until the peer takes what was sent. While a handler works, the connection waits for it instead.
  mutating func readerAwaited() {
    if occupation == .busy { occupation = .sending }
  }

  mutating func readerWaitEnded() {
    if occupation == .sending { occupation = .busy }
  }

  var awaitsProxyHeader: Bool { if case .proxyHeader = phase { true } else { false } }
  var isUnread: Bool { if case .unread = phase { true } else { false } }
  var isWorking: Bool { if case .working = occupation { true } else { false } }
  var watchesHangup: Bool { occupation == .working(watchesHangup: true) }

  var keepsRequest: Bool {
    switch phase {
    case .head, .content: true
    case .proxyHeader, .handshake, .idle, .exchange, .http2, .lingering, .unread, .closed: false
    }
  }

  /// Whether the peer would receive a refusal as the response to a request.
  var takesRefusal: Bool {
    switch phase {
    case .idle, .head, .exchange, .content, .unread, .closed: true
    case .proxyHeader, .handshake, .http2, .lingering: false
    }
  }

  /// Records that the work of a request waits, over HTTP/2 on a stream. Only over HTTP/1.1 does the connection wait with it.
  mutating func workBegan() {
    if case .http2 = phase {} else { occupation = .working(watchesHangup: false) }
    hadWork.sinceRest = true
  }

  mutating func partAwaited() { occupation = .working(watchesHangup: false) }

  /// Whether a request that has come now may have waited for the work of an earlier one. Streams do not wait so.
  var workMayDelay: Bool {
    if case .http2 = phase { return hadWork.before }
    return hadWork.before || hadWork.sinceRest
  }

  /// Starts to watch for the peer's end during work. Returns the action for the wait.
  mutating func watchBegan(at now: Deadline) -> Action {
    if case .working = occupation { occupation = .working(watchesHangup: false) }
    if interruption != nil { return .cancelWork(until: now.advanced(by: limits.values.cancelledWork)) }
    return .wait(until: now.advanced(by: limits.values.work))
  }

  mutating func watchEnded() {
    if case .working = occupation { occupation = .working(watchesHangup: false) }
  }

  mutating func workEnded() { occupation = .busy }

  private mutating func interrupted(_ readiness: Readiness, at now: Deadline) -> Action {
    if interruption != nil, readiness != .ready {
      // The handler has not returned although it was cancelled.
      interruption = .gone
      return .close
    }
    switch readiness {
    case .ready where occupation == .working(watchesHangup: true): return interrupt(.gone, at: now)
    case .ready: return .lookForEnd
    case .timedOut: return interrupt(.refused(.workTimeout), at: now)
    case .cancelled: return interrupt(.refused(.draining), at: now)
    }
  }

  /// Records that the peer has closed its sending side, or sent bytes that stay unread until the work is done.
  mutating func peerActed(isEnd: Bool, at now: Deadline) -> Action {
    guard !isEnd else { return interrupt(.gone, at: now) }
    occupation = .working(watchesHangup: true)
    return .watchForHangup(until: now.advanced(by: limits.values.work))
  }

  /// Cancels the work of the request. A cancelled handler ends soon, and until then the peer's actions are ignored.
  mutating func interrupt(_ reason: CloseReason, at now: Deadline) -> Action {
    interruption = reason
    return .cancelWork(until: now.advanced(by: limits.values.cancelledWork))
  }

  func cancelledWorkDeadline(at now: Deadline) -> Deadline { now.advanced(by: limits.values.cancelledWork) }

  func writeDeadline(at now: Deadline) -> Deadline { now.advanced(by: limits.values.writeProgress) }

  /// Records the first byte of a header section, which has one deadline, however slowly the bytes arrive.
  mutating func headBegan(at now: Deadline) {
    phase = .head(until: now.advanced(by: limits.values.headerSection))
  }

  mutating func headCompleted() {
    phase = .exchange
    hasCarriedRequest = true
  }

  mutating func contentBegan(at now: Deadline, isForResponse: Bool) {
    phase = .content(
      progress: now.advanced(by: limits.values.bodyProgress), end: now.advanced(by: limits.values.body),
      isForResponse: isForResponse)
  }

  mutating func contentContinues(at now: Deadline) {
    guard case .content(_, let end, let isForResponse) = phase else { return }
    phase = .content(progress: now.advanced(by: limits.values.bodyProgress), end: end, isForResponse: isForResponse)
  }

  mutating func contentCompleted() {
    guard case .content(_, _, let isForResponse) = phase else { return }
    phase = isForResponse ? .exchange : .idle(until: nil)
  }

  struct KeepAlive {
    var clientKeepsAlive: Bool
    /// The framing of content that is not read; `none` if all of it is.
    var unreadContent: MessageFraming
    var expectsContinue: Bool
    /// The received bytes after what was read of the request.
    var bufferedBytes: Int
    var readWouldBlock: Bool
    var peerHasFinished: Bool
  }

  /// Returns whether the connection serves another request after the response to this one (RFC 9112 §9.3).
  func goesOn(after exchange: KeepAlive, isDraining: Bool) -> Bool {
    guard exchange.clientKeepsAlive else { return false }
    let hasUnreadContent = exchange.unreadContent != .none
    if hasUnreadContent {
      // A client that waits for 100 may or may not send the content after another status.
      if exchange.expectsContinue { return false }
      // Chunked content may turn out to be too long or malformed, and by then the response cannot announce the close.
      guard case .fixed(let length) = exchange.unreadContent, length <= limits.values.unreadBody else { return false }
    }
    if exchange.peerHasFinished, hasUnreadContent || exchange.bufferedBytes == 0 { return false }
    // During a drain, only the last response to the received requests announces the close.
    guard isDraining else { return true }
    // After unread content, only buffered bytes show that another request has arrived.
    switch exchange.unreadContent {
    case .none: return exchange.bufferedBytes > 0 || !exchange.readWouldBlock
    case .fixed(let length): return exchange.bufferedBytes > length
    case .chunked, .untilClose: return false
    }
  }

  /// Records that the response is complete. Returns the reason to close; nil if the connection goes on.
  mutating func responded(to exchange: KeepAlive, goesOn: Bool) -> CloseReason? {
    guard goesOn else {
      // The client may still be sending.
      return .finished(
        lingers: exchange.clientKeepsAlive || exchange.unreadContent != .none || exchange.bufferedBytes > 0)
    }
    phase = .idle(until: nil)
    return nil
  }
}
