import EventLoop
import HTTP1

/// Transitions for the requests and responses of HTTP/1.1, one after another.
extension ConnectionState {
  /// Records the first byte of a header section, which has one deadline, however slowly the bytes arrive.
  mutating func headBegan(at now: Deadline) {
    phase = .head(until: now.advanced(by: limits.values.headerSection))
  }

  /// Records bytes that may be the preface of HTTP/2 or a request. Unlike `headBegan`, a further part does not change
  /// the deadline.
  mutating func prefaceBegan(at now: Deadline) {
    if case .head = phase { return }
    headBegan(at: now)
  }

  mutating func headCompleted() {
    phase = .exchange
    hasCarriedRequest = true
  }

  mutating func contentBegan(at now: Deadline, isForResponse: Bool) {
    phase = .content(ContentDeadlines(at: now, limits: limits.values), isForResponse: isForResponse)
  }

  /// Records that all received content has been read, and the content is not complete.
  mutating func contentContinues(at now: Deadline) {
    guard case .content(var deadlines, let isForResponse) = phase else { return }
    deadlines.waitBegan(at: now, limits: limits.values)
    phase = .content(deadlines, isForResponse: isForResponse)
  }

  mutating func contentCompleted() {
    guard case .content(_, let isForResponse) = phase else { return }
    phase = isForResponse ? .exchange : .idle(until: nil)
  }

  /// The facts that decide whether a connection serves another request.
  struct KeepAlive {
    /// Whether the client wants to send another request on the connection (RFC 9112 §9.3).
    var clientKeepsAlive: Bool
    /// The framing of the content that the server has not read, or `none` if it has read all content.
    var unreadContent: MessageFraming
    /// Whether the client waits for status 100 before it sends the content.
    var expectsContinue: Bool
    /// The number of bytes that were read from the connection and are not used yet.
    var bufferedBytes: Int
    var readWouldBlock: Bool
    var peerHasFinished: Bool
  }

  /// Returns whether the connection serves another request after the response to this one.
  func goesOn(after exchange: KeepAlive, isDraining: Bool) -> Bool {
    guard exchange.clientKeepsAlive else { return false }
    let hasUnreadContent = exchange.unreadContent != .none
    if hasUnreadContent {
      // A client that waits for 100 may or may not send the content after another status, so the next bytes are
      // ambiguous.
      if exchange.expectsContinue { return false }
      // Chunked content may turn out to be too long or malformed, and by then the response cannot announce the close.
      guard case .fixed(let length) = exchange.unreadContent, length <= limits.values.unreadBody else { return false }
    }
    if exchange.peerHasFinished, hasUnreadContent || exchange.bufferedBytes == 0 { return false }
    // During a drain, only the last response to the received requests announces the close.
    return !isDraining || isFollowed(exchange)
  }

  /// Returns whether more bytes may have arrived after the request. After unread content, only buffered bytes count.
  private func isFollowed(_ exchange: KeepAlive) -> Bool {
    switch exchange.unreadContent {
    case .none: exchange.bufferedBytes > 0 || !exchange.readWouldBlock
    case .fixed(let length): exchange.bufferedBytes > length
    case .chunked: false
    }
  }

  enum Next: Equatable {
    case request
    /// Read the content of this request, which precedes the next request.
    case unreadContent
    case end(CloseReason)
  }

  /// Records that the response is complete, and returns the next step.
  mutating func responded(to exchange: KeepAlive, goesOn: Bool) -> Next {
    let hasUnreadContent = exchange.unreadContent != .none
    guard goesOn else {
      let clientMayBeSending = exchange.clientKeepsAlive || hasUnreadContent || exchange.bufferedBytes > 0
      return .end(.finished(lingers: clientMayBeSending))
    }
    guard !hasUnreadContent else { return .unreadContent }
    phase = .idle(until: nil)
    return .request
  }
}

/// The deadlines of request content: for the whole content, and for the next part. A slow client makes progress, but is
/// not served forever.
struct ContentDeadlines: Equatable {
  private let end: Deadline
  private var progress: Deadline

  init(at now: Deadline, limits: ServerLimits) {
    end = now.advanced(by: limits.body)
    progress = now.advanced(by: limits.bodyProgress)
  }

  var next: Deadline { min(progress, end) }

  mutating func waitBegan(at now: Deadline, limits: ServerLimits) {
    progress = now.advanced(by: limits.bodyProgress)
  }
}
