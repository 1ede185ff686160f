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

extension Response {
  /// Creates a response with a JSON text, which no cache may store.
  static func json(_ text: some Sequence<UInt8>) -> Response {
    Response(
      .ok,
      fields: [.contentType: "application/json", .cacheControl: "no-store", .xContentTypeOptions: "nosniff"],
      body: Array(text) + "\n".utf8)
  }

  fileprivate static func onThread(
    requestID: RequestID, _ make: @escaping @Sendable () -> Response
  ) async -> Response {
    await withCheckedContinuation { continuation in
      let thread = try? Thread { continuation.resume(returning: make()) }
      guard thread == nil else { return }
      let refusal = ErrorResponse(
        .overloaded, "The system grants the server no thread. Send the request again in 1 s.", retryAfter: 1)
      continuation.resume(returning: refusal.response(id: requestID))
    }
  }
}
