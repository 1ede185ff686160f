import HTTP1

/// Content that has arrived of a request whose operation does not read it.
extension Connection {
  /// Refuses the request if the framing of its content is malformed: bytes that follow it are no request, and the client
  /// that sent it must learn that (RFC 9112 §6.3, §7.1).
  func checkArrivedBody(of request: Request) throws(CloseReason) {
    _ = try endOfArrivedBody(of: request)
  }

  /// Passes over content that has arrived as a whole. False, and nothing is passed over, if some of it is missing,
  /// malformed or beyond the limit.
  func skipArrivedBody(of request: Request) -> Bool {
    guard let end = try? endOfArrivedBody(of: request) else { return false }
    consumed = end
    return true
  }

  /// Where in `input` the content ends; nil if it goes on beyond what has arrived, or beyond the limit.
  private func endOfArrivedBody(of request: Request) throws(CloseReason) -> Int? {
    guard request.head.framing != .none else { return consumed }
    // A client that waits for 100 may send the next request in place of the content.
    guard !request.head.expectsContinue else { return nil }
    var body = MessageBody(request.head.framing, limits: worker.limits.http1)
    let bytes = input
    var (position, length) = (consumed, 0)
    while length <= worker.limits.unreadBody {
      let (count, event) = try body.next(bytes.span.extracting(position...))
      position += count
      switch event {
      case .data(let range): length += range.count
      case .needMore: return nil
      case .end: return position
      }
    }
    return nil
  }
}
