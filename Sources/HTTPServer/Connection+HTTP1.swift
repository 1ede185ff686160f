import EventLoop
import HTTP1
import HTTPMessages
import Tracing

/// HTTP/1.1: requests and their responses, one after another (RFC 9112 §9.3.2).
extension Connection {
  /// The most requests that a connection handles before the others: with a signature each, they take about 2 ms.
  private static let requestsInOneGo = 64

  /// Responds to the requests in the input, up to the first that has to wait.
  func respondToInput() throws(CloseReason) -> ExchangeStep {
    for _ in 0..<Self.requestsInOneGo {
      // Later responses must not be written before this body.
      if !transport.body.isEmpty, try !transport.flushAtOnce() { return .turn }
      guard let step = try respondToNext() else { return .done }
      guard step.isDone else { return step }
      if transport.output.count >= worker.limits.sendBuffer { return .turn }
    }
    return .turn
  }

  /// Continues with pending content, or else with the next request. Returns nil if more bytes are needed.
  private func respondToNext() throws(CloseReason) -> ExchangeStep? {
    if content != nil { return try continueContent() }
    guard try parseHead(), let request else { return nil }
    identify(request)
    return try serve(request)
  }

  /// Takes a step that has to wait. Earlier responses are sent first.
  func takeStep(_ step: ExchangeStep) {
    if case .work(let work) = step {
      do throws(CloseReason) {
        if try transport.flushAtOnce() { return wait(for: work) }
      } catch {
        cancel(step)
        return end(error)
      }
    }
    // An unstructured task does not inherit the preference, and without it would run on the global pool.
    activity = .task(Task(executorPreference: channel.loop) { await self.run(step) })
  }

  /// Takes steps that have to wait for the socket, up to the first that needs no task.
  private func run(_ first: ExchangeStep) async {
    do throws(CloseReason) {
      var step = first
      repeat {
        do throws(CloseReason) { try await flush() } catch {
          cancel(step)
          throw error
        }
        switch step {
        case .done: break
        case .work(let work): return wait(for: work)
        case .stream(let response, let content):
          guard let request else { break }
          try await stream(response, content, to: request)
        case .turn: await letOthersHaveTheirTurn()
        }
        if transport.isPending { try await flush() }
        step = try respondToInput()
      } while !step.isDone
      try await flush()
    } catch { return end(error) }
    activity = .none
    closeOrAwaitNext()
  }

  @inline(never)
  private func letOthersHaveTheirTurn() async {
    transport.releaseBuffers()
    _ = await channel.wait(for: [], until: now)
    transport.borrowBuffers()
  }

  /// Cancels and records the request of a step that does not come, because the client has not taken earlier responses.
  private func cancel(_ step: ExchangeStep) {
    switch step {
    case .done, .turn: return
    case .work: break
    case .stream(_, let content): content.cancel()
    }
    if let request { recordGone(request) }
  }

  /// Returns whether a whole head has arrived, which is then that of `request`.
  private func parseHead() throws(CloseReason) -> Bool {
    let bytes = transport.input
    let unread = bytes.span.extracting(transport.consumed...)
    guard !unread.isEmpty else { return false }
    if refused != nil { return try readRefusedHead(unread) }
    // Some clients send an empty line after content (RFC 9112 §2.2). Then no request has begun.
    if request == nil, unread.count == 2, unread[0] == 0x0D, unread[1] == 0x0A {
      transport.dropInput()
      return false
    }
    let request = request ?? borrowRequest()
    let length: Int
    do throws(RequestError) {
      guard let whole = try request.parser.parse(unread) else { return false }
      request.keep(unread.extracting(..<whole))
      length = whole
    } catch {
      let refusal = ErrorResponse(error, showing: error.part(of: unread.extracting(request.head.target)))
      refused = RefusedHead(refusal, of: error, keeping: worker.router.refusalFields)
      return try readRefusedHead(unread)
    }
    transport.consumed += length
    unreadContent = request.head.framing
    state.headCompleted()
    return true
  }

  /// Reads more of a head that is refused. Returns false if more bytes are needed.
  private func readRefusedHead(_ bytes: Span<UInt8>) throws(CloseReason) -> Bool {
    refused?.read(bytes)
    transport.dropInput()
    guard let refused, refused.isComplete else { return false }
    throw .refused(refused.refusal)
  }

