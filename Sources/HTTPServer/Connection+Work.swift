import EventLoop
import HTTP1
import HTTPMessages

/// Requests with a response that has to wait, for example for an upstream.
///
/// Meanwhile the server does not read from the connection, but watches it. A client that closes its sending side counts
/// as gone, because only an attempt to write could show otherwise. The server then cancels the work. nginx, HAProxy and
/// Go's server also treat a half-closed connection as lost.
extension Connection {
  /// Does the work of a request and responds, after earlier responses were sent. Returns the next step.
  @inline(never)
  func perform(
    _ work: DeferredWork, for request: Request, router: Router, bodyIsRead: Bool
  ) async throws(CloseReason) -> PendingStep {
    channel.loop.assertCurrent()
    let content = try beginWork(for: request, router, bodyIsRead: bodyIsRead)
    let context = RequestContext(loop: channel.loop, content: content, contentLength: content.declaredLength)
    var response = await inTurn(work, for: request, context)
    return try endWork(for: request, router, content, &response)
  }

  /// Starts work that needs no task. Returns false if it needs one: the request has unread content, or the socket does not
  /// accept earlier responses.
  func start(
    _ work: DeferredWork, _ begin: @escaping DeferredWork.Begin, _ router: Router, bodyIsRead: Bool
  ) throws(CloseReason) -> Bool {
    channel.loop.assertCurrent()
    guard let request = exchange.request, bodyIsRead || request.head.framing == .none else { return false }
    do throws(CloseReason) {
      guard try transport.flushAtOnce() else { return false }
    } catch {
      record(request, status: Self.clientClosedRequest, bytes: 0)
      throw error
    }
    try prepareForWork(of: request, router)
    let pending = ConnectionWork(work, begin, of: request, router, on: self)
    self.work = pending
    // The connection may have been interrupted while it prepared.
    if state.interruption != nil { pending.cancel() }
    worker.lineUp(.work(pending), .request, of: request.holder, since: request.arrival)
    return true
  }

  /// Responds after work without a task.
  func ended(_ work: ConnectionWork, _ response: inout Response) {
    channel.loop.assertCurrent()
    self.work = nil
    do throws(CloseReason) {
      let step = try endWork(for: work.request, work.router, nil, &response)
      step.isNothing ? serveReceived() : begin(step)
    } catch { begin(error) }
  }

  /// Prepares the connection for a wait. Not inlined, like ``endWork(for:_:_:_:)``: the temporaries of an inlined function
  /// would stay in the task's frame, so that each waiting request had memory for them.
  @inline(never)
  private func beginWork(
    for request: Request, _ router: Router, bodyIsRead: Bool
  ) throws(CloseReason) -> RequestContent {
    let content = RequestContent(request.head, isRead: bodyIsRead, on: self)
    do throws(CloseReason) {
      try prepareForWork(of: request, router)
    } catch {
      content.cancel()
      throw error
    }
    return content
  }

  private func prepareForWork(of request: Request, _ router: Router) throws(CloseReason) {
    // The handler has copied what it needs.
    request.forgetHead(except: router.lastingField)
    transport.releaseBuffers()
    state.workBegan()
    guard account() else {
      state.workEnded()
      turnAway()
      throw .gone
    }
    watchForInterruption()
  }

  /// - Parameter content: The request's content; nil if all of it has been read.
  @inline(never)
  private func endWork(
    for request: Request, _ router: Router, _ content: RequestContent?, _ response: inout Response
  ) throws(CloseReason) -> PendingStep {
    stopWatching()
    content?.cancel()
    transport.borrowBuffers()
    state.workEnded()
    let isFinished = content?.isFinished ?? true
    // The rest of content that was read in part cannot be distinguished from the next request.
    if let content, content.isBegun, !isFinished { response.end = .connection }
    guard let ending = state.interruption ?? content?.failure else {
      router.finish(&response, request)
      return try respond(&response, to: request, bodyIsRead: isFinished)
    }
    response.stream?.cancel()
    guard case .gone = ending else { throw ending }
    record(request, status: Self.clientClosedRequest, bytes: 0)
    throw ending
  }

  /// The status in logs for a response that the client did not wait for. nginx uses the same number.
  static let clientClosedRequest = 499

  /// Starts to watch the connection. If the client goes away, the server shuts down, or the time for work is over, the
  /// connection's task is cancelled.
  func watchForInterruption() {
    channel.loop.assertCurrent()
    let action = state.watchBegan(at: now)
    if case .wait = action {
      // Content may have been read since the last wait.
      transport.releaseBuffers()
      guard account() else { return perform(state.interrupt(.refused(.overMemory), at: now)) }
    }
    perform(action)
  }

  func stopWatching() {
    channel.loop.assertCurrent()
    state.watchEnded()
    channel.unwatch()
  }

  /// Watches only for the peer's end. Bytes have arrived, a pipelined request or bytes of TLS, which stay unread
  /// meanwhile.
  func watchForHangup(until deadline: Deadline) {
    channel.loop.assertCurrent()
    guard account() else { return perform(state.interrupt(.refused(.overMemory), at: now)) }
    channel.watch(for: .hangup, until: deadline, self)
  }

