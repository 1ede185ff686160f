import Bytes
import EventLoop
import HTTP1
import HTTP2
import HTTPMessages
import HTTPTypes
import Memory

/// A stream of HTTP/2, which carries one exchange (RFC 9113 §8.1).
final class HTTP2Stream: @unchecked Sendable {
  // Sendable by confinement, like the connection.
  private let id: HTTP2StreamID
  private let streams: HTTP2Streams
  let connection: Connection
  private var request: Request?
  private var deadlines: StreamDeadlines

  private var isReceived = false
  private var receivedBytes = 0
  /// Whether the client may wait for 100 (Continue) before it sends content.
  private var awaitsContinue = false
  /// The content, if a handler may read it, or if no operation does.
  private var content: HTTP2Content?
  /// The content that is read before the response, until it is complete.
  private var reading: (limit: Int, reply: @Sendable ([UInt8]) -> Reply, received: [UInt8])?
  /// The part of `streams.contentBytes` for the request and its content.
  private var heldBytes = 0

  private var hasBegun = false
  private var hasResponded = false
  private var isClosed = false
  private var work: RequestWork?
  /// The charge for the work, and for the task that sends the content of its response in parts.
  private var workHold: MemoryHold?
  /// Whether work that was given up may still use the request.
  private var isRequestInUse = false
  private var chargedBody: [UInt8] = []
  private var copying: Task<Void, Never>?
  private var isFull = false
  /// Resumes that task when the stream has room for more content.
  private var room: (() -> Void)?

  init(_ id: HTTP2StreamID, of streams: HTTP2Streams) {
    (self.id, self.streams, connection) = (id, streams, streams.connection)
    request = connection.worker.lendRequest(to: connection)
    deadlines = StreamDeadlines(at: connection.now)
  }

  private var session: HTTP2Session { streams.session }
  /// Whether the stream waits for the rest of its request, or for the reader of its response.
  var awaitsPeer: Bool { !isReceived || hasResponded && (copying == nil || isFull) }

  /// Handles the head. A declared length, or else the following frames, show whether there is content.
  func receive(_ head: HTTP2ReceivedRequest) {
    guard let request else { return }
    if head.isOversized { return refuseHead(.headerSectionTooLarge, head) }
    do { try request.take(head) } catch { return refuseHead(error, head) }
    connection.identify(request)
    awaitsContinue = request.head.hasExpectation
    guard request.head.framing.declaredLength ?? 0 == 0 else { return begin(request) }
    noteHeld()
    sendContinue()
  }

  /// Lets the client send the content that it holds back. Returns false if it holds back none.
  @discardableResult
  func sendContinue() -> Bool {
    guard awaitsContinue, receivedBytes == 0 else { return false }
    awaitsContinue = false
    session.submitContinue(on: id)
    return true
  }

  func receive(_ bytes: Span<UInt8>) {
    receivedBytes += bytes.count
    if let request, !hasBegun { begin(request) }
    guard reading == nil else { return read(bytes) }
    openContent().append(bytes)
    noteHeld()
  }

  func receiveEnd() {
    isReceived = true
    content?.finish()
    guard let request else { return }
    if !hasBegun { begin(request) }
    guard let (_, reply, content) = reading.take() else { return }
    perform { () throws(CloseReason) in try follow(reply(content), to: request) }
  }

  private func begin(_ request: Request) {
    hasBegun = true
    perform { () throws(CloseReason) in try serve(request) }
  }

  /// Responds to a head that the codec refused. Other streams go on (RFC 9113 §8.1.1).
  private func refuseHead(_ error: RequestError, _ head: HTTP2ReceivedRequest) {
    guard let request else { return }
    request.keep(connection.worker.router.refusalFields, of: head)
    connection.identify(request)
    let refusal = ErrorResponse(error, showing: error.part(of: head.bytes.span.extracting(head.control.path)))
    if refusal.code == .headerFieldsTooLarge { streams.note(.headerSection) }
    refuse(refusal, request)
  }

  private func refuse(_ refusal: ErrorResponse, _ request: Request) {
    hasBegun = true
    perform { () throws(CloseReason) in try respond(refusal.response(id: request.id), to: request) }
  }

  /// Returns the request's content, which most requests do not need.
  private func openContent() -> HTTP2Content {
    if let content { return content }
    let content = HTTP2Content(of: self)
    if isReceived { content.finish() }
    self.content = content
    return content
  }

