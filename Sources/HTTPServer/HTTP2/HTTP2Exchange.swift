import EventLoop
import HTTP1
import HTTP2
import HTTPMessages
import HTTPTypes
import Memory

/// One request on an HTTP/2 stream, and its response.
final class HTTP2Exchange: @unchecked Sendable {
  // Sendable by confinement, like the connection.
  let stream: HTTP2StreamID
  /// The connection, which forgets this exchange at the end of the stream.
  private let owner: HTTP2Connection
  /// The request, until its response is complete.
  private var request: Request?
  private let router: Router
  /// The request's content, if there is any, or if a handler may read it.
  private var content: HTTP2Content?
  /// Whether the request is complete.
  private(set) var isReceived = false
  private var deadlines: StreamDeadlines
  private var hasResponded = false
  /// Whether a task copies the content of the response from its reader.
  private var isCopying = false
  private var task: Task<Void, Never>?
  private var room: Waiter?
  /// Whether the stream has no room for more content.
  private var isFull = false
  private var hasBegun = false
  private var isClosed = false
  /// The charge for the work of the request, while it runs.
  private var workHold: MemoryHold?
  /// The response body that is charged as a shared array.
  private var sharedBody: [UInt8] = []
  /// The part of `owner.contentBytes` for this exchange, without its content.
  private var heldBytes = 0
  /// The length that the client declared for the content.
  private var declaredLength: Int?

  private struct Waiter {
    let resume: () -> Void
  }

  init(_ stream: HTTP2StreamID, of owner: HTTP2Connection) {
    self.stream = stream
    self.owner = owner
    router = owner.connection.worker.router
    request = owner.borrowRequest()
    deadlines = StreamDeadlines(at: owner.connection.now)
  }

  // MARK: The request

  /// Handles the head. The following frames show whether there is content; a declared length already shows it.
  func begin(_ received: HTTP2ReceivedRequest) {
    owner.connection.channel.loop.assertCurrent()
    guard let request else { return }
    do {
      try request.take(received)
    } catch {
      return refuseHead(error, received)
    }
    owner.connection.identify(request)
    if case .fixed(let length) = request.head.framing { declaredLength = length }
    if declaredLength ?? 0 > 0 { respond() } else { noteHeld() }
  }

  /// Updates the connection's count of the memory that the exchange holds while it waits.
  private func noteHeld() {
    let bytes = isClosed ? 0 : request?.heldBytes ?? 0
    owner.contentBytes += bytes - heldBytes
    heldBytes = bytes
  }

  func received(_ bytes: Span<UInt8>) {
    owner.connection.channel.loop.assertCurrent()
    owner.contentBytes += bytes.count
    openContent().append(bytes)
    if !hasBegun { respond() }
  }

  func receivedEnd() {
    owner.connection.channel.loop.assertCurrent()
    isReceived = true
    content?.finish()
    if !hasBegun {
      declaredLength = 0
      respond()
    }
  }

  /// Returns the request's content. Most requests have none, and their responses do not need it.
  private func openContent() -> HTTP2Content {
    if let content { return content }
    let content = HTTP2Content(stream, owner.session)
    content.wasRead = { [weak owner] count in owner?.contentBytes -= count }
    content.flush = { [weak owner] in owner?.flush() }
    if isReceived { content.finish() }
    self.content = content
    return content
  }

  /// Responds to a head that the codec refused. Other streams of the connection go on (RFC 9113 §8.1.1).
  func refuseHead(_ error: RequestError, _ received: HTTP2ReceivedRequest) {
    guard let request else { return }
    request.keep(router.lastingField, of: received)
    owner.connection.identify(request)
    let refusal = ErrorResponse(error, showing: error.part(of: received.bytes.span.extracting(received.path)))
    if refusal.code == .headerFieldsTooLarge { owner.note(.headerSection) }
    hasBegun = true
    finish(refusal.response(id: request.id), to: request)
  }

  // MARK: Deadlines