  /// Waits for a cancelled handler, which ends soon. Until then the peer's actions are ignored.
  func waitForCancelledWork() {
    channel.sleep(until: state.cancelledWorkDeadline(at: now), self)
  }
}

/// The work of a request that needs no task while it waits.
final class ConnectionWork: @unchecked Sendable {
  // Sendable by confinement, like the connection.
  let request: Request
  let router: Router
  private let work: DeferredWork
  private let begin: DeferredWork.Begin
  private let connection: Connection
  private let began: Deadline
  /// The work, once its turn has come.
  private var running: (any CancellableWork)?
  private var isCancelled = false
  private var hasEnded = false

  init(
    _ work: DeferredWork, _ begin: @escaping DeferredWork.Begin, of request: Request, _ router: Router,
    on connection: Connection
  ) {
    (self.work, self.begin, self.request, self.router, self.connection) = (work, begin, request, router, connection)
    began = connection.now
  }

  /// Begins the work when its turn comes, unless that is too late.
  func isDue(isTimely: Bool) {
    guard isTimely, !isCancelled else {
      return end(connection.withoutWork(work, for: request, isTimely: isTimely))
    }
    var context = RequestContext(loop: connection.channel.loop, content: NoContent.shared, contentLength: 0)
    context.waited = Deadline.now.duration(since: began)
    let running = begin(context) { self.end($0) }
    if !hasEnded { self.running = running }
  }

  func cancel() {
    connection.channel.loop.assertCurrent()
    isCancelled = true
    running?.cancel()
  }

  private func end(_ response: consuming Response) {
    connection.channel.loop.assertCurrent()
    hasEnded = true
    running = nil
    connection.ended(self, &response)
  }
}

/// The content of a request that has none, or whose content was read before.
private final class NoContent: ContentReader {
  static let shared = NoContent()

  func read() async throws(ContentError) -> [UInt8]? { nil }
  func cancel() {}
}

/// The content of a request. The server reads it from the connection only when the handler requests it.
final class RequestContent: ContentReader, @unchecked Sendable {
  // Sendable by confinement, like the connection.
  private let connection: Connection
  private var body: ContentDecoder
  private let end: Deadline
  private var mustContinue: Bool
  private var isCancelled = false

  /// Whether the handler has requested content.
  private(set) var isBegun = false
  /// Whether all content has been read.
  private(set) var isFinished: Bool
  /// The reason why reading failed, for the connection.
  private(set) var failure: CloseReason?
  /// The length that the client declared: 0 without content, nil if the content is chunked.
  let declaredLength: Int?

  /// Creates the content of a request with this head. It is empty if the content was read before.
  init(_ head: RequestHead, isRead: Bool, on connection: Connection) {
    self.connection = connection
    body = ContentDecoder(head.framing, limits: connection.worker.limits.http1)
    end = connection.now.advanced(by: connection.worker.limits.body)
    mustContinue = head.expectsContinue
    switch isRead ? .none : head.framing {
    case .none: (isFinished, declaredLength) = (true, 0)
    case .fixed(let length): (isFinished, declaredLength) = (length == 0, length)
    case .chunked: (isFinished, declaredLength) = (false, nil)
    }
  }

  func cancel() {
    connection.channel.loop.assertCurrent()
    guard !isFinished, !isCancelled else { return }
    isCancelled = true
    connection.channel.cancel()
  }

  func read() async throws(ContentError) -> [UInt8]? {
    connection.channel.loop.assertCurrent()
    guard !isFinished else { return nil }
    // The work is over, and the connection waits for something else: an upload may outlive its response (RFC 9113
    // §8.1).
    guard !isCancelled else { throw .cancelled }
    isBegun = true
    // The read itself detects that the client has gone.
    connection.stopWatching()
    defer {
      if !isCancelled { failure == nil ? connection.watchForInterruption() : connection.waitForCancelledWork() }
    }
    do throws(CloseReason) {
      return try await part()
    } catch {
      guard !isCancelled else { throw .cancelled }
      failure = error
      throw ContentError(error)
    }
  }

  private func part() async throws(CloseReason) -> [UInt8]? {
    while true {
      guard !isCancelled else { throw .gone }
      let bytes = connection.transport.input
      let start = connection.transport.consumed
      let (count, event) = try body.next(in: bytes.span.extracting(start...))
      connection.transport.consumed += count
      switch event {
      case .data(let range): return Array(bytes[start + range.lowerBound..<start + range.upperBound])
      case .needMore: try await receiveMore()
      case .end:
        isFinished = true
        return nil
      }
    }
  }

  private func receiveMore() async throws(CloseReason) {
    if mustContinue {
      mustContinue = false
      ResponseSerializer.appendContinue(to: &connection.transport.output)
      try await connection.flush()
    }
    connection.transport.borrowBuffers()
    try await connection.receiveMore(
      until: min(connection.now.advanced(by: connection.worker.limits.bodyProgress), end))
  }
}

extension ContentError {
  fileprivate init(_ ending: CloseReason) {
    switch ending {
    case .refused(let refusal): self = refusal.code == .requestTimeout ? .timedOut : .broken(refusal.detail)
    case .gone, .finished, .brokenOff, .failedTLS: self = .broken("The client closed the connection.")
    }
  }
}
