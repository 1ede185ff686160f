import HTTPMessages
import Locks

/// A request of one caller's own, in a task. A caller that goes away gets its reply at once, so that nothing keeps its
/// connection. Its request goes on if it was sent.
final class OwnRequest: CancellableWork {
  private struct State {
    /// Nil once the caller has its reply.
    var receive: (@Sendable (CatalogReply) -> Void)?
    var task: Task<Void, Never>?
  }

  private let state: Locked<State>

  /// Starts the work on the route's loop. `receive` takes its reply once, or ``CatalogReply/cancelled`` on the thread that
  /// cancels.
  init(
    by route: UpstreamRoute, then receive: @escaping @Sendable (CatalogReply) -> Void,
    _ work: @escaping @Sendable () async -> CatalogReply
  ) {
    state = Locked(State(receive: receive))
    let task = Task(executorPreference: route.executor) {
      let reply = await work()
      guard let receive = self.state.withLock({ $0.receive.take() }) else { return reply.discard() }
      receive(reply)
    }
    state.withLock { $0.task = task }
  }

  func cancel() {
    let (receive, task) = state.withLock { ($0.receive.take(), $0.task) }
    task?.cancel()
    receive?(.cancelled)
  }
}

extension CatalogReply {
  /// Cancels the content, because no caller reads it.
  func discard() {
    if case .response(let response) = self { response.stream?.cancel() }
  }
}
