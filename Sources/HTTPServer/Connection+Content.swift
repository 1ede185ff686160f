import EventLoop
import HTTP1
import HTTPMessages

/// Content of a request: what is read of it at rest, and what has arrived of it unread.
extension Connection {
  /// Begins to read the content of `request`.
  func beginContent(of request: Request, _ use: PendingContent.Use) throws(CloseReason) {
    channel.loop.assertCurrent()
    let framing = request.head.framing
    switch use {
    case .reply(let limit, _, let router):
      if case .fixed(let length) = framing, length > limit { throw .refused(.contentTooLarge(limit)) }
      if request.head.expectsContinue, transport.unread == 0 {
        ResponseSerializer.appendContinue(to: &transport.output)
      }
      request.forgetHead(except: router.lastingField)
    case .none:
      returnRequest()
    }
    exchange.beginContent(use, framing: framing, limits: worker.limits.http1)
    state.contentBegan(at: now, isForResponse: use.isForResponse)
  }

  /// Takes what has come of the content. Returns what is left to do when it is whole; nil if more has to come.
  func continueContent() throws(CloseReason) -> PendingStep? {
    channel.loop.assertCurrent()
    guard exchange.content != nil else { return .nothing }
    let complete: PendingContent?
    do throws(CloseReason) {
      let count: Int
      (count, complete) = try exchange.takeContent(transport.input, from: transport.consumed)
      transport.consumed += count
    } catch .refused(let refusal) {
      throw state.reason(for: refusal)
    }
    guard let complete else {
      state.contentContinues(at: now)
      return nil
    }
    state.contentCompleted()
    guard case .reply(_, let reply, let router) = complete.use, let request = exchange.request else { return .nothing }
    switch reply(complete.received) {
    case .immediate(let response):
      return try respond(router.finished(response, for: request), to: request, bodyIsRead: true)
    case .deferred(let work): return .work(work, router, bodyIsRead: true)
    }
  }

  /// Refuses the request if the framing of content that has arrived is malformed.
  func checkArrivedBody(of request: Request) throws(CloseReason) {
    channel.loop.assertCurrent()
    _ = try lengthOfArrivedBody(of: request)
  }

  /// Passes over content that has arrived as a whole. False, and nothing is passed over, if some of it is missing,
  /// malformed or beyond the limit.
  func skipArrivedBody(of request: Request) -> Bool {
    channel.loop.assertCurrent()
    guard let length = try? lengthOfArrivedBody(of: request) else { return false }
    transport.consumed += length
    return true
  }

  private func lengthOfArrivedBody(of request: Request) throws(CloseReason) -> Int? {
    guard request.head.framing != .none else { return 0 }
    let bytes = transport.input
    return try HTTP1Exchange.lengthOfArrivedContent(
      bytes.span.extracting(transport.consumed...), of: request.head, limits: worker.limits.http1,
      limit: worker.limits.unreadBody)
  }
}
