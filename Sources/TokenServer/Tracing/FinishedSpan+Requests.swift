import CatalogProxy
import Glibc
import HTTP1
import HTTPMessages
import HTTPServer
import HTTPTypes
import Tracing

/// The spans of requests, with attributes by OpenTelemetry's semantic conventions for HTTP.
///
/// They follow the access log: no path, query, field or address of a caller. `url.path` would name a user's items.
extension FinishedSpan {
  init(_ exchange: borrowing CompletedRequest) {
    let hasFailed = exchange.status >= 500
    var attributes = [
      Attribute("http.request.method", .word(exchange.method?.attribute ?? "_OTHER")),
      Attribute("http.response.status_code", .number(exchange.status)),
      Attribute("url.scheme", .word(exchange.isSecure ? "https" : "http")),
    ]
    if let version = exchange.version { attributes.append(Attribute("network.protocol.version", .word(version))) }
    if let route = exchange.route { attributes.append(Attribute("http.route", .word(route))) }
    if hasFailed { attributes.append(Attribute("error.type", .text("\(exchange.status)"))) }
    self.init(
      serving: exchange.trace, method: exchange.method?.spanName ?? "HTTP", route: exchange.route, end: Self.now,
      duration: exchange.duration, hasFailed: hasFailed, attributes)
  }

  init(_ attempt: UpstreamAttempt, to upstream: Origin) {
    var attributes = [
      Attribute("http.request.method", .word(attempt.method.name)), Attribute("url.template", .word(attempt.route)),
      Attribute("server.address", .text(upstream.hostToResolve)),
      Attribute("server.port", .number(Int(upstream.port ?? (upstream.isSecure ? 443 : 80)))),
    ]
    if let client = attempt.client { attributes.append(Attribute("musickit.client", .text(client))) }
    if attempt.resends > 0 { attributes.append(Attribute("http.request.resend_count", .number(attempt.resends))) }
    var hasFailed = false
    switch attempt.result {
    case .status(let status, let version):
      attributes.append(Attribute("http.response.status_code", .number(status)))
      attributes.append(Attribute("network.protocol.version", .word(version)))
      hasFailed = status >= 400
      if hasFailed { attributes.append(Attribute("error.type", .text("\(status)"))) }
    case .failure(let cause):
      attributes.append(Attribute("error.type", .text(cause.rawValue)))
      // A caller that went away is no defect.
      hasFailed = cause != .cancelled
    }
    self.init(
      sending: attempt.span, parent: attempt.parent, method: attempt.method.name, route: attempt.route, end: Self.now,
      duration: attempt.duration, hasFailed: hasFailed, attributes)
  }

  /// The time in nanoseconds since 1970, read with one vDSO call.
  private static var now: UInt64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_REALTIME, &time)
    return UInt64(clamping: time.tv_sec) &* 1_000_000_000 &+ UInt64(clamping: time.tv_nsec)
  }
}

extension RequestHead.Method {
  /// The method for the name of a span, where an unregistered one is `HTTP`.
  fileprivate var spanName: StaticString { self == .other ? "HTTP" : name }

  /// The method as an attribute, where an unregistered one is `_OTHER`.
  fileprivate var attribute: StaticString { self == .other ? "_OTHER" : name }
}

extension HTTPRequest.Method {
  fileprivate var name: StaticString {
    switch self {
    case .get: "GET"
    case .head: "HEAD"
    case .post: "POST"
    case .put: "PUT"
    case .patch: "PATCH"
    case .delete: "DELETE"
    default: "_OTHER"
    }
  }
}
