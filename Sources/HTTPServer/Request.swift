import Bytes
public import EventLoop
public import HTTP1
public import HTTPTypes
public import Memory
public import TLS
public import Telemetry

/// A request while the server answers it: its head and its client.
///
/// The event loop lends the object and uses it again for another request: nothing may keep it beyond the response.
public final class Request {
  /// Names the request in logs and in `X-Request-ID`.
  public internal(set) var id: RequestID

  /// The client's address without the port, or `unix`. Behind trusted proxies, the client that they name.
  public internal(set) var clientAddress = ""

  /// The client as shares and limits count it: an IPv4 address, an IPv6 network of /64, or `unix`.
  public internal(set) var rateLimitPrefix = ""

  /// Whom memory that is held for it is charged to; nil for a trusted proxy that names no client.
  public internal(set) var holder: MemoryBudget.Holder?

  /// The certificate that the client showed in the TLS handshake, or in the one of the session that it resumes, verified;
  /// nil if it showed none.
  public internal(set) var clientCertificate: ClientCertificate?

  /// Whether a trusted proxy, or a Unix-domain socket, has brought it: then the host that it names was judged there.
  var comesByTrustedProxy = false

  /// The loop that its connection lives on.
  public let loop: IOLoop

  /// The route's template, for logs and metrics; nil before routing.
  public var route: StaticString?

  /// Whether it came over HTTP/2: its head is written as one of HTTP/1.1 then.
  public internal(set) var isHTTP2 = false

  /// When the first byte of the head was read.
  var received = Deadline.now

  var parser: RequestHeadParser
  /// The head as it was received; of a request that waits, what is left of it.
  private(set) var bytes: [UInt8] = []
  /// The length of the head that was forgotten: what the handler took along of it is no longer than that.
  private var forgottenBytes = 0

  init(limits: HTTP1Limits, id: RequestID, loop: IOLoop) {
    self.loop = loop
    self.id = id
    parser = RequestHeadParser(limits: limits)
  }

  /// Facts about the head; its ranges are into the bytes that `query` and `field` read.
  public var head: RequestHead { parser.head }

  /// The method.
  public var method: RequestHead.Method { parser.head.method }

  /// Forgets the last request but keeps its storage.
  func reset() {
    parser.reset()
    bytes.removeAll(keepingCapacity: true)
    forgottenBytes = 0
    route = nil
    clientCertificate = nil
  }

  /// Gives up the head before a wait, except the line of one field and what needs no bytes, such as the method. The
  /// handler has taken what it needs, and a waiting request must not make the server hold both.
  func forgetHead(except name: StaticString?) {
    guard forgottenBytes == 0 else { return }
    let head = bytes
    forgottenBytes = head.count
    bytes = parser.forgetHead(head.span, except: name)
  }

  /// The bytes that it makes the server hold, at most.
  var heldBytes: Int { bytes.capacity + forgottenBytes + parser.head.storageBytes }

  /// Keeps the head, whose bytes the receive buffer is about to lose.
  func keep(_ head: Span<UInt8>) {
    bytes.append(copying: head)
  }

  // MARK: What was asked

  /// Whether the path is `path`, byte for byte.
  public func hasPath(_ path: StaticString) -> Bool {
    let bytes = bytes
    return bytes.span.equals(parser.head.path, path)
  }

  /// Whether the path begins with `path`, byte for byte.
  func hasPath(below path: StaticString) -> Bool {
    let bytes = bytes
    let range = parser.head.path
    return range.count >= path.utf8CodeUnitCount
      && bytes.span.equals(range.lowerBound..<range.lowerBound + path.utf8CodeUnitCount, path)
  }

  /// The bytes of the path, still percent-encoded.
  public var path: ArraySlice<UInt8> { bytes[parser.head.path] }

  /// The bytes of the query, still percent-encoded; nil if there is no `?`.
  public var query: ArraySlice<UInt8>? {
    parser.head.query.map { bytes[$0] }
  }

  /// The value of a field that must not occur more than once; its name in lower case.
  public func field(_ name: StaticString) -> FieldValue {
    let bytes = self.bytes
    let span = bytes.span
    guard let range = parser.head.firstField(named: name, in: span) else { return .absent }
    return parser.head.fieldCount(named: name, in: span) == 1 ? .single(bytes[range]) : .repeated
  }

  /// All header fields, in order, as strings: for who needs them all.
  public var fields: HTTPFields {
    var fields = HTTPFields()
    for line in parser.head.fields {
      guard let name = HTTPField.Name(String(decoding: bytes[line.name], as: UTF8.self)) else { continue }
      fields.append(HTTPField(name: name, value: String(decoding: bytes[line.value], as: UTF8.self)))
    }
    return fields
  }

  /// The host, with the port if it was given.
  public var authority: ArraySlice<UInt8> { bytes[parser.head.authority] }

  /// Calls `body` with the value of each field line of one name, in lower case.
  public func forEach(_ name: StaticString, _ body: (Span<UInt8>) -> Void) {
    let bytes = self.bytes
    let span = bytes.span
    let count = parser.head.fieldCount(named: name, in: span)
    guard count > 0 else { return }
    for line in parser.head.fields where parser.head.isNamed(line, name, in: span) {
      body(span.extracting(line.value))
    }
  }

  /// What the field lines of one name say.
  public enum FieldValue {
    /// The request has no such field.
    case absent
    /// The request has one, with this value, without the white space around it.
    case single(ArraySlice<UInt8>)
    /// The request has several.
    case repeated
  }
}
