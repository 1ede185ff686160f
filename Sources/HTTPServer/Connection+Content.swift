import EventLoop
import HTTP1

/// Content of a request that is read before anything else is done: for its route, or because the next request is behind
/// it.
///
/// While it is incomplete the connection rests without a task. This value, and of the request what its response needs, are
/// all that it holds.
struct PendingContent {
  /// What the content is read for.
  enum Use {
    /// The route's response.
    case reply(limit: Int, @Sendable ([UInt8]) -> Reply, Router)
    /// Nothing: the response is given already.
    case none(limit: Int)
  }

  let use: Use
  fileprivate var body: MessageBody
  /// What has come of it, if it is read for the response.
  fileprivate(set) var received: [UInt8] = []
  /// When all of it must be there.
  private let end: Deadline
  /// When more of it must be there.
  private var progress: Deadline
  private var discarded = 0

  fileprivate init(_ use: Use, of head: RequestHead, limits: ServerLimits, now: Deadline) {
    self.use = use
    body = MessageBody(head.framing, limits: limits.http1)
    end = now.advanced(by: limits.body)
    progress = now.advanced(by: limits.bodyProgress)
  }

  /// When the wait for it ends.
  var deadline: Deadline { min(progress, end) }

  /// How the connection ends if the content does not come for the reason that `refusal` gives. Once the response is
  /// given, a refusal would be taken for the response to the next request.
  func ending(_ refusal: Refusal) -> CloseReason {
    if case .reply = use { .refused(refusal) } else { .finished(lingers: true) }
  }

  fileprivate mutating func wait(until progress: Deadline) {
    self.progress = progress
  }

  fileprivate mutating func take(_ part: ArraySlice<UInt8>) throws(CloseReason) {
    switch use {
    case .reply(let limit, _, _):
      guard received.count + part.count <= limit else { throw .refused(.contentTooLarge(limit)) }
      received.append(contentsOf: part)
    case .none(let limit):
      discarded += part.count
      guard discarded <= limit else { throw .finished(lingers: true) }
    }
  }
}

extension Connection {
  /// Begins to read the content of `request`.
  func beginContent(of request: Request, _ use: PendingContent.Use) throws(CloseReason) {
    let content = PendingContent(use, of: request.head, limits: worker.limits, now: now)
    switch use {
    case .reply(let limit, _, let router):
      if case .fixed(let length) = request.head.framing, length > limit { throw .refused(.contentTooLarge(limit)) }
      if request.head.expectsContinue, consumed == input.count { ResponseSerializer.appendContinue(to: &output) }
      request.forgetHead(except: router.lastingField)
    case .none:
      returnRequest()
    }
    pendingContent = content
  }

  /// Takes what has come of the content. Returns what is left to do when it is whole; nil if more has to come.
  func continueContent() throws(CloseReason) -> PendingStep? {
    guard var content = pendingContent.take() else { return .nothing }
    do throws(CloseReason) {
      guard try read(&content) else {
        content.wait(until: now.advanced(by: worker.limits.bodyProgress))
        pendingContent = content
        return nil
      }
    } catch .refused(let refusal) {
      throw content.ending(refusal)
    }
    switch content.use {
    case .none:
      return .nothing
    case .reply(_, let reply, let router):
      guard let request else { return .nothing }
      switch reply(content.received) {
      case .immediate(let response):
        return try respond(router.finished(response, for: request), to: request, bodyIsRead: true)
      case .deferred(let work): return .work(work, router, bodyIsRead: true)
      }
    }
  }

  /// Takes content from the input. False if its end has not come.
  private func read(_ content: inout PendingContent) throws(CloseReason) -> Bool {
    let bytes = input
    while true {
      let (count, event) = try content.body.next(bytes.span.extracting(consumed...))
      if case .data(let range) = event {
        try content.take(bytes[consumed + range.lowerBound..<consumed + range.upperBound])
      }
      consumed += count
      if event == .end { return true }
      if event == .needMore { return false }
    }
  }
}

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

/// Where in a request body its reader is, whichever way it is framed.
enum MessageBody {
  case fixed(remaining: Int)
  case chunked(ChunkedDecoder)

  init(_ framing: MessageFraming, limits: HTTP1Limits) {
    switch framing {
    case .none: self = .fixed(remaining: 0)
    case .fixed(let length): self = .fixed(remaining: length)
    case .chunked: self = .chunked(ChunkedDecoder(limits: limits))
    }
  }

  /// Takes bytes from the front of `bytes`: how many, and what they are.
  mutating func next(_ bytes: Span<UInt8>) throws(CloseReason) -> (consumed: Int, event: ChunkedDecoder.Event) {
    switch self {
    case .fixed(remaining: 0):
      return (0, .end)
    case .fixed(let remaining):
      let count = min(remaining, bytes.count)
      self = .fixed(remaining: remaining - count)
      return (count, count == 0 ? .needMore : .data(0..<count))
    case .chunked(var decoder):
      defer { self = .chunked(decoder) }
      do { return try decoder.decode(bytes) } catch { throw .refused(Refusal(error)) }
    }
  }
}
