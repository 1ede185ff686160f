import Locks

/// Counts the answers that one event loop gives.
///
/// Each loop has its own, so its lock is nobody's but for the moment of a scrape: some ten nanoseconds an answer. What an
/// answer is counted under is found by comparing literals along a short list, and memory is only allocated for a route or
/// a status that occurs for the first time.
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