  private func borrowRequest() -> Request {
    let request = worker.lendRequest(to: self)
    self.request = request
    state.headBegan(at: now)
    return request
  }

  func returnRequest() { if let request = request.take() { worker.takeBack(request) } }

  /// Responds with a refusal. The caller must then close the connection.
  func refuse(_ refusal: ErrorResponse) {
    let request = request ?? borrowRequest()
    self.request = nil
    defer { worker.takeBack(request) }
    if request.route == nil { request.begin(worker.ids.next()) }
    let router = request.router ?? worker.router
    let refused = refused.take()
    if let refused { request.keepRefused(refused.values) }
    // If the rest of a refused head does not come in time, the first refusal is still the reason.
    var response = (refused?.refusal ?? refusal).response(id: request.id)
    if request.route != nil || refused != nil { router.finish(&response, request) }
    secure(&response)
    worker.observer.completed(request, response, bytes: write(response, to: request, goesOn: false))
  }

  private func beginContent(_ framing: MessageFraming, for reply: PendingContent.AwaitingReply?) {
    content = PendingContent(framing, for: reply, limits: worker.limits.http1)
    state.contentBegan(at: now, isForResponse: reply != nil)
  }

  /// Reads the content that has arrived. Returns the next step, or nil if more bytes are needed.
  private func continueContent() throws(CloseReason) -> ExchangeStep? {
    guard var content = content.take() else { return nil }
    let isComplete: Bool
    do throws(CloseReason) {
      isComplete = try content.take(transport.input, from: &transport.consumed)
    } catch .refused(let refusal) {
      throw state.reason(for: refusal)
    }
    guard isComplete else {
      self.content = content
      state.contentContinues(at: now)
      return nil
    }
    state.contentCompleted()
    unreadContent = .none
    guard let reply = content.reply, let request else { return .done }
    return try follow(reply.then(content.received), to: request)
  }

  /// Returns the end of the request's content in the input, or nil if it has not arrived whole. Throws if the framing is
  /// malformed: the following bytes are then no request (RFC 9112 §6.3, §7.1).
  private func endOfArrivedContent(of request: Request) throws(CloseReason) -> Int? {
    var end = transport.consumed
    guard request.head.framing != .none else { return end }
    // A client that waits for 100 may send the next request instead of the content.
    guard !request.head.expectsContinue else { return nil }
    var content = PendingContent(request.head.framing, for: nil, limits: worker.limits.http1)
    guard try content.take(transport.input, from: &end), content.length <= worker.limits.unreadBody else { return nil }
    return end
  }

  /// Returns whether the connection serves another request after this one. First skips content that has arrived whole.
  private func goesOn(after response: Response, to request: Request) -> Bool {
    guard response.end == .nothing else { return false }
    if unreadContent != .none, let end = try? endOfArrivedContent(of: request) {
      transport.consumed = end
      unreadContent = .none
    }
    // A connection that waits for another request would hold one of the last descriptors.
    return worker.spares.isComplete && state.goesOn(after: facts(of: request), isDraining: worker.stage != .serving)
  }

  private func facts(of request: Request) -> ConnectionState.KeepAlive {
    ConnectionState.KeepAlive(
      clientKeepsAlive: request.head.keepAlive, unreadContent: unreadContent,
      expectsContinue: request.head.expectsContinue, bufferedBytes: transport.unread,
      readWouldBlock: transport.readWouldBlock, peerHasFinished: transport.peerHasFinished)
  }

  /// Writes a response, except a body that is sent as `transport.body`. Returns the number of content bytes.
  private func write(_ response: Response, to request: Request, goesOn: Bool) -> Int {
    worker.appendHead(
      response, contentLength: response.body.count, id: request.id, version: request.head.version, keepAlive: goesOn,
      to: &transport.output)
    guard request.method != .head, response.hasContent else { return 0 }
    if response.body.count < Self.leastShared { transport.output.append(contentsOf: response.body) }
    return response.body.count
  }
}

