import Bytes
public import HTTPTypes

/// The control data and header section of a request that a client sends (RFC 9113 §8.3.1).
public struct HTTP2RequestHead: Sendable, Equatable {
  /// `:method`.
  public var method: String
  /// `:scheme`. Empty for CONNECT.
  public var scheme: String
  /// `:authority`.
  public var authority: String
  /// `:path` with its query. Empty for CONNECT.
  public var path: String
  /// The header fields, without Host.
  public var fields: HTTPFields

  /// Creates a request to send.
  public init(method: String, scheme: String, authority: String, path: String, fields: HTTPFields = [:]) {
    self.method = method
    self.scheme = scheme
    self.authority = authority
    self.path = path
    self.fields = fields
  }
}

/// The status and header section of a final response that a client receives (RFC 9113 §8.3.2).
///
/// It is well-formed: names are lower-case tokens, field values follow RFC 9110 §5.5, and there are no
/// connection-specific fields.
public struct HTTP2ResponseHead: Sendable, Equatable {
  /// `:status`, 200…999, because the session omits informational responses.
  public var status: Int
  /// The header fields.
  public var fields: HTTPFields
  /// The value of Content-Length in bytes, if there is one. After HEAD or with a 304 it does not state the length of the
  /// content that follows (RFC 9110 §8.6).
  public internal(set) var contentLength: Int?

  /// Creates a response.
  public init(status: Int, fields: HTTPFields = [:]) {
    self.status = status
    self.fields = fields
  }
}

/// Collects the header section of a response that a client receives. A connection has only one at a time (RFC 9113 §4.3).
///
/// The library has already checked each field: names, values, order and number of pseudo-header fields, and
/// connection-specific fields. This type applies the limits and stores the fields.
struct ResponseBuilder {
  /// Whether the section exceeded a limit. After that the builder stores nothing.
  private(set) var isOversized = false
  /// `:status`, or 0 if it is absent.
  private(set) var status = 0
  private var contentLength: Int?
  private var size = SectionSize()
  private var fields: [HTTPField] = []

  /// Discards the last section but keeps its storage.
  mutating func reset() {
    isOversized = false
    status = 0
    contentLength = nil
    size = SectionSize()
    fields.removeAll(keepingCapacity: true)
  }

  /// Adds a field line.
  mutating func add(
    _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>, limits: HTTP2Limits
  ) {
    guard !isOversized else { return }
    guard unsafe size.add(name, value, limits) else {
      reset()
      isOversized = true
      return
    }
    if unsafe name.first == UInt8(ascii: ":") {
      status = unsafe Int(String(decoding: value, as: UTF8.self)) ?? 0
    } else {
      unsafe addField(name, value)
    }
  }

  /// Returns the response.
  func response() -> HTTP2ResponseHead {
    var all = HTTPFields()
    // One replacement, because each single append costs a generic call.
    all.replaceSubrange(0..<0, with: fields)
    var head = HTTP2ResponseHead(status: status, fields: all)
    head.contentLength = contentLength
    return head
  }

  private mutating func addField(_ bytes: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) {
    guard let name = unsafe FieldNames.name(bytes) else { return }
    // The library accepts one Content-Length only, with digits only, within the range of its integer.
    if name == .contentLength { contentLength = unsafe Int(String(decoding: value, as: UTF8.self)) }
    unsafe fields.append(HTTPField(name: name, value: value))
  }
}

/// The size of the received part of a header section.
struct SectionSize {
  private var bytes = 0
  private var lines = 0

  /// Adds a field line. Returns false if the section exceeds a limit.
  mutating func add(
    _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>, _ limits: HTTP2Limits
  ) -> Bool {
    // RFC 9113 §6.5.2 adds 32 for each field. A frame or a table entry bounds both counts.
    bytes += name.count + value.count + 32
    if unsafe name.first != UInt8(ascii: ":") { lines += 1 }
    return bytes <= limits.fieldSection && lines <= limits.fieldLines
  }
}
