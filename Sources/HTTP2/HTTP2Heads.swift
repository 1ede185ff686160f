import Bytes
public import HTTPTypes

/// The control data and header section of a request in HTTP/2 (RFC 9113 §8.3.1).
///
/// A received head is well-formed: names are lower-case tokens, field values follow RFC 9110 §5.5, and there are no
/// connection-specific fields. The meaning of method, scheme, authority and path is not checked.
public struct HTTP2RequestHead: Sendable, Equatable {
  /// `:method`.
  public var method: String
  /// `:scheme`. Empty for CONNECT.
  public var scheme: String
  /// `:authority`, or the value of Host if a received request has no `:authority`. The two can differ only in case.
  public var authority: String
  /// `:path` with its query. Empty for CONNECT.
  public var path: String
  /// The header fields, without Host.
  public var fields: HTTPFields
  /// The value of Content-Length in bytes, if a received request has one. To send Content-Length, put it into `fields`.
  public internal(set) var contentLength: Int?

  /// Creates a request to send.
  public init(method: String, scheme: String, authority: String, path: String, fields: HTTPFields = [:]) {
    self.method = method
    self.scheme = scheme
    self.authority = authority
    self.path = path
    self.fields = fields
  }
}

/// The status and header section of a final response in HTTP/2 (RFC 9113 §8.3.2).
///
/// A received head is well-formed: names are lower-case tokens, field values follow RFC 9110 §5.5, and there are no
/// connection-specific fields.
public struct HTTP2ResponseHead: Sendable, Equatable {
  /// `:status`. In a received response 200…999, because the session omits informational responses.
  public var status: Int
  /// The header fields.
  public var fields: HTTPFields
  /// The value of Content-Length in bytes, if a received response has one. After HEAD or with a 304 it does not state
  /// the length of the content that follows (RFC 9110 §8.6). To send Content-Length, put it into `fields`.
  public internal(set) var contentLength: Int?

  /// Creates a response to send.
  public init(status: Int, fields: HTTPFields = [:]) {
    self.status = status
    self.fields = fields
  }
}

/// Collects the header section that is being received. A connection has only one at a time (RFC 9113 §4.3).
///
/// The library has already checked each field: names, values, order and number of pseudo-header fields, and
/// connection-specific fields. This type applies the limits and stores the fields.
struct HeadBuilder {
  /// Whether the section exceeded a limit. After that the builder stores nothing.
  private(set) var isOversized = false
  /// `:status`, or 0 if it is absent.
  private(set) var status = 0
  private var method = ""
  private var scheme = ""
  private var authority: String?
  private var path = ""
  private var host: String?
  private var contentLength: Int?
  private var size = 0
  private var fields: [HTTPField] = []

  /// Discards the last section but keeps its storage.
  mutating func reset() {
    isOversized = false
    status = 0
    (method, scheme, path) = ("", "", "")
    (authority, host, contentLength) = (nil, nil, nil)
    size = 0
    fields.removeAll(keepingCapacity: true)
  }

  /// Adds a field line.
  mutating func add(
    _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>, limits: HTTP2Limits
  ) {
    guard !isOversized else { return }
    // RFC 9113 §6.5.2 adds 32 for each field. A frame or a table entry bounds both counts.
    size += name.count + value.count + 32
    if unsafe name.first == UInt8(ascii: ":") {
      unsafe addControlData(name, value)
    } else {
      unsafe addField(name, value)
    }
    if size > limits.fieldSection || fields.count > limits.fieldLines {
      reset()
      isOversized = true
    }
  }

  /// Returns the request, or nil if its Host field contradicts `:authority` (RFC 9113 §8.3.1).
  func request() -> HTTP2RequestHead? {
    if let authority, let host, ByteString(authority).lowercasedASCII != ByteString(host).lowercasedASCII { return nil }
    var head = HTTP2RequestHead(
      method: method, scheme: scheme, authority: authority ?? host ?? "", path: path, fields: httpFields())
    head.contentLength = contentLength
    return head
  }

  /// Returns the response.
  func response() -> HTTP2ResponseHead {
    var head = HTTP2ResponseHead(status: status, fields: httpFields())
    head.contentLength = contentLength
    return head
  }

  private func httpFields() -> HTTPFields {
    var all = HTTPFields()
    // One replacement, because each single append costs a generic call.
    all.replaceSubrange(0..<0, with: fields)
    return all
  }

  private mutating func addControlData(_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) {
    let text = unsafe String(decoding: value, as: UTF8.self)
    switch unsafe ByteString(Array(name)) {
    case ":status": status = Int(text) ?? 0
    case ":method": method = text
    case ":scheme": scheme = text
    case ":authority": authority = text
    case ":path": path = text
    default: break
    }
  }

  private mutating func addField(_ bytes: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) {
    guard let name = unsafe FieldNames.name(bytes) else { return }
    switch name.canonicalName {
    case "host": host = unsafe String(decoding: value, as: UTF8.self)
    // The library accepts one Content-Length only, with digits only, within the range of its integer.
    case "content-length": contentLength = unsafe Int(String(decoding: value, as: UTF8.self))
    default: break
    }
    guard name.canonicalName != "host" else { return }
    unsafe fields.append(HTTPField(name: name, value: value))
  }
}