  private func read(_ bytes: Span<UInt8>) {
    session.consume(bytes.count, on: id)
    reading?.received.append(copying: bytes)
    guard let request, let limit = reading?.limit, reading?.received.count ?? 0 > limit else { return noteHeld() }
    reading = nil
    refuse(.contentTooLarge(limit), request)
  }

  /// The handler has read content, so the client gets more window.
  func contentWasRead(_ count: Int) {
    noteHeld()
    session.consume(count, on: id)
    connection.flushHTTP2()
  }

  private func forgetHead(of request: Request) {
    request.forgetHead()
    noteHeld()
  }

  /// Updates the connection's count of the memory that the request and its content hold while they wait.
  private func noteHeld() {
    let received = reading?.received.capacity ?? content?.capacity ?? 0
    let bytes = isClosed ? 0 : received + (request?.heldBytes ?? 0)
    streams.contentBytes += bytes - heldBytes
    heldBytes = bytes
  }

  private func perform(_ step: () throws(CloseReason) -> ExchangeStep) {
    guard let request else { return }
    do throws(CloseReason) {
      switch try step() {
      case .done, .turn: break
      case .work(let work): wait(for: work, of: request)
      case .stream(let response, let content): send(response, content, to: request)
      }
    } catch {
      // The client accepts no head of this size, or there is no memory for it.
      connection.recordGone(request)
      giveBack(request)
      session.reset(id, .internalError)
    }
  }

  private func wait(for work: DeferredWork, of request: Request) {
    let hold = MemoryHold(connection.worker.configuration.memory, for: request.client.holder)
    guard hold.resize(to: Connection.Cost.work, for: .waiting) else {
      connection.worker.observer.noticed(.memoryRefused(connection.peer.address))
      return refuse(.overMemory, request)
    }
    workHold = hold
    forgetHead(of: request)
    connection.state.workBegan()
    self.work = RequestWork(work, of: request, content != nil || !isReceived ? openContent() : nil, on: self)
  }

  private func send(_ response: Response, _ content: any ContentReader, to request: Request) {
    hasResponded = true
    forgetHead(of: request)
    copying = Task(executorPreference: connection.channel.loop) {
      guard let request = self.request else { return }
      do throws(CloseReason) {
        try await self.stream(response, content, to: request)
      } catch {
        if !self.isClosed { self.session.reset(self.id, .internalError) }
        self.giveBack(request)
      }
      (self.copying, self.workHold) = (nil, nil)
      self.connection.flushHTTP2()
    }
  }

  private func giveBack(_ request: Request) {
    self.request = nil
    noteHeld()
    if !isRequestInUse { connection.worker.takeBack(request) }
  }

  func look(at now: Deadline) {
    let sending = session.sending(on: id)
    let isCopying = copying != nil
    let waits = StreamDeadlines.Waits(
      isReceiving: !isReceived, wantsContent: !isReceived && content?.isEmpty ?? true, received: receivedBytes,
      isSending: sending.isWaiting, sent: sending.sent, isWorking: !sending.isWaiting && (isCopying || work != nil))
    // The client need not send the rest of content that no handler reads (RFC 9113 §8.1).
    guard !hasResponded || isCopying || sending.isWaiting || !waits.isReceiving else {
      return session.reset(id, .noError)
    }
    switch deadlines.look(at: waits, at: now, connection.worker.limits) {
    case .nothing: break
    case .content:
      streams.note(.slowContent)
      giveUp(.bodyTimeout)
    case .reader:
      streams.note(.slowReader)
      session.reset(id, .cancel)
    case .work: giveUp(.workTimeout)
    }
  }

  /// Ends the request, because the server's drain timeout has passed. A whole response stays for its reader.
  func abandon() { if !hasResponded || copying != nil { giveUp(.draining) } }

  /// Responds with an error, or resets the stream if the response has begun.
  private func giveUp(_ error: ErrorResponse) {
    guard !hasResponded, let request else { return session.reset(id, .cancel) }
    // The work ends without a response, because the stream has one.
    let late = work.take()
    isRequestInUse = late != nil
    content?.fail(.timedOut)
    reading = nil
    refuse(error, request)
    late?.cancel()
  }

