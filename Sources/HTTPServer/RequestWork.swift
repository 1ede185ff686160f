import EventLoop
import HTTPMessages

/// The work of a request: it waits for its turn, and then for its response, without a task of the server.
final class RequestWork: @unchecked Sendable {
  // Sendable by confinement, like the connection.
  let request: Request
  private let work: DeferredWork
  private var context: RequestContext
  private let carrier: any ExchangeCarrier
  private let began: Deadline
  /// The work, once its turn has come.
  private var running: (any CancellableWork)?
  private var isCancelled = false
  private var hasEnded = false

  init(_ work: DeferredWork, of request: Request, _ context: RequestContext, on carrier: any ExchangeCarrier) {
    (self.work, self.request, self.context, self.carrier) = (work, request, context, carrier)
    began = context.loop.now
  }

  /// Lines up for its turn.
  func lineUp() {
    carrier.connection.worker.lineUp(.work(self), .request, of: request.holder, since: request.arrival)
  }

  /// Begins the work when its turn comes, unless that is too late.
  func isDue(isTimely: Bool) {
    guard isTimely, !isCancelled else {
      return end(carrier.connection.withoutWork(work, for: request, isTimely: isTimely))
    }
    context.waited = Deadline.now.duration(since: began)
    switch work.form {
    case .call(let begin):
      let running = begin(context) { self.end($0) }
      if !hasEnded { self.running = running }
    case .task(let perform):
      // An unstructured task does not inherit the preference, and without it would run on the global pool.
      running = Task(executorPreference: context.loop) { [context] in self.end(await perform(context)) }
    }
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

/// The content of a request that has none, or whose content was read before.
final class NoContent: ContentReader {
  static let shared = NoContent()

  func read() async throws(ContentError) -> [UInt8]? { nil }
  func cancel() {}
}
