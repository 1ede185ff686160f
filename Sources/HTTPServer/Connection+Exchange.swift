import EventLoop
import HTTP1
import HTTPMessages
import HTTPTypes

/// Requests and their responses, one after another.
extension Connection {
  // MARK: The request

  /// Continues with pending content, or else with the next request. Returns nil if more bytes are needed.
  func respondToNext() throws(CloseReason) -> PendingStep? {
    channel.loop.assertCurrent()
    if exchange.content != nil { return try continueContent() }
    guard try parseHead() else { return nil }
    let remainder = try respondImmediately()
    guard let request = exchange.request else { return remainder }
    switch remainder {
    case .content(let limit, let reply, let router): try beginContent(of: request, .reply(limit: limit, reply, router))
    case .unreadBody: try beginContent(of: request, .none(limit: worker.limits.unreadBody))
    case .nothing, .work, .stream, .turn: return remainder
    }
    // An earlier response with its own body must be sent first.
    return try transport.body.isEmpty ? continueContent() : .nothing
  }

  /// Returns whether a whole head has arrived. It is then the exchange's request, and its bytes are consumed.
  private func parseHead() throws(CloseReason) -> Bool {
    let bytes = transport.input
    let unread = bytes.span.extracting(transport.consumed...)
    guard !unread.isEmpty else { return false }
    if exchange.refused != nil { return try readRefusedHead(unread) }
    if exchange.isEmptyLine(unread) {
      transport.dropInput()
      return false
    }
    let request = exchange.request ?? borrowRequest()
    let length: Int
    do throws(RequestError) {
      guard let whole = try HTTP1Exchange.takeHead(unread, into: request) else { return false }
      length = whole
    } catch {
      exchange.refuseHead(unread, error, keeping: worker.router.lastingField)
      return try readRefusedHead(unread)
    }
    transport.consumed += length
    state.headCompleted()
    return true
  }

  /// Reads more of a head that is refused. Returns false if more bytes are needed.
  private func readRefusedHead(_ bytes: Span<UInt8>) throws(CloseReason) -> Bool {
    exchange.refused?.read(bytes)
    transport.dropInput()
    guard let refused = exchange.refused, refused.isComplete else { return false }
    throw .refused(refused.refusal)
  }

  private func borrowRequest() -> Request {
    let request = worker.lendRequest()
    request.clientAddress = peer.name
    request.rateLimitPrefix = peer.rateLimitPrefix
    request.holder = peer.holder
    request.clientCertificate = peer.certificate
    request.received = now
    exchange.request = request
    state.headBegan(at: now)
    return request
  }

  func returnRequest() {
    channel.loop.assertCurrent()
    if let request = exchange.request.take() { worker.takeBack(request) }
  }

  // MARK: The response

  /// The rest of a request after all steps that need no wait.
  enum PendingStep {
    /// The response is complete.
    case nothing
    /// The operation reads the request's content before it responds.
    case content(limit: Int, @Sendable ([UInt8]) -> Reply, Router)
    /// The handler has work that waits.
    case work(DeferredWork, Router, bodyIsRead: Bool)
    /// The response's content comes in parts.
    indirect case stream(Response, any ContentReader, bodyIsRead: Bool)
    /// The response is complete, but the request's body must still be skipped.
    case unreadBody
    /// The response and enough earlier ones are complete: they are sent, and other connections have a turn.
    case turn

    var isNothing: Bool {
      if case .nothing = self { true } else { false }
    }
  }

