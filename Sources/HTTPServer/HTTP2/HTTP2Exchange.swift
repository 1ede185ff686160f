import Bytes
import EventLoop
import HTTP1
import HTTP2
import HTTPMessages
import HTTPTypes
import Memory

/// One request on an HTTP/2 stream, and its response.
final class HTTP2Exchange: RequestWork.Owner, @unchecked Sendable {
  // Sendable by confinement, like the connection.
  let stream: HTTP2StreamID
  /// The connection, which forgets this exchange at the end of the stream.
  private let owner: HTTP2Connection
  /// The request, until its response is complete.
  private var request: Request?
  private let router: Router
  /// The request's content, if a handler may read it, or if no operation does.
  private var content: HTTP2Content?
  /// The content that is read before the response, until it is complete.
  private var reading: (limit: Int, reply: @Sendable ([UInt8]) -> Reply, received: [UInt8])?
  /// The bytes of content that have arrived.
  private var receivedBytes = 0
  /// Whether the request is complete.
  private(set) var isReceived = false
  private var deadlines: StreamDeadlines
  private var hasResponded = false
  /// Whether a task copies the content of the response from its reader.
  private var isCopying = false
  private var copying: Task<Void, Never>?
  /// The work of the request, until its response.
  private var work: RequestWork?
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

  var connection: Connection { owner.connection }

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
    receivedBytes += bytes.count
    if !hasBegun { respond() }
    guard reading != nil else { return openContent().append(bytes) }
    read(bytes)
  }

  func receivedEnd() {
    owner.connection.channel.loop.assertCurrent()
    isReceived = true
    content?.finish()
    if !hasBegun {
      declaredLength = 0
      respond()
    }
    if let reading = reading.take(), let request { reply(to: request, reading.received, reading.reply) }
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
      isReceiving: !isReceived, wantsContent: !isReceived && content?.isEmpty ?? true, received: receivedBytes,
      isSending: sending.isWaiting, sent: sending.sent,
      isWorking: !sending.isWaiting && (isCopying || work != nil))
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
    // The work ends without a response, because the stream has one.
    let late = work.take()
    content?.fail(.timedOut)
    hasBegun = true
    dropReceived()
    finish(error.response(id: request.id), to: request, isInUse: late != nil)
    late?.cancel()
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
        forgetHead(of: request)
        reading = (limit, reply, [])
      case .reply(let reply):
        if operation.isRefusedEarly, let early = connection.earlyRefusal(of: request) {
          return finish(early, to: request)
        }
        switch reply(request) {
        case .immediate(let response): finish(response, to: request)
        case .deferred(let work):
          if let response = connection.responseInstead(of: work, for: request) { return finish(response, to: request) }
          wait(for: work, of: request)
        }
      }
    } catch {
      finish(error.response(id: request.id), to: request)
    }
  }

  private var context: RequestContext {
    let hasContent = content != nil || !isReceived
    return RequestContext(
      loop: connection.channel.loop, content: hasContent ? openContent() : NoContent.shared,
      contentLength: hasContent ? declaredLength : 0)
  }

  /// Charges the work of the request. Returns false if there is not enough memory.
  private func mayWait() -> Bool {
    let hold = MemoryHold(owner.connection.worker.memory, for: request?.holder)
    let isGranted = hold.resize(to: Connection.Cost.work, for: .waiting)
    if isGranted { workHold = hold } else { owner.noteRefusal() }
    return isGranted
  }

  /// Takes content that is read before the response.
  private func read(_ bytes: Span<UInt8>) {
    owner.session.consume(bytes.count, on: stream)
    reading?.received.append(copying: bytes)
    guard let request, let limit = reading?.limit, reading?.received.count ?? 0 > limit else { return }
    dropReceived()
    finish(ErrorResponse.contentTooLarge(limit).response(id: request.id), to: request)
  }

  private func dropReceived() {
    owner.contentBytes -= reading?.received.count ?? 0
    reading = nil
  }

  private func reply(to request: Request, _ content: [UInt8], _ reply: @Sendable ([UInt8]) -> Reply) {
    owner.contentBytes -= content.count
    switch reply(content) {
    case .immediate(let response): finish(response, to: request)
    case .deferred(let work): wait(for: work, of: request)
    }
  }

  /// Starts the work of the request.
  private func wait(for work: DeferredWork, of request: Request) {
    guard mayWait() else { return finish(ErrorResponse.overMemory.response(id: request.id), to: request) }
    forgetHead(of: request)
    connection.state.streamBeganWork()
    let work = RequestWork(work, of: request, context, for: self, router)
    self.work = work
    work.lineUp()
  }

  func ended(_ work: RequestWork, _ response: inout Response) {
    connection.channel.loop.assertCurrent()
    guard self.work === work, !isClosed else {
      response.stream?.cancel()
      if !hasResponded { connection.record(work.request, status: Connection.clientClosedRequest, bytes: 0) }
      return
    }
    self.work = nil
    finish(response, to: work.request)
    owner.flush()
  }

  /// Drops the head before a wait. The handler has copied what it needs.
  private func forgetHead(of request: Request) {
    request.forgetHead(except: router.lastingField)
    noteHeld()
  }

  // MARK: The response

  /// - Parameter isInUse: Whether work that was given up may still use the request.
  private func finish(_ response: consuming Response, to request: Request, isInUse: Bool = false) {
    owner.connection.channel.loop.assertCurrent()
    router.finish(&response, request)
    respond(&response, to: request, isInUse: isInUse)
  }

  private func respond(_ response: inout Response, to request: Request, isInUse: Bool) {
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
    giveBack(request, isInUse: isInUse)
  }

  private func giveBack(_ request: Request, isInUse: Bool = false) {
    self.request = nil
    noteHeld()
    if !isInUse { owner.connection.worker.takeBack(request) }
  }

  private func start(copying reader: any ContentReader, status: Int) {
    request?.forgetHead(except: nil)
    noteHeld()
    isCopying = true
    copying = Task(executorPreference: owner.connection.channel.loop) {
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
    if reading != nil, let request {
      dropReceived()
      connection.record(request, status: Connection.clientClosedRequest, bytes: 0)
      giveBack(request)
    }
    if let content {
      owner.contentBytes -= content.discardHeld()
      content.fail(.broken("The client closed the connection."))
    }
    work?.cancel()
    copying?.cancel()
    room.take()?.resume()
    owner.forget(self)
  }
}
