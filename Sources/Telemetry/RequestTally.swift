import Locks

/// Counts the responses of one event loop.
///
/// Each loop has its own tally, and only a scrape contends for its lock, so the lock costs some ten nanoseconds for
/// each response. The tally finds the entry of a response by comparing literals in a short list. It allocates memory
/// only for a route or a status that occurs for the first time.
public final class RequestTally: @unchecked Sendable {
  // Sendable: `routes` is touched only under `lock`.
  private let lock = Mutex()
  private var routes: [RouteTally] = []

  /// Counts one answer.
  ///
  /// - Parameters:
  ///   - route: The route's template, a literal of the program: nothing that a client sent can become one.
  ///   - method: The method's name, likewise.
  ///   - status: The status code.
  ///   - bytes: Of content.
  ///   - duration: From the first byte of the request to its answer.
  public func count(route: StaticString, method: StaticString, status: Int, bytes: Int, duration: Duration) {
    lock.withLock {
      let index = place(of: route)
      routes[index].count(method: method, status: status, bytes: bytes, duration: duration)
    }
  }

  private func place(of route: StaticString) -> Int {
    for index in routes.indices where routes[index].route.isSame(as: route) { return index }
    routes.append(RouteTally(route))
    return routes.count - 1
  }

  /// The counts at a moment.
  var counts: [RouteTally] { lock.withLock { routes } }
}