  /// Writes the response to a request with a complete head into `output`, unless its body must be read first.
  func respondImmediately() throws(CloseReason) -> PendingStep {
    channel.loop.assertCurrent()
    guard let request = exchange.request else { return .nothing }
    identify(request)
    // The request keeps this router, even if it is replaced meanwhile.
    let router = worker.router
    let operation: Operation
    do {
      operation = try router.operation(for: request)
    } catch {
      try checkArrivedBody(of: request)
      var refusal = error.response(id: request.id)
      router.finish(&refusal, request)
      return try respond(&refusal, to: request, bodyIsRead: false)
    }
    if case .read = operation.action {} else { try checkArrivedBody(of: request) }
    var response: Response
    switch operation.action {
    case .respond(let respond): response = respond(request)
    case .reply(let reply):
      if operation.isRefusedEarly, let early = earlyRefusal(of: request) {
        response = early
        break
      }
      switch reply(request) {
      case .immediate(let immediate): response = immediate
      case .deferred(let work):
        guard let other = responseInstead(of: work, for: request) else {
          return .work(work, router, bodyIsRead: false)
        }
        response = other
      }
    case .read(let limit, let judge):
      switch judge(request) {
      case .immediate(let immediate):
        try checkArrivedBody(of: request)
        response = immediate
      case .read(let reply): return .content(limit: limit, reply, router)
      }
    }
    router.finish(&response, request)
    return try respond(&response, to: request, bodyIsRead: false)
  }

  /// Completes a step that `respondImmediately` returned, except work, and the steps after it.
  func finish(_ step: PendingStep) async throws(CloseReason) {
    channel.loop.assertCurrent()
    switch step {
    case .stream(let response, let reader, let bodyIsRead):
      guard let request = exchange.request else { return }
      try beginContent(after: try await stream(response, from: reader, to: request, bodyIsRead: bodyIsRead))
    case .turn: try await letOthersHaveTheirTurn()
    case .nothing, .work, .unreadBody, .content: try beginContent(after: step)
    }
  }

  /// Sends the responses to earlier requests, which must not wait for this step. If that fails, the step's request is over.
  func flush(before step: PendingStep) async throws(CloseReason) {
    do throws(CloseReason) {
      try await flush()
    } catch {
      cancel(step)
      throw error
    }
  }

  /// Sends the responses to earlier requests as far as the socket accepts them. Returns false if bytes are left.
  func flushAtOnce(before step: PendingStep) throws(CloseReason) -> Bool {
    do throws(CloseReason) {
      return try transport.flushAtOnce()
    } catch {
      cancel(step)
      throw error
    }
  }

  /// Cancels and records the request of a step that does not come, because the client has not taken earlier responses.
  func cancel(_ step: PendingStep) {
    switch step {
    case .work: break
    case .stream(_, let reader, _): reader.cancel()
    case .nothing, .unreadBody, .content, .turn: return
    }
    if let request = exchange.request { record(request, status: Self.clientClosedRequest, bytes: 0) }
  }

  @inline(never)
  private func letOthersHaveTheirTurn() async throws(CloseReason) {
    try await flush()
    transport.releaseBuffers()
    _ = await channel.pause(until: now)
    transport.borrowBuffers()
  }

  /// Starts to read the content of a request, which the connection then does without a task.
  @inline(never)
  private func beginContent(after step: PendingStep) throws(CloseReason) {
    guard let request = exchange.request else { return }
    switch step {
    case .unreadBody: try beginContent(of: request, .none(limit: worker.limits.unreadBody))
    case .content(let limit, let reply, let router): try beginContent(of: request, .reply(limit: limit, reply, router))
    case .nothing, .work, .stream, .turn: break
    }
  }

  /// Writes a response that the router has finished, or the next best one. Returns the next step.
  func respond(
    _ response: inout Response, to request: Request, bodyIsRead: Bool
  ) throws(CloseReason) -> PendingStep {
    channel.loop.assertCurrent()
    let bodyIsRead = bodyIsRead || (response.end == .nothing && skipArrivedBody(of: request))
    makeAffordable(&response, for: request)
    secure(&response)
    if let reader = response.stream { return .stream(response, reader, bodyIsRead: bodyIsRead) }
    let keepAlive = goesOn(after: response, to: request, bodyIsRead: bodyIsRead)
    write(response, to: request, keepAlive: keepAlive)
    return try conclude(request, keepAlive: keepAlive, bodyIsRead: bodyIsRead)
  }

