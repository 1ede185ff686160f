import HTTPMessages
import HTTPServer
import HTTPTypes
import Locks
import Telemetry

extension Route {
  init(get path: StaticString, _ respond: @escaping @Sendable (Request) -> Response) {
    self.init(path, [.get(respond)])
  }

  /// Creates a route of a path that supports `GET` only, with responses that a thread of their own makes, because that
  /// reads files.
  ///
  /// - Parameter rule: Which pages may send the request; nil for all, because no other page can read the response.
  init(getOnThread path: StaticString, _ rule: OwnPageRule? = nil, _ respond: @escaping @Sendable () -> Response) {
    let reply: @Sendable (Request) -> Reply = { request in
      let id = request.id
      if let refusal = rule?.refusal(of: request) { return .immediate(refusal.response(id: id)) }
      return .deferred(DeferredWork { _ in await Response.onThread(requestID: id, respond) })
    }
    self.init(path, [.get(reply: reply)])
  }
}

/// The number of threads that make a response at present.
private let responseThreads = Locked(0)
/// The most of these threads. Operators need a few, and the demo has such paths for every caller.
private let mostResponseThreads = 16

extension Response {
  /// Creates a response with a JSON text, which no cache may store.
  static func json(_ text: some Sequence<UInt8>) -> Response {
    Response(
      .ok,
      fields: [.contentType: "application/json", .cacheControl: "no-store", .xContentTypeOptions: "nosniff"],
      body: Array(text) + "\n".utf8)
  }

  static func onThread(requestID: RequestID, _ make: @escaping @Sendable () -> Response) async -> Response {
    await withCheckedContinuation { continuation in
      let number = responseThreads.withLock { count in
        count += 1
        return count
      }
      let respond = { @Sendable (response: Response) in
        responseThreads.withLock { $0 -= 1 }
        continuation.resume(returning: response)
      }
      if number <= mostResponseThreads, (try? Thread { respond(make()) }) != nil { return }
      let refusal = ErrorResponse(
        .overloaded, "The server has no thread for this response. Send the request again in 1 s.", retryAfter: 1)
      respond(refusal.response(id: requestID))
    }
  }
}
