import Bytes
import HTTP1
import HTTPMessages
import HTTPServer

/// Which requests come from the listener's own page or from no page. A browser on the network of an operator shows pages
/// of other sites too, and these can send requests to the listener.
struct OwnPageRule: Sendable {
  let checksHosts: Bool

  /// Returns the error for a request of a page of another site; nil for any other request.
  func refusal(of request: Request) -> ErrorResponse? {
    isOwnOrigin(request) && isOwnSite(request)
      ? nil : ErrorResponse(.originNotAllowed, "No page of another origin can use this path.")
  }

  /// Returns the error for a request without JSON; nil for one with JSON, which no page of another site can send without
  /// a preflight (the Fetch standard, §3.3.2).
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