  /// Returns whether the connection serves another request after this response.
  func goesOn(after response: Response, to request: Request, bodyIsRead: Bool) -> Bool {
    // A connection that waits for another request would hold one of the last descriptors.
    response.end == .nothing && worker.spares.isComplete
      && state.goesOn(after: facts(of: request, bodyIsRead: bodyIsRead), isDraining: worker.stage != .serving)
  }

  /// Returns the next step after a complete response.
  func conclude(_ request: Request, keepAlive: Bool, bodyIsRead: Bool) throws(CloseReason) -> PendingStep {
    channel.loop.assertCurrent()
    switch state.responded(to: facts(of: request, bodyIsRead: bodyIsRead), goesOn: keepAlive) {
    case .end(let reason): throw reason
    case .unreadContent: return .unreadBody
    case .request:
      returnRequest()
      return .nothing
    }
  }

  private func facts(of request: Request, bodyIsRead: Bool) -> ConnectionState.Exchange {
    ConnectionState.Exchange(
      clientKeepsAlive: request.head.keepAlive, unreadContent: bodyIsRead ? .none : request.head.framing,
      expectsContinue: request.head.expectsContinue, bufferedBytes: transport.unread,
      readWouldBlock: transport.readWouldBlock, peerHasFinished: transport.peerHasFinished)
  }

  private func write(_ response: Response, to request: Request, keepAlive: Bool) {
    let bytes = worker.append(
      response, id: request.id, version: request.head.version, keepAlive: keepAlive,
      isHead: request.method == .head, to: &transport.output, sharing: &transport.body)
    record(request, response, bytes: bytes)
  }

  /// Notifies the observer of a response.
  func record(_ request: Request, _ response: Response, bytes: Int) {
    record(
      request, status: response.status.code, bytes: bytes, response.shortage, response.replaced,
      client: response.client)
  }

  /// Notifies the observer of the end of a request.
  func record(
    _ request: Request, status: Int, bytes: Int, _ shortage: Shortage? = nil, _ replaced: ReplacedResponse? = nil,
    client: String? = nil
  ) {
    guard worker.recordsExchanges else { return }
    worker.observer.completed(
      CompletedRequest(
        id: request.id, trace: request.trace,
        method: request.route == nil && request.head.statedVersion == nil ? nil : request.method,
        route: request.route, path: request.recordedPath, status: status, bytes: bytes,
        duration: Deadline.now.duration(since: request.received), clientAddress: request.clientAddress,
        version: request.isHTTP2 ? "2" : request.head.statedVersion.map { $0 == .http10 ? "1.0" : "1.1" },
        isSecure: transport.tls != nil, shortage: shortage, replaced: replaced, client: client))
  }

  /// Responds with a refusal. The caller must then close the connection.
  func refuse(_ refusal: ErrorResponse) {
    channel.loop.assertCurrent()
    let request = exchange.request ?? borrowRequest()
    exchange.request = nil
    defer { worker.takeBack(request) }
    if request.route == nil { request.begin(worker.freshID()) }
    let refused = exchange.refused.take()
    if let refused { request.keepRefused(worker.router.lastingField ?? "", refused.values) }
    // If the rest of a refused head does not come in time, the first refusal is still the reason.
    var response = (refused?.refusal ?? refusal).response(id: request.id)
    if request.route != nil || refused != nil { worker.router.finish(&response, request) }
    secure(&response)
    write(response, to: request, keepAlive: false)
  }
}

/// Request content: pending content, and arrived content that stays unread.
extension Connection {
  /// Starts to read the content of `request`.
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

  /// Reads the content that has arrived. Returns the next step if it is complete, or nil if more bytes are needed.
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
    case .immediate(var response):
      router.finish(&response, request)
      return try respond(&response, to: request, bodyIsRead: true)
    case .deferred(let work): return .work(work, router, bodyIsRead: true)
    }
  }

  /// Refuses the request if the framing of content that has arrived is malformed.
  func checkArrivedBody(of request: Request) throws(CloseReason) {
    channel.loop.assertCurrent()
    _ = try lengthOfArrivedBody(of: request)
  }

  /// Skips content that has arrived completely. Returns false and skips nothing if a part is missing, malformed or
  /// beyond the limit.
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
