import Bytes
import CatalogProxy
import Glibc
import HTTP1
import HTTPMessages
import HTTPServer
import HTTPTypes
import Tracing

/// A finished operation of a trace as OTLP has it in JSON, with attributes by the semantic conventions of OpenTelemetry for
/// HTTP. <https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding>: identifiers are hexadecimal, enumerations are
/// numbers, and 64-bit integers are strings.
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

  private(set) var json: [UInt8] = []
  private var hasAttributes = false

  /// Begins a span without attributes, which `finish` ends.
  ///
  /// - Parameters:
  ///   - parent: The span that caused this one, another service's for a server's span; nil for the first of a trace.
  ///   - method: The first word of the span's name.
  ///   - route: The template of the path, the second word of the name; nil if no route matched.
  ///   - end: In nanoseconds since 1970.
  init(
    _ context: SpanContext, parent: SpanID?, _ kind: Kind, _ method: StaticString, _ route: StaticString?,
    end: UInt64 = Self.now, duration: Duration
  ) {
    json.reserveCapacity(1024)
    json.append("{\"traceId\":\"")
    json.append(context.traceID)
    json.append("\",\"spanId\":\"")
    json.append(context.spanID)
    if let parent {
      json.append("\",\"parentSpanId\":\"")
      json.append(parent)
    }
    json.append("\"")
    if let state = context.state {
      json.append(",\"traceState\":")
      json.append(jsonString: state.description)
    }
    json.append(",\"flags\":")
    // The flags of W3C, and whether the parent is remote, which is known (`SpanFlags` of OTLP).
    json.append(decimal: (context.isSampled ? 1 : 0) | 0x100 | (kind == .server && parent != nil ? 0x200 : 0))
    json.append(",\"name\":\"")
    json.append(method)
    if let route {
      json.append(" ")
      json.append(route)
    }
    json.append("\",\"kind\":")
    json.append(decimal: kind.rawValue)
    json.append(",\"startTimeUnixNano\":\"")
    let (seconds, attoseconds) = duration.components
    let length =
      UInt64(clamping: seconds).multipliedReportingOverflow(by: 1_000_000_000).partialValue
      &+ UInt64(clamping: attoseconds / 1_000_000_000)
    json.append(decimal: Int(clamping: length < end ? end - length : end))
    json.append("\",\"endTimeUnixNano\":\"")
    json.append(decimal: Int(clamping: end))
    json.append("\",\"attributes\":[")
  }

  /// Adds an attribute with a literal of the program.
  mutating func add(_ key: StaticString, _ word: StaticString) {
    begin(key, type: "\"stringValue\":\"")
    json.append(word)
    json.append("\"}}")
  }

  /// Adds an attribute with a text from the settings, or of a number.
  mutating func add(_ key: StaticString, text: String) {
    begin(key, type: "\"stringValue\":")
    json.append(jsonString: text)
    json.append("}}")
  }

  mutating func add(_ key: StaticString, _ number: Int) {
    begin(key, type: "\"intValue\":\"")
    json.append(decimal: number)
    json.append("\"}}")
  }

  private mutating func begin(_ key: StaticString, type: StaticString) {
    json.append(hasAttributes ? ",{\"key\":\"" : "{\"key\":\"")
    hasAttributes = true
    json.append(key)
    json.append("\",\"value\":{")
    json.append(type)
  }

  /// - Parameter hasFailed: Whether the operation failed by a defect, not by a wrong request.
  mutating func finish(hasFailed: Bool) {
    json.append(hasFailed ? "],\"status\":{\"code\":2}}" : "],\"status\":{}}")
    // A span may wait for seconds, so it gives up the room that it does not need.
    var exact: [UInt8] = []
    exact.append(copying: json.span)
    json = exact
  }

  /// The time in nanoseconds since 1970, read with one vDSO call.
  private static var now: UInt64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_REALTIME, &time)
    return UInt64(clamping: time.tv_sec) &* 1_000_000_000 &+ UInt64(clamping: time.tv_nsec)
  }
}

extension FinishedSpan {
  init(_ request: Request, _ status: Int, _ duration: Duration) {
    let method = request.statedMethod.flatMap { $0 == .other ? nil : $0.name }
    var context = request.trace.context()
    context.isSampled = true
    self.init(
      context, parent: request.trace.parent?.spanID, .server, method ?? "HTTP", request.route, duration: duration)
    add("http.request.method", method ?? "_OTHER")
    add("http.response.status_code", status)
    add("url.scheme", request.isSecure ? "https" : "http")
    if let version = request.statedVersion { add("network.protocol.version", version) }
    if let route = request.route { add("http.route", route) }
    if status >= 500 { add("error.type", text: "\(status)") }
    finish(hasFailed: status >= 500)
  }

  init(_ attempt: UpstreamAttempt, to upstream: Origin) {
    self.init(
      attempt.span, parent: attempt.parent, .client, attempt.method.name, attempt.route, duration: attempt.duration)
    add("http.request.method", attempt.method.name)
    add("url.template", attempt.route)
    add("server.address", text: upstream.hostToResolve)
    add("server.port", Int(upstream.port ?? (upstream.isSecure ? 443 : 80)))
    if let client = attempt.client { add("musickit.client", text: client) }
    if attempt.resends > 0 { add("http.request.resend_count", attempt.resends) }
    switch attempt.result {
    case .status(let status, let version):
      add("http.response.status_code", status)
      add("network.protocol.version", version)
      if status >= 400 { add("error.type", text: "\(status)") }
      finish(hasFailed: status >= 400)
    case .failure(let cause):
      add("error.type", text: cause.rawValue)
      // A caller that went away is no defect.
      finish(hasFailed: cause != .cancelled)
    }
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
