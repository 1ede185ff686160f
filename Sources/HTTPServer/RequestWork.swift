import EventLoop
import HTTPMessages

/// The work of a request: it waits for its turn, and then for its response, without a task of the server.
final class RequestWork: @unchecked Sendable {
  // Sendable by confinement, like the connection.
  let request: Request
  let router: Router
  private let work: DeferredWork
  private var context: RequestContext
  private let owner: any Owner
  private let began: Deadline
  /// The work, once its turn has come.
  private var running: (any CancellableWork)?
  private var isCancelled = false
  private var hasEnded = false

  /// What responds to the request.
  protocol Owner: AnyObject {
    var connection: Connection { get }
    /// Responds after the work, once.
    func ended(_ work: RequestWork, _ response: inout Response)
  }

  init(
    _ work: DeferredWork, of request: Request, _ context: RequestContext, for owner: any Owner, _ router: Router
  ) {
    (self.work, self.request, self.context, self.owner, self.router) = (work, request, context, owner, router)
    began = context.loop.now
  }

  /// Lines up for its turn.
  func lineUp() {
    owner.connection.worker.lineUp(.work(self), .request, of: request.holder, since: request.arrival)
  }

  /// Begins the work when its turn comes, unless that is too late.
  func isDue(isTimely: Bool) {
    guard isTimely, !isCancelled else {
      return end(owner.connection.withoutWork(work, for: request, isTimely: isTimely))
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
    owner.ended(self, &response)
  }
}

/// The content of a request that has none, or whose content was read before.
final class NoContent: ContentReader {
  static let shared = NoContent()

  func read() async throws(ContentError) -> [UInt8]? { nil }
  func cancel() {}
}
