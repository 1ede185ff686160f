public import Bytes
public import HTTP1

/// The control data and header section of a request that a client sends (RFC 9113 §8.3.1).
public struct HTTP2RequestHead: Sendable, Equatable {
  /// `:method`.
  public var method: String
  /// `:scheme`. Empty for CONNECT.
  public var scheme: String
  /// `:authority`.
  public var authority: String
  /// `:path` with its query. Empty for CONNECT.
  public var path: ByteString
  /// The header fields, without Host.
  public var fields: FieldLines
  /// A field that is sent after the others.
  public var credential: FieldLines

  /// Creates a request to send.
  public init(
    method: String, scheme: String, authority: String, path: ByteString, fields: FieldLines = FieldLines(),
    credential: FieldLines = FieldLines()
  ) {
    self.method = method
    self.scheme = scheme
    self.authority = authority
    self.path = path
    self.fields = fields
    self.credential = credential
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
  public var fields: FieldLines
  /// The value of Content-Length in bytes, if there is one. After HEAD or with a 304 it does not state the length of the
  /// content that follows (RFC 9110 §8.6).
  public internal(set) var contentLength: Int?

  /// Creates a response.
  public init(status: Int, fields: FieldLines = [:]) {
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
  private var fields = FieldLines()

  /// Discards the last section but keeps its storage.
  mutating func reset() {
    isOversized = false
    status = 0
    contentLength = nil
    size = SectionSize()
    fields = FieldLines()
  }

  mutating func add(
    _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>, limits: HTTP2Limits
  ) {
    guard !isOversized else { return }
    guard unsafe size.add(name, value, limits) else {
      reset()
      isOversized = true
      return
    }
    // Safe: the spans do not leave this call, which has the bytes.
    let (name, value) = unsafe (Span(_unsafeElements: name), Span(_unsafeElements: value))
    if name[0] == UInt8(ascii: ":") {
      status = value.decimal ?? 0
    } else {
      // The library accepts one Content-Length only, with digits only, within the range of its integer.
      if name.equals(name.indices, "content-length") { contentLength = value.decimal }
      fields.append(name, value)
    }
  }

  func response() -> HTTP2ResponseHead {
    var head = HTTP2ResponseHead(status: status, fields: fields)
    head.contentLength = contentLength
    return head
  }
}

extension Span<UInt8> {
  fileprivate var decimal: Int? { Int(string(in: indices)) }
}

/// The size of the received part of a header section.
struct SectionSize {
  /// The size as RFC 9113 §6.5.2 counts it.
  private(set) var bytes = 0
  private var lines = 0

  mutating func add(
    _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>, _ limits: HTTP2Limits
  ) -> Bool {
    // RFC 9113 §6.5.2 adds 32 for each field. A frame or a table entry bounds both counts.
    bytes += name.count + value.count + 32
    if unsafe name.first != UInt8(ascii: ":") { lines += 1 }
    return bytes <= limits.fieldSection && lines <= limits.fieldLines
  }
}
