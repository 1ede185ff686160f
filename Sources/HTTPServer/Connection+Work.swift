import EventLoop
import HTTP1
import HTTPMessages

/// Requests with a response that has to wait, for example for an upstream.
///
/// Meanwhile the server does not read from the connection, but watches it. A client that closes its sending side counts
/// as gone, because only an attempt to write could show otherwise. The server then cancels the work. nginx, HAProxy and
/// Go's server also treat a half-closed connection as lost.
extension Connection: RequestWork.Owner {
  var connection: Connection { self }

  /// Starts the work of a request, and waits for its response without a task.
  func wait(for work: DeferredWork, _ router: Router, bodyIsRead: Bool) throws(CloseReason) {
    channel.loop.assertCurrent()
    guard let request = exchange.request else { return }
    let isRead = bodyIsRead || request.head.framing == .none
    let content = isRead ? nil : RequestContent(request.head, on: self)
    try prepareForWork(of: request, router)
    let context = RequestContext(
      loop: channel.loop, content: content ?? NoContent.shared, contentLength: content.map(\.declaredLength) ?? 0)
    let pending = RequestWork(work, of: request, context, for: self, router)
    activity = .work(pending, content)
    // The connection may have been interrupted while it prepared.
    if state.interruption != nil { pending.cancel() }
    pending.lineUp()
  }

  /// Responds after the work of a request.
  func ended(_ work: RequestWork, _ response: inout Response) {
    channel.loop.assertCurrent()
    guard case .work(let pending, let content) = activity, pending === work else { return }
    activity = .none
    do throws(CloseReason) {
      let step = try endWork(for: work.request, work.router, content, &response)
      step.isNothing ? serveReceived() : begin(step)
    } catch { begin(error) }
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
  /// connection's activity is cancelled.
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

  /// Creates the content of a request with this head.
  init(_ head: RequestHead, on connection: Connection) {
    self.connection = connection
    body = ContentDecoder(head.framing, limits: connection.worker.limits.http1)
    end = connection.now.advanced(by: connection.worker.limits.body)
    mustContinue = head.expectsContinue
    switch head.framing {
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
