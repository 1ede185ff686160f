import EventLoop
import HTTP1
import HTTPMessages

/// Requests whose response has to wait for something, for example for an upstream.
///
/// Meanwhile the server does not read from the connection, but it watches it. A client that ends its side counts as
/// gone, because only an attempt to write could show otherwise. The server then cancels the work. nginx, HAProxy and
/// Go's server also treat a half-closed connection as lost.
extension Connection {
  /// Does the work behind a request. Returns the response, and whether the request's content was read to its end.
  func perform(
    _ work: @Sendable (RequestContext) async -> Response, for request: Request, router: Router, bodyIsRead: Bool
  ) async throws(CloseReason) -> (Response, bodyIsRead: Bool) {
    channel.loop.assertCurrent()
    // The responses to earlier requests must not wait for this one.
    try await flush()
    let content = RequestContent(request.head, isRead: bodyIsRead, on: self)
    // The handler has taken along what it needs.
    request.forgetHead(except: router.lastingField)
    transport.releaseBuffers()
    state.workBegan()
    defer { state.workEnded() }
    guard account() else {
      content.cancel()
      turnAway()
      throw .gone
    }
    watchForInterruption()
    var response = await work(
      RequestContext(loop: channel.loop, content: content, contentLength: content.declaredLength))
    stopWatching()
    content.cancel()
    transport.borrowBuffers()
    // What has been taken of it cannot be told any more from the request behind it.
    if content.isBegun, !content.isFinished { response.closesConnection = true }
    guard let ending = state.interruption ?? content.failure else { return (response, content.isFinished) }
    response.stream?.cancel()
    guard case .gone = ending else { throw ending }
    record(request, status: Self.clientClosedRequest, bytes: 0)
    throw ending
  }

  /// The status in logs for a response that the client did not wait for. nginx uses the same number.
  static let clientClosedRequest = 499

  /// From now on the client's going away, the server's, or the end of the time for work cancels the connection's task.
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

  /// Bytes have arrived, a pipelined request or bytes of TLS: they wait. Only the end is of interest now.
  func watchForHangup(until deadline: Deadline) {
    channel.loop.assertCurrent()
    guard account() else { return perform(state.interrupt(.refused(.overMemory), at: now)) }
    channel.watch(for: .hangup, until: deadline, self)
  }

  /// A handler that was cancelled ends soon. Until then nothing that the peer does is of interest.
  func waitForCancelledWork() {
    channel.sleep(until: state.cancelledWorkDeadline(at: now), self)
  }
}

/// The content of a request. It is read from the connection only when the handler asks for it.
final class RequestContent: ContentReader, @unchecked Sendable {
  // Sendable by confinement, as the connection is.
  private let connection: Connection
  private var body: MessageBody
  private let end: Deadline
  private var mustContinue: Bool
  private var isCancelled = false

  /// Some of it has been asked for.
  private(set) var isBegun = false
  /// The whole has been read.
  private(set) var isFinished: Bool
  /// What went wrong, for the connection.
  private(set) var failure: CloseReason?
  /// The length that the client has said; 0 without content, nil if it comes in chunks.
  let declaredLength: Int?

  /// The content of a request with this head; none if that was read before.
  init(_ head: RequestHead, isRead: Bool, on connection: Connection) {
    self.connection = connection
    body = MessageBody(head.framing, limits: connection.worker.limits.http1)
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
    // The work is over, and the connection waits for something else: an upload may outlive its response (RFC 9113 §8.1).
    guard !isCancelled else { throw .cancelled }
    isBegun = true
    // The read itself notices when the client has gone.
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
      let (count, event) = try body.next(bytes.span.extracting(start...))
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
    case .gone, .finished, .brokenOff, .failedTLS: self = .broken("The client has gone away.")
    }
  }
}
