import Bytes
public import EventLoop
public import HTTP1
public import HTTPMessages
public import HTTPTypes
public import TLS
public import Tracing

/// A request while the server handles it. The event loop reuses the object: nothing may keep it after the response.
public final class Request {
  /// The identifier of the request in logs and in `X-Request-ID`.
  public internal(set) var id: RequestID
  /// The trace that the request belongs to, and the server's span of the request.
  public internal(set) var trace: RequestTrace
  /// The client. Behind trusted proxies, it is the one that they name.
  public internal(set) var client = ClientAddress(name: "", rateLimitPrefix: "", holder: nil)
  /// The verified certificate of the TLS handshake, or of that of the resumed session; nil without one.
  public internal(set) var clientCertificate: ClientCertificate?
  /// Whether the request came through a trusted proxy or a Unix-domain socket, which has already checked the host.
  var comesByTrustedProxy = false
  /// The event loop of the request's connection.
  public let loop: IOLoop
  /// The route's template, for logs and metrics; nil before routing.
  public var route: StaticString?
  /// Whether the request came over HTTP/2. Its head is then rewritten as an HTTP/1.1 head.
  public internal(set) var isHTTP2 = false
  /// Whether the request came over TLS.
  public internal(set) var isSecure = false
  /// The router of the request since its head was complete, even if the server replaces it meanwhile.
  var router: Router?
  /// The time when the first byte of the head was read, or had arrived if that is known.
  var received = Deadline.now
  /// The time when the connection's last bytes arrived, if the server let them wait; else nil.
  var arrival: Deadline?

  var parser: RequestHeadParser
  /// The head as it was received, or the part of it that was kept for a wait.
  private(set) var bytes: [UInt8] = []
  /// The length of the dropped head: the handler has copied no more from it.
  private var forgottenBytes = 0
  /// The beginning of the path of a dropped head, for the observer.
  private var forgottenPath: [UInt8] = []
  private let recordedPathBytes: Int

  /// Creates an object for requests. `own` identifies the first one until ``begin(_:parent:isParentTrusted:)``.
  init(limits: HTTP1Limits, own: TraceID, loop: IOLoop, recordedPathBytes: Int = 0) {
    self.loop = loop
    id = RequestID(own)
    trace = RequestTrace(own)
    self.recordedPathBytes = recordedPathBytes
    parser = RequestHeadParser(limits: limits)
  }

  func begin(_ own: TraceID, parent: SpanContext? = nil, isParentTrusted: Bool = false) {
    id = RequestID(own)
    trace = RequestTrace(own, parent: parent, isParentTrusted: isParentTrusted)
  }

  /// Creates a request from a complete head that no client has sent. Throws the error that a client would get.
  public convenience init(head: [UInt8], limits: HTTP1Limits, trace: RequestTrace, loop: IOLoop) throws(ErrorResponse) {
    self.init(limits: limits, own: trace.traceID, loop: loop)
    self.trace = trace
    let length: Int?
    do throws(RequestError) { length = try parser.parse(head.span) } catch { throw ErrorResponse(error) }
    guard length == head.count else { throw ErrorResponse(.malformedRequest, "The head does not end where it should.") }
    keep(head.span)
  }

  /// The parsed head; its ranges refer to the bytes that `query` and `field` read.
  public var head: RequestHead { parser.head }
  /// Whether the head states content of at least a byte. Reads one member, where ``head`` copies all.
  public var statesContent: Bool { parser.head.framing.declaredLength ?? 0 > 0 }
  /// The method.
  public var method: RequestHead.Method { parser.head.method }
  /// The method, or nil if no request line could be parsed.
  public var statedMethod: RequestHead.Method? { route == nil && head.statedVersion == nil ? nil : method }

  /// The HTTP version: `2`, `1.1` or `1.0`; nil if the request line states no supported version.
  public var statedVersion: StaticString? { isHTTP2 ? "2" : head.statedVersion.map { $0 == .http10 ? "1.0" : "1.1" } }

  /// The time since the first byte of the request.
  public var duration: Duration { Deadline.now.duration(since: received) }

  func reset() {
    parser.reset()
    bytes.removeAll(keepingCapacity: true)
    forgottenBytes = 0
    forgottenPath = []
    route = nil
    router = nil
    arrival = nil
    clientCertificate = nil
  }

  /// Drops the head before a wait, except the field that the router reads last, and what needs no bytes (the method).
  func forgetHead() {
    guard forgottenBytes == 0 else { return }
    forgottenPath = recordedPath
    let head = bytes
    forgottenBytes = head.count
    bytes = parser.head.forget(head.span, except: router?.lastingField)
  }

  /// The beginning of the path, as long as the observer records it; empty if the head could not be parsed.
  public var recordedPath: [UInt8] {
    guard recordedPathBytes > 0 else { return [] }
    guard forgottenBytes == 0 else { return forgottenPath }
    guard head.path.upperBound <= bytes.count else { return [] }
    return Array(path.prefix(recordedPathBytes))
  }

  var heldBytes: Int { bytes.capacity + forgottenBytes + forgottenPath.capacity + parser.head.storageBytes }

  /// Copies the head before the receive buffer drops its bytes.
  func keep(_ head: Span<UInt8>) { bytes.append(copying: head) }

  /// Keeps only the values of some fields of a head that the parser has refused.
  func keepRefused(_ values: [(name: StaticString, value: [UInt8])]) { bytes = parser.head.forget(keeping: values) }

  /// Returns whether the path equals `path`, byte for byte, or begins with it.
  public func hasPath(_ path: StaticString, orBelow: Bool = false) -> Bool {
    let (bytes, own) = (bytes, parser.head.path)
    return bytes.span.equals(orBelow ? own.prefix(path.utf8CodeUnitCount) : own, path)
  }

  /// The bytes of the path, still percent-encoded.
  public var path: ArraySlice<UInt8> { bytes[parser.head.path] }
  /// The bytes of the query, still percent-encoded, or nil if there is no `?`.
  public var query: ArraySlice<UInt8>? { parser.head.query.map { bytes[$0] } }

  /// Returns the value of a field that must not occur more than once. `name` is in lower case.
  public func field(_ name: StaticString) -> FieldOccurrence<ArraySlice<UInt8>> {
    let bytes = self.bytes
    let span = bytes.span
    return switch parser.head.fields.value(of: name, in: span) {
    case .absent: .absent
    case .single(let range): .single(bytes[range])
    case .repeated: .repeated
    }
  }

  /// All header fields as strings, in order, for code that needs all of them.
  public var fields: HTTPFields {
    var fields = HTTPFields()
    for line in parser.head.fields {
      guard let name = HTTPField.Name(String(decoding: bytes[line.name], as: UTF8.self)) else { continue }
      fields.append(HTTPField(name: name, value: String(decoding: bytes[line.value], as: UTF8.self)))
    }
    return fields
  }

  /// The host, with the port if the request has one.
  public var authority: ArraySlice<UInt8> { bytes[parser.head.authority] }

  /// Calls `body` with the value of each field line named `name`, which is in lower case.
  public func forEach(_ name: StaticString, _ body: (Span<UInt8>) -> Void) {
    let bytes = self.bytes
    let span = bytes.span
    // Most requests have none of these fields: the head looks without a copy of the list.
    guard parser.head.fields.value(of: name, in: span) != .absent else { return }
    for line in parser.head.fields where span.equalsIgnoringCase(line.name, name) {
      body(span.extracting(line.value))
    }
  }
}