  /// Ends what has taken too long: the client's content, its reading, or the handler's work.
  func look(at now: Deadline) {
    owner.connection.channel.loop.assertCurrent()
    let sending = owner.session.sending(on: stream)
    let waits = StreamDeadlines.Waits(
      isReceiving: !isReceived, wantsContent: !isReceived && content?.isEmpty ?? true, received: content?.count ?? 0,
      isSending: sending.isWaiting, sent: sending.sent,
      isWorking: !sending.isWaiting && (isCopying || task != nil && !hasResponded))
    // The client need not send the rest of content that no handler reads (RFC 9113 §8.1).
    guard !hasResponded || isCopying || sending.isWaiting || !waits.isReceiving else {
      return owner.session.reset(stream, .noError)
    }
    switch deadlines.look(at: waits, at: now, owner.connection.worker.limits) {
    case .nothing: break
    case .content:
      owner.note(.slowContent)
      giveUp(.bodyTimeout)
    case .reader:
      owner.note(.slowReader)
      owner.session.reset(stream, .cancel)
    case .work: giveUp(.workTimeout)
    }
  }

  /// Responds with an error instead of the work, or resets the stream if the response has begun.
  private func giveUp(_ error: ErrorResponse) {
    guard !hasResponded, let request else { return owner.session.reset(stream, .cancel) }
    // The task ends without a response, because the stream has one. Its handler may still use the request.
    task?.cancel()
    content?.fail(.timedOut)
    hasBegun = true
    finish(error.response(id: request.id), to: request)
  }

  private func respond() {
    guard let request else { return }
    hasBegun = true
    let connection = owner.connection
    do {
      let operation = try router.operation(for: request)
      switch operation.action {
      case .respond(let respond): finish(respond(request), to: request)
      case .read(let limit, let judge):
        let reply: @Sendable ([UInt8]) -> Reply
        switch judge(request) {
        case .immediate(let response): return finish(response, to: request)
        case .read(let next): reply = next
        }
        // The task that reads takes as much memory as one that waits.
        guard mayWait() else { return finish(ErrorResponse.overMemory.response(id: request.id), to: request) }
        let context = context
        start(request) { () async throws(ErrorResponse) in
          let content = try await self.read(limit)
          // The stream may have closed while its content was read. Then the client waits for no response.
          guard !self.isClosed else { throw .draining }
          switch reply(content) {
          case .immediate(let response): return response
          case .deferred(let work): return await connection.inTurn(work, for: request, context)
          }
        }
      case .reply(let reply):
        if operation.isRefusedEarly, let early = connection.earlyRefusal(of: request) {
          return finish(early, to: request)
        }
        switch reply(request) {
        case .immediate(let response): finish(response, to: request)
        case .deferred(let work):
          if let response = connection.responseInstead(of: work, for: request) { return finish(response, to: request) }
          guard mayWait() else { return finish(ErrorResponse.overMemory.response(id: request.id), to: request) }
          connection.state.streamBeganWork()
          let context = context
          start(request) { () async throws(ErrorResponse) in await connection.inTurn(work, for: request, context) }
        }
      }
    } catch {
      finish(error.response(id: request.id), to: request)
    }
  }

  private var context: RequestContext {
    RequestContext(loop: owner.connection.channel.loop, content: openContent(), contentLength: declaredLength)
  }

  /// Charges the work of the request. Returns false if there is not enough memory.
  private func mayWait() -> Bool {
    let hold = MemoryHold(owner.connection.worker.memory, for: request?.holder)
    let isGranted = hold.resize(to: Connection.Cost.work, for: .waiting)
    if isGranted { workHold = hold } else { owner.noteRefusal() }
    return isGranted
  }

  private func read(_ limit: Int) async throws(ErrorResponse) -> [UInt8] {
    var received: [UInt8] = []
    // Content that was read from the stream's window is held here until the end.
    defer { owner.contentBytes -= received.count }
    let content = openContent()
    do throws(ContentError) {
      while let part = try await content.read() {
        guard received.count + part.count <= limit else { throw .tooLarge(limit: limit) }
        received.append(contentsOf: part)
        owner.contentBytes += part.count
      }
      return received
    } catch {
      if case .tooLarge = error { throw .contentTooLarge(limit) }
      throw .bodyTimeout
    }
  }

  /// Runs work that has to wait in a task of the loop.
  private func start(_ request: Request, _ work: @escaping () async throws(ErrorResponse) -> Response) {
    // The handler has copied what it needs.
    request.forgetHead(except: router.lastingField)
    noteHeld()
    let work = Work(request: request, body: work)
    task = Task(executorPreference: owner.connection.channel.loop) {
      let response: Response
      do throws(ErrorResponse) {
        response = try await work.body()
      } catch {
        response = error.response(id: work.request.id)
      }
      guard !self.isClosed, !self.hasResponded else {
        response.stream?.cancel()
        if !self.hasResponded {
          self.owner.connection.record(work.request, status: Connection.clientClosedRequest, bytes: 0)
        }
        return
      }
      self.task = nil
      self.finish(response, to: work.request)
      self.owner.flush()
    }
  }

