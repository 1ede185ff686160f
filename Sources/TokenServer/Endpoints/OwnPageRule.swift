import Bytes
import HTTP1
import HTTPMessages
import HTTPServer
import HTTPTypes
import Locks
import Tracing

/// Which requests come from the listener's own page or from none: a browser of an operator shows those of other sites too.
struct OwnPageRule: Sendable {
  let checksHosts: Bool

  /// Returns the error for a request of a page of another site; nil for any other request.
  func refusal(of request: Request) -> ErrorResponse? {
    isOwnOrigin(request) && isOwnSite(request)
      ? nil : ErrorResponse(.originNotAllowed, "No page of another origin can use this path.")
  }

  /// Returns the error for a request without JSON, which any page can send without a preflight (the Fetch standard, §3.3.2).
  static func refusalWithoutJSON(_ request: Request) -> ErrorResponse? {
    guard case .single(let type) = request.field("content-type"), isJSON(type) else {
      return ErrorResponse(.malformedRequest, "Send a JSON object with Content-Type: application/json.")
    }
    return nil
  }

  /// Whether the media type is JSON, with any parameters, which have no meaning for JSON (RFC 8259 §11).
  private static func isJSON(_ type: ArraySlice<UInt8>) -> Bool {
    let type = type.prefix { $0 != UInt8(ascii: ";") }
    let essence = type.span
    return essence.equalsIgnoringCase(essence.trimmingWhitespace(essence.indices), "application/json")
  }

  /// Whether the request has no `Origin`, or that of the listener. A listener that accepts any host name cannot tell its
  /// own origin from that of a page whose name resolves to it.
  private func isOwnOrigin(_ request: Request) -> Bool {
    switch request.field("origin") {
    case .absent: true
    case .single(let origin): checksHosts && origin.elementsEqual("http://".utf8 + Array(request.authority))
    case .repeated: false
    }
  }

  /// Whether an origin is that of the listener, with or without a proxy that speaks HTTPS.
  static func isOwn(_ origin: String, _ request: Request) -> Bool {
    ["http://", "https://"].contains { origin.utf8.elementsEqual(Array($0.utf8) + request.authority) }
  }

  /// Whether the request comes from no page of another origin (Fetch Metadata, §2.3).
  private func isOwnSite(_ request: Request) -> Bool {
    switch request.field("sec-fetch-site") {
    case .absent: true
    case .single(let site): site.elementsEqual("same-origin".utf8) || site.elementsEqual("none".utf8)
    case .repeated: false
    }
  }
}

extension Route {
  init(get path: StaticString, _ respond: @escaping @Sendable (Request) -> Response) {
    self.init(path, [.get(respond)])
  }

  /// Creates a route whose responses have threads of their own, because they read files. Without a rule, any page is fine.
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
      .ok, fields: [.contentType: "application/json", .cacheControl: "no-store", .xContentTypeOptions: "nosniff"],
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