  func closed() {
    isClosed = true
    noteHeld()
    if !chargedBody.isEmpty { connection.worker.configuration.memory.release(shared: chargedBody) }
    chargedBody = []
    if reading != nil || !hasBegun, let request {
      reading = nil
      connection.recordGone(request)
      giveBack(request)
    }
    content?.breakOff()
    work?.cancel()
    copying?.cancel()
    room.take()?()
  }

  func hasRoom() {
    isFull = false
    room.take()?()
  }
}

extension HTTP2Stream: ExchangeCarrier {
  /// Content in frames is never malformed.
  func checkArrivedContent(of request: Request) {}

  func readContent(of request: Request, atMost limit: Int, then reply: @escaping @Sendable ([UInt8]) -> Reply) {
    forgetHead(of: request)
    reading = (limit, reply, [])
    sendContinue()
  }

  func workEnded(_ work: RequestWork, _ response: consuming Response) {
    let isAwaited = self.work === work && !isClosed
    self.work = nil
    if !isAwaited || response.stream == nil { workHold = nil }
    guard isAwaited else {
      response.stream?.cancel()
      if !hasResponded { connection.recordGone(work.request) }
      return
    }
    let response = response
    perform { () throws(CloseReason) in try respond(response, to: work.request) }
    connection.flushHTTP2()
  }

  func keep(charged body: [UInt8]) { chargedBody = body }

  func send(_ response: Response, to request: Request) throws(CloseReason) -> (bytes: Int, goesOn: Bool) {
    hasResponded = true
    let hasContent = request.method != .head && response.hasContent && !response.body.isEmpty
    try submit(response, length: response.body.count, hasContent: hasContent, request)
    guard hasContent else { return (0, true) }
    session.send(response.body, on: id, isLast: true, isChargedElsewhere: !chargedBody.isEmpty)
    return (response.body.count, true)
  }

  func sendHead(of response: Response, _ framing: StreamFraming, to request: Request) throws(CloseReason) -> Bool {
    try submit(response, length: framing.contentLength, hasContent: !framing.isBodiless, request)
    // The first part may be long in coming.
    connection.flushHTTP2()
    return true
  }

  private func submit(_ response: Response, length: Int?, hasContent: Bool, _ request: Request) throws(CloseReason) {
    let worker = connection.worker
    do throws(HTTP2Error) {
      try session.submitResponse(status: response.status.code, on: id, hasContent: hasContent) { output in
        worker.appendHead(response, contentLength: length, id: request.id, keepAlive: true, to: &output)
      }
    } catch { throw .brokenOff }
    if response.end == .connection { streams.sendGoAway() }
  }

  func part(of content: any ContentReader) async throws(CloseReason) -> [UInt8]? {
    guard !isClosed else { throw .gone }
    let part: [UInt8]?
    do { part = try await content.read() } catch { throw .brokenOff }
    guard !isClosed else { throw .gone }
    return part
  }

  func send(_ part: [UInt8], _ framing: StreamFraming) async throws(CloseReason) {
    isFull = !session.send(part, on: id)
    // This may make room.
    connection.flushHTTP2()
    guard isFull, !isClosed else { return }
    await unsafe withUnsafeContinuation { continuation in
      room = { unsafe continuation.resume() }
    }
  }

  func endContent(_ framing: StreamFraming) { session.send([], on: id, isLast: true) }
  func conclude(_ request: Request, goesOn: Bool) { giveBack(request) }
}

extension Request {
  /// Takes the head of a request in HTTP/2, by the rules of HTTP/1.1, so that both versions refuse the same requests.
  func take(_ received: HTTP2ReceivedRequest) throws(RequestError) {
    let bytes = received.bytes.span
    try parser.take(received.control, in: bytes)
    for line in received.fields { try parser.take(name: line.name, value: line.value, in: bytes) }
    try parser.takeEnd()
    keep(bytes)
  }

  /// Keeps the lines of some fields of a head that the parser has refused.
  func keep(_ names: [StaticString], of received: HTTP2ReceivedRequest) {
    let bytes = received.bytes.span
    keepRefused(
      received.fields.compactMap { line in
        guard let name = names.first(where: { bytes.equalsIgnoringCase(line.name, $0) }) else { return nil }
        // The ranges count from the first byte of the slice.
        return (name, Array(received.bytes.dropFirst(line.value.lowerBound).prefix(line.value.count)))
      })
  }
}