  private struct Work: @unchecked Sendable {
    // Sendable: run by the one task that receives it, on the loop that made it.
    let request: Request
    let body: () async throws(ErrorResponse) -> Response
  }

  // MARK: The response

  private func finish(_ response: consuming Response, to request: Request) {
    owner.connection.channel.loop.assertCurrent()
    router.finish(&response, request)
    respond(&response, to: request)
  }

  private func respond(_ response: inout Response, to request: Request) {
    workHold = nil
    hasResponded = true
    let isHead = request.method == .head
    makeAffordable(&response, to: request, isHead: isHead)
    owner.connection.secure(&response)
    let length = response.stream == nil ? response.body.count : response.streamLength
    let hasContent = !isHead && response.hasContent && (response.stream != nil || !response.body.isEmpty)
    let connection = owner.connection
    do throws(HTTP2Error) {
      try owner.session.submitResponse(status: response.status.code, on: stream, hasContent: hasContent) { output in
        connection.worker.appendHead(
          response, contentLength: length, isChunked: false, id: request.id, version: .http11,
          keepAlive: true, to: &output)
      }
    } catch {
      response.stream?.cancel()
      return owner.session.reset(stream, .internalError)
    }
    if response.end == .connection { owner.sendGoAway() }
    if hasContent, let reader = response.stream { return start(copying: reader, status: response.status.code) }
    response.stream?.cancel()
    if hasContent {
      owner.session.send(response.body, on: stream, isLast: true, isChargedElsewhere: !sharedBody.isEmpty)
    }
    connection.record(request, response, bytes: hasContent ? response.body.count : 0)
    giveBack(request)
  }

  /// Returns the request, unless a handler that was given up may still use it.
  private func giveBack(_ request: Request) {
    self.request = nil
    noteHeld()
    if task == nil { owner.connection.worker.takeBack(request) }
  }

  private func start(copying reader: any ContentReader, status: Int) {
    request?.forgetHead(except: nil)
    noteHeld()
    isCopying = true
    task = Task(executorPreference: owner.connection.channel.loop) {
      await self.copy(reader, status: status)
      self.isCopying = false
    }
  }

  /// Replaces a response by a refusal if there is not enough memory to hold it for a slow reader.
  private func makeAffordable(_ response: inout Response, to request: Request, isHead: Bool) {
    let memory = owner.connection.worker.memory
    guard !response.body.isEmpty, !isHead, response.hasContent, response.stream == nil else { return }
    // The session charges a shorter one.
    guard response.body.count >= Connection.leastShared else { return }
    guard memory.charge(shared: response.body, to: request.holder) else {
      owner.noteRefusal()
      response = ErrorResponse.overMemory.response(id: request.id)
      return router.finish(&response, request)
    }
    sharedBody = response.body
  }

  private func releaseBody() {
    noteHeld()
    guard !sharedBody.isEmpty else { return }
    owner.connection.worker.memory.release(shared: sharedBody)
    sharedBody = []
  }

  private func copy(_ reader: any ContentReader, status: Int) async {
    var count = 0
    do throws(ContentError) {
      while !isClosed, let part = try await reader.read(), !isClosed {
        count += part.count
        isFull = !owner.session.send(part, on: stream)
        // This may make room.
        owner.flush()
        if isFull { await waitForRoom() }
      }
      if isClosed { reader.cancel() } else { owner.session.send([], on: stream, isLast: true) }
    } catch {
      reader.cancel()
      if !isClosed { owner.session.reset(stream, .internalError) }
    }
    if let request {
      owner.connection.record(request, status: status, bytes: count)
      task = nil
      giveBack(request)
    }
    owner.flush()
  }

  private func waitForRoom() async {
    guard !isClosed else { return }
    await unsafe withUnsafeContinuation { continuation in
      room = Waiter { unsafe continuation.resume() }
    }
  }

  func hasRoom() {
    owner.connection.channel.loop.assertCurrent()
    isFull = false
    room.take()?.resume()
  }

  /// Handles the end of the stream.
  func closed() {
    owner.connection.channel.loop.assertCurrent()
    isClosed = true
    releaseBody()
    if let content {
      owner.contentBytes -= content.discardHeld()
      content.fail(.broken("The client closed the connection."))
    }
    task?.cancel()
    room.take()?.resume()
    owner.forget(self)
  }
}
