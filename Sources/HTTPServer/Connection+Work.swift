import EventLoop
import HTTP1
import HTTPMessages

/// Requests of HTTP/1.1 with a response that has to wait, for example for an upstream.
///
/// Meanwhile the server does not read from the connection, but watches it. A client that closes its sending side counts
/// as gone, as in nginx, HAProxy and Go's server: only an attempt to write could show otherwise.
extension Connection {
  /// Starts the work of the present request, and waits for its response without a task.
  func wait(for work: DeferredWork) {
    guard let request else { return close() }
    let content = unreadContent == .none ? nil : HTTP1Content(request.head, on: self)
    request.forgetHead()
    transport.releaseBuffers()
    state.workBegan()
    guard account() else {
      state.workEnded()
      activity = .none
      return reject()
    }
    perform(state.watchBegan(at: now))
    let pending = RequestWork(work, of: request, content, on: self)
    activity = .work(pending, content)
    // The watch may have found an interruption at once.
    if state.interruption != nil { pending.cancel() }
  }

  func workEnded(_ work: RequestWork, _ response: consuming Response) {
    guard case .work(let pending, let content) = activity, pending === work else { return }
    activity = .none
    stopWatching()
    content?.cancel()
    transport.borrowBuffers()
    state.workEnded()
    if content?.isFinished ?? true {
      unreadContent = .none
    } else if content?.isBegun == true {
      // The rest of this content cannot be distinguished from the next request.
      response.end = .connection
    }
    do throws(CloseReason) {
      if let reason = state.interruption ?? content?.failure {
        response.stream?.cancel()
        if case .gone = reason { recordGone(work.request) }
        throw reason
      }
      let step = try respond(response, to: work.request)
      step.isDone ? serveReceived() : takeStep(step)
    } catch { end(error) }
  }

  /// Begins to watch for the end of the client, of the server, or of the time for work, which cancels the activity.
  func watchForInterruption() {
    let action = state.watchBegan(at: now)
    if case .wait = action {
      // Content may have been read since the last wait.
      transport.releaseBuffers()
      guard account() else { return perform(state.interrupt(.refused(.overMemory), at: now)) }
    }
    perform(action)
  }

  func stopWatching() {
    state.watchEnded()
    channel.unwatch()
  }

  /// Watches only for the peer's end. A pipelined request or bytes of TLS have arrived, which stay unread meanwhile.
  func watchForHangup(until deadline: Deadline) {
    guard account() else { return perform(state.interrupt(.refused(.overMemory), at: now)) }
    channel.watch(for: .hangup, until: deadline, self)
  }
}

/// The content of a request of HTTP/1.1. The server reads it from the connection only when the handler requests it.
final class HTTP1Content: ContentReader, @unchecked Sendable {
  // Sendable by confinement, like the connection.
  private let connection: Connection
  private var body: ContentDecoder
  private let end: Deadline
  private var mustContinue: Bool
  private var isCancelled = false
  private(set) var isBegun = false
  private(set) var isFinished: Bool
  /// The reason why reading failed, for the connection.
  private(set) var failure: CloseReason?

  init(_ head: RequestHead, on connection: Connection) {
    self.connection = connection
    body = ContentDecoder(head.framing, limits: connection.worker.limits.http1)
    end = connection.now.advanced(by: connection.worker.limits.body)
    mustContinue = head.expectsContinue
    isFinished = head.framing.declaredLength == 0
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
    // The connection waits for something else: an upload may outlive its response (RFC 9113 §8.1).
    guard !isCancelled else { throw .cancelled }
    isBegun = true
    // The read itself detects that the client has gone.
    connection.stopWatching()
    defer {
      if failure != nil, !isCancelled {
        // The handler ends soon. Until then the peer's actions are ignored.
        connection.channel.sleep(until: connection.state.cancelledWorkDeadline(at: connection.now), connection)
      } else if !isCancelled {
        connection.watchForInterruption()
      }
    }
    do throws(CloseReason) { return try await part() } catch {
      guard !isCancelled else { throw .cancelled }
      failure = error
      guard case .refused(let refusal) = error else { throw .broken("The client closed the connection.") }
      throw refusal.code == .requestTimeout ? .timedOut : .broken(refusal.detail)
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

  /// Waits for more input. First writes what the peer may wait for: earlier responses, and 100 (Continue).
  private func receiveMore() async throws(CloseReason) {
    let transport = connection.transport
    let deadline = min(connection.now.advanced(by: connection.worker.limits.bodyProgress), end)
    guard !transport.peerHasFinished else { throw .gone }
    transport.borrowBuffers()
    if mustContinue {
      mustContinue = false
      ResponseSerializer.appendContinue(to: &transport.output)
    }
    if transport.readWouldBlock {
      try await connection.flush()
      transport.releaseBuffers()
      guard connection.account() else { throw .refused(.overMemory) }
      switch await connection.channel.wait(for: .read, until: deadline) {
      case .ready: transport.borrowBuffers()
      case .timedOut: throw .refused(.bodyTimeout)
      case .cancelled: throw .refused(.draining)
      }
    } else {
      transport.compactInput()
    }
    try connection.receive()
  }
}
