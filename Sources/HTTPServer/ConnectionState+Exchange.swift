import EventLoop
import HTTP1

/// Requests and responses of HTTP/1.1, one after the other.
extension ConnectionState {
  /// The first byte of a header section has arrived. It has one deadline, however slowly the bytes follow.
  mutating func headBegan(at now: Deadline) {
    phase = .head(until: now.advanced(by: limits.values.headerSection))
  }

  /// Bytes have arrived that may be the preface of HTTP/2 or a request. Unlike `headBegan`, each further part leaves the
  /// deadline as it is.
  mutating func prefaceBegan(at now: Deadline) {
    if case .head = phase { return }
    headBegan(at: now)
  }

  /// A whole head is there.
  mutating func headCompleted() {
    phase = .exchange
    hasCarriedRequest = true
  }

  /// The content of the request is to be read.
  mutating func contentBegan(at now: Deadline, isForResponse: Bool) {
    phase = .content(ContentDeadlines(at: now, limits: limits.values), isForResponse: isForResponse)
  }

  /// All content that has arrived is read, and its end has not come.
  mutating func contentContinues(at now: Deadline) {
    guard case .content(var deadlines, let isForResponse) = phase else { return }
    deadlines.waitBegan(at: now, limits: limits.values)
    phase = .content(deadlines, isForResponse: isForResponse)
  }

  /// The content is complete.
  mutating func contentCompleted() {
    guard case .content(_, let isForResponse) = phase else { return }
    phase = isForResponse ? .exchange : .idle(until: nil)
  }

  /// What decides whether a connection serves another request.
  struct Exchange {
    /// Whether the client wants to send another request on the connection (RFC 9112 §9.3).
    var clientKeepsAlive: Bool
    /// How the content is framed that the server has not read; none if it has.
    var unreadContent: MessageFraming
    /// Whether the client waits for 100 before it sends the content.
    var expectsContinue: Bool
    /// Bytes that have been read from the connection and not been used.
    var bufferedBytes: Int
    /// Whether the socket has nothing more at present.
    var readWouldBlock: Bool
    /// Whether the peer has said that it sends no more.
    var peerHasFinished: Bool
  }

  /// Whether the connection serves another request after the response to this one.
  func goesOn(after exchange: Exchange, isDraining: Bool) -> Bool {
    guard exchange.clientKeepsAlive else { return false }
    let hasUnreadContent = exchange.unreadContent != .none
    if hasUnreadContent {
      // A client that waits for 100 may send the content or not when it gets another status: what comes next is unclear.
      if exchange.expectsContinue { return false }
      // What comes in chunks may yet turn out to be too long or malformed, and then its end could not be announced.
      guard case .fixed(let length) = exchange.unreadContent, length <= limits.values.unreadBody else { return false }
    }
    if exchange.peerHasFinished, hasUnreadContent || exchange.bufferedBytes == 0 { return false }
    // A server that is going says so with the last response to what has arrived, not before.
    return !isDraining || isFollowed(exchange)
  }

  /// Whether more may have arrived after the request. Behind unread content, only buffered bytes count.
  private func isFollowed(_ exchange: Exchange) -> Bool {
    switch exchange.unreadContent {
    case .none: exchange.bufferedBytes > 0 || !exchange.readWouldBlock
    case .fixed(let length): exchange.bufferedBytes > length
    case .chunked: false
    }
  }

  /// What follows a response.
  enum Next: Equatable {
    /// The next request.
    case request
    /// The content of this one, which is in front of the next.
    case unreadContent
    case end(CloseReason)
  }

  /// The response is complete.
  mutating func responded(to exchange: Exchange, goesOn: Bool) -> Next {
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
