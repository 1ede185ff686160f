import CatalogProxy
import Glibc
import HTTP1
import HTTPMessages
import HTTPServer
import HTTPTypes
import Tracing

/// A finished operation of a trace, as OpenTelemetry describes it, with attributes by its semantic conventions for HTTP.
///
/// It follows the access log, with no token, credential, query, path, field or address of a caller: its texts are literals
/// of the program, or come from the settings. `url.path` would name a user's items.
struct FinishedSpan: Sendable {
  /// The role of the server in the operation. The raw value is the number in OTLP.
  enum Kind: Int {
    /// The server responds to a request.
    case server = 2
    /// The server sends a request.
    case client = 3
  }

  enum Value {
    /// A literal of the program.
    case word(StaticString)
    /// A text from the settings, or of a number.
    case text(String)
    case number(Int)
  }

  typealias Attribute = (key: StaticString, value: Value)

  let context: SpanContext
  /// The span that caused this one, or nil if this one begins the trace. Another service made that of a server's span.
  let parent: SpanID?
  let kind: Kind
  /// The method of the request, the first word of the span's name.
  let method: StaticString
  /// The template of the path, the second word of the name; nil if no route matched.
  let route: StaticString?
  /// The end, in nanoseconds since 1970.
  var end = Self.now
  let duration: Duration
  /// Whether the operation failed by a defect, not by a wrong request.
  let hasFailed: Bool
  let attributes: [Attribute]

  /// The beginning, in nanoseconds since 1970.
  var start: UInt64 {
    let (seconds, attoseconds) = duration.components
    let length =
      UInt64(clamping: seconds).multipliedReportingOverflow(by: 1_000_000_000).partialValue
      &+ UInt64(clamping: attoseconds / 1_000_000_000)
    return length < end ? end - length : end
  }

  /// An upper bound of the memory that the span takes, in bytes.
  var heldBytes: Int {
    var bytes = MemoryLayout<FinishedSpan>.stride + attributes.count * MemoryLayout<Attribute>.stride + 64
    bytes += context.state?.description.utf8.count ?? 0
    for case .text(let text) in attributes.map(\.value) { bytes += text.utf8.count + 32 }
    return bytes
  }

  /// The time in nanoseconds since 1970, read with one vDSO call.
  private static var now: UInt64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_REALTIME, &time)
    return UInt64(clamping: time.tv_sec) &* 1_000_000_000 &+ UInt64(clamping: time.tv_nsec)
  }
}

extension FinishedSpan {
  /// Creates the span of the server's work for a request.
  init(_ request: Request, _ status: Int, _ duration: Duration) {
    let hasFailed = status >= 500
    let method = request.statedMethod.flatMap { $0 == .other ? nil : $0.name }
    var attributes: [Attribute] = [
      ("http.request.method", .word(method ?? "_OTHER")), ("http.response.status_code", .number(status)),
      ("url.scheme", .word(request.isSecure ? "https" : "http")),
    ]
    if let version = request.statedVersion { attributes.append(("network.protocol.version", .word(version))) }
    if let route = request.route { attributes.append(("http.route", .word(route))) }
    if hasFailed { attributes.append(("error.type", .text("\(status)"))) }
    var context = request.trace.context()
    context.isSampled = true
    self.init(
      context: context, parent: request.trace.parent?.spanID, kind: .server, method: method ?? "HTTP",
      route: request.route, duration: duration, hasFailed: hasFailed, attributes: attributes)
  }

  /// Creates the span of a request that the server has sent.
  init(_ attempt: UpstreamAttempt, to upstream: Origin) {
    var attributes: [Attribute] = [
      ("http.request.method", .word(attempt.method.name)), ("url.template", .word(attempt.route)),
      ("server.address", .text(upstream.hostToResolve)),
      ("server.port", .number(Int(upstream.port ?? (upstream.isSecure ? 443 : 80)))),
    ]
    if let client = attempt.client { attributes.append(("musickit.client", .text(client))) }
    if attempt.resends > 0 { attributes.append(("http.request.resend_count", .number(attempt.resends))) }
    var hasFailed = false
    switch attempt.result {
    case .status(let status, let version):
      attributes.append(("http.response.status_code", .number(status)))
      attributes.append(("network.protocol.version", .word(version)))
      hasFailed = status >= 400
      if hasFailed { attributes.append(("error.type", .text("\(status)"))) }
    case .failure(let cause):
      attributes.append(("error.type", .text(cause.rawValue)))
      // A caller that went away is no defect.
      hasFailed = cause != .cancelled
    }
    self.init(
      context: attempt.span, parent: attempt.parent, kind: .client, method: attempt.method.name, route: attempt.route,
      duration: attempt.duration, hasFailed: hasFailed, attributes: attributes)
  }
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
