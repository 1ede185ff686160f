import EventLoop
import HTTP1
import HTTPMessages

/// The state machine of a connection: what it waits for, until when, and the next action.
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
    /// The server reads content without a task, for the response or the next request. A slow client is not served forever.
    case content(progress: Deadline, end: Deadline, isForResponse: Bool)
    case http2(GoAway)
    /// The last response has been sent, and further bytes are discarded.
    case lingering(until: Deadline, discarded: Int)
    /// The kernel still has bytes that the peer has not acknowledged.
    case unread(until: Deadline)
    case closed
  }

  enum Occupation: Equatable {
    /// No code runs for the connection: it waits for readiness or its deadline.
    case resting
    case busy
    /// Its task waits until the peer takes what was sent.
    case sending
    /// A handler or a response's content is awaited. With `watchesHangup`, bytes stay unread, and only the peer's end counts.
    case working(watchesHangup: Bool)
  }

  enum Action: Equatable {
    case nothing, read
    case wait(until: Deadline)
    case end(CloseReason)
    case close, closeWhenRead, discardInput, refuseProxyHeader, expireHandshake, announceGoAway, sendGoAway
    /// End the streams and the connection that have taken too long.
    case checkHTTP2
    /// Find out whether readiness means bytes or the peer's end, and report it by `peerActed`.
    case lookForEnd
    case watchForHangup(until: Deadline)
    case cancelWork(until: Deadline)
  }

  var phase = Phase.idle(until: nil)
  private(set) var occupation = Occupation.resting
  /// The reason why the work of the request was cancelled.
  private(set) var interruption: CloseReason?
  /// Whether a whole head has arrived. Then the preface of HTTP/2 is no longer possible.
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

  /// Leaves the rest of the PROXY header's time to the TLS handshake, if there is one.
  mutating func proxyHeaderCompleted() {
    if case .proxyHeader(let deadline) = phase { phase = .handshake(until: deadline) }
  }

  /// Records that the first request may begin. Returns false if it already might.
  mutating func handshakeCompleted(at now: Deadline, isClosing: Bool) -> Bool {
    guard case .handshake = phase else { return false }
    // The client is about to send a request. A server that is shutting down waits for it as for the rest of a head.
    phase = isClosing ? .head(until: now.advanced(by: limits.values.headerSection)) : .idle(until: nil)
    return true
  }

  /// Records that the connection waits without a task, and returns its deadline.
  ///
  /// Only a request changes the deadline of an idle connection, and not a part of a TLS record, for example. A server
  /// that is closing gives a connection without a request only the time of `grace`.
  mutating func rest(at now: Deadline, grace: Duration?) -> Deadline {
    occupation = .resting
    switch phase {
    case .proxyHeader(let deadline), .handshake(let deadline), .head(let deadline), .lingering(let deadline, _),
      .unread(let deadline), .idle(let deadline?):
      return deadline
    case .content(let progress, let end, _): return min(progress, end)
    case .idle(nil), .exchange:
      let deadline = now.advanced(by: grace ?? limits.values.idle)
      phase = .idle(until: deadline)
      return deadline
    case .http2, .closed: return restOfHTTP2(until: now.advanced(by: limits.values.idle))
    }
  }

  /// As `rest`, for a connection of HTTP/2 that must look at its streams by `deadline`.
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

  /// Returns the reason to close. After the response, a refusal would count as the response to the next request.
  func reason(for refusal: ErrorResponse) -> CloseReason {
    if case .content(_, _, isForResponse: false) = phase { .finished(lingers: true) } else { .refused(refusal) }
  }

  /// Keeps an idle connection open for `grace` in a server that shuts down: a close would lose a request on its way.
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

  /// Counts discarded bytes. Returns whether to wait for more.
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

  /// What the connection waits for, if only its peer can end the wait. HTTP/2 may have streams.
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

  /// Begins a wait until the peer takes what was sent, unless the connection waits for a handler.
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

  /// Records that the work of a request waits. Only over HTTP/1.1 does the connection wait with it.
  mutating func workBegan() {
    if case .http2 = phase {} else { occupation = .working(watchesHangup: false) }
    hadWork.sinceRest = true
  }

  mutating func partAwaited() { occupation = .working(watchesHangup: false) }

  /// Whether a request may have waited for the work of an earlier one. Streams do not wait so.
  var workMayDelay: Bool {
    if case .http2 = phase { return hadWork.before }
    return hadWork.before || hadWork.sinceRest
  }

  /// Starts to watch for the peer's end during work. Returns the action for the wait.
  mutating func watchBegan(at now: Deadline) -> Action {
    watchEnded()
    if interruption != nil { return .cancelWork(until: cancelledWorkDeadline(at: now)) }
    return .wait(until: now.advanced(by: limits.values.work))
  }

  mutating func watchEnded() { if isWorking { occupation = .working(watchesHangup: false) } }
  mutating func workEnded() { occupation = .busy }

  private mutating func interrupted(_ readiness: Readiness, at now: Deadline) -> Action {
    if interruption != nil, readiness != .ready {
      // The handler has not returned in time after it was cancelled.
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

  /// Records that the peer has closed its sending side, or sent bytes, which stay unread until the work is done.
  mutating func peerActed(isEnd: Bool, at now: Deadline) -> Action {
    guard !isEnd else { return interrupt(.gone, at: now) }
    occupation = .working(watchesHangup: true)
    return .watchForHangup(until: now.advanced(by: limits.values.work))
  }

  /// Cancels the work of the request. The handler ends soon, and until then the peer's actions are ignored.
  mutating func interrupt(_ reason: CloseReason, at now: Deadline) -> Action {
    interruption = reason
    return .cancelWork(until: cancelledWorkDeadline(at: now))
  }

  func cancelledWorkDeadline(at now: Deadline) -> Deadline { now.advanced(by: limits.values.cancelledWork) }
  func writeDeadline(at now: Deadline) -> Deadline { now.advanced(by: limits.values.writeProgress) }

  /// Begins the one deadline of a header section, however slowly its bytes arrive.
  mutating func headBegan(at now: Deadline) { phase = .head(until: now.advanced(by: limits.values.headerSection)) }

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

  /// Returns whether the connection serves another request after this response (RFC 9112 §9.3).
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
    if goesOn {
      phase = .idle(until: nil)
      return nil
    }
    let maySend = exchange.clientKeepsAlive || exchange.unreadContent != .none || exchange.bufferedBytes > 0
    return .finished(lingers: maySend)
  }
}