extension Connection: ExchangeCarrier {
  var connection: Connection { self }
  func checkArrivedContent(of request: Request) throws(CloseReason) { _ = try endOfArrivedContent(of: request) }

  func readContent(of request: Request, atMost limit: Int, then reply: @escaping @Sendable ([UInt8]) -> Reply) {
    if request.head.expectsContinue, transport.unread == 0 {
      ResponseSerializer.appendContinue(to: &transport.output)
    }
    request.forgetHead()
    beginContent(request.head.framing, for: (limit, reply))
  }

  func keep(charged body: [UInt8]) { transport.body = body }

  func send(_ response: Response, to request: Request) throws(CloseReason) -> (bytes: Int, goesOn: Bool) {
    let goesOn = goesOn(after: response, to: request)
    return (write(response, to: request, goesOn: goesOn), goesOn)
  }

  func sendHead(of response: Response, _ framing: StreamFraming, to request: Request) throws(CloseReason) -> Bool {
    let goesOn = goesOn(after: response, to: request) && !framing.isUntilClose
    worker.appendHead(
      response, contentLength: framing.contentLength, isChunked: framing.isChunked, id: request.id,
      version: request.head.version, keepAlive: goesOn, to: &transport.output)
    return goesOn
  }

  /// Holds no buffers while it waits.
  func part(of content: any ContentReader) async throws(CloseReason) -> [UInt8]? {
    if transport.output.isEmpty { transport.releaseBuffers() }
    state.partAwaited()
    defer { state.workEnded() }
    // The head of the response was sent, so there is no other way to refuse it.
    guard account() else { throw .brokenOff }
    watchForInterruption()
    defer {
      stopWatching()
      transport.borrowBuffers()
    }
    do {
      return try await content.read()
    } catch {
      guard case .gone = state.interruption else { throw .brokenOff }
      throw .gone
    }
  }

  func send(_ part: [UInt8], _ framing: StreamFraming) async throws(CloseReason) {
    if framing.isChunked {
      transport.output.appendChunk(part.span)
    } else {
      transport.output.append(contentsOf: part)
    }
    try await flush()
  }

  func endContent(_ framing: StreamFraming) {
    if framing.isChunked { transport.output.appendLastChunk() }
  }

  func conclude(_ request: Request, goesOn: Bool) throws(CloseReason) {
    if let reason = state.responded(to: facts(of: request), goesOn: goesOn) { throw reason }
    returnRequest()
    if unreadContent != .none { beginContent(unreadContent, for: nil) }
  }
}

/// Request content that is read before the next step: for its route, or because the next request follows it.
struct PendingContent {
  /// The most bytes for a reply, and what follows them.
  typealias AwaitingReply = (limit: Int, then: @Sendable ([UInt8]) -> Reply)

  /// Nil if the response was already sent. The content is then discarded: it has a fixed length of at most
  /// `ServerLimits.unreadBody`, because the connection does not go on otherwise (`ConnectionState.goesOn`).
  let reply: AwaitingReply?
  private var decoder: ContentDecoder
  private(set) var length = 0
  /// The content so far, if it is read for the response.
  private(set) var received: [UInt8] = []

  init(_ framing: MessageFraming, for reply: AwaitingReply?, limits: HTTP1Limits) {
    self.reply = reply
    decoder = ContentDecoder(framing, limits: limits)
  }

  /// Takes content from the front of `bytes`. Returns whether it is complete.
  mutating func take(_ bytes: [UInt8], from position: inout Int) throws(CloseReason) -> Bool {
    while true {
      let (count, event) = try decoder.next(in: bytes.span.extracting(position...))
      if case .data(let range) = event {
        length += range.count
        if let reply {
          guard length <= reply.limit else { throw .refused(.contentTooLarge(reply.limit)) }
          received += bytes[position + range.lowerBound..<position + range.upperBound]
        }
      }
      position += count
      if event == .end { return true }
      if event == .needMore { return false }
    }
  }
}

extension ContentDecoder {
  /// As ``decode(_:)``, but throws the refusal of malformed content.
  mutating func next(in bytes: Span<UInt8>) throws(CloseReason) -> (consumed: Int, event: ContentDecoder.Event) {
    do { return try decode(bytes) } catch { throw .refused(ErrorResponse(error)) }
  }
}
