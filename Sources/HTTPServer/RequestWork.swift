import EventLoop
import HTTP1
import HTTPMessages

/// The work of a request: it waits for its turn, and then for its response, without a task of the server.
final class RequestWork: AwaitedTurn, @unchecked Sendable {
  // Sendable by confinement, like the connection.
  let request: Request
  private let work: DeferredWork
  private var context: RequestContext
  private let carrier: any ExchangeCarrier
  private let began: Deadline
  private var running: (any CancellableWork)?
  private var isCancelled = false
  private var hasEnded = false

  /// Lines the work up. `content` is nil without content, or if all of it has been read.
  init(_ work: DeferredWork, of request: Request, _ content: (any ContentReader)?, on carrier: any ExchangeCarrier) {
    (self.work, self.request, self.carrier) = (work, request, carrier)
    context = RequestContext(
      loop: request.loop, content: content, contentLength: content == nil ? 0 : request.head.framing.declaredLength)
    began = context.loop.now
    carrier.connection.worker.lineUp(self, .request, of: request.client.holder, since: request.arrival)
  }

  func isDue(isTimely: Bool) {
    guard isTimely else { return end(carrier.connection.shed(work, of: request)) }
    // A client that has gone meanwhile receives no response.
    guard !isCancelled else { return end(ErrorResponse.draining.response(id: request.id)) }
    context.waited = Deadline.now.duration(since: began)
    let running = work.begin(context) { self.end($0) }
    if !hasEnded { self.running = running }
  }

  func cancel() {
    context.loop.assertCurrent()
    isCancelled = true
    running?.cancel()
  }

  private func end(_ response: consuming Response) {
    context.loop.assertCurrent()
    hasEnded = true
    running = nil
    carrier.workEnded(self, response)
  }
}

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
