import Bytes
public import HTTPTypes

/// A request's control data and header section, as HTTP/2 carries them (RFC 9113 §8.3.1).
///
/// One that was received is well-formed: lower-case tokens for names, field values as RFC 9110 §5.5 has them, no field
/// of the connection. Nothing has judged what method, scheme, authority and path mean.
public struct HTTP2RequestHead: Sendable, Equatable {
  /// `:method`.
  public var method: String
  /// `:scheme`; empty for CONNECT.
  public var scheme: String
  /// `:authority`; in a received request without one, the value of its Host field. Those two never differ but in case.
  public var authority: String
  /// `:path`, with its query; empty for CONNECT.
  public var path: String
  /// The header fields, without Host.
  public var fields: HTTPFields
  /// The value of Content-Length, in bytes, if a received request has one. To be sent, it must be among the fields.
  public internal(set) var contentLength: Int?

  /// A request to send.
  public init(method: String, scheme: String, authority: String, path: String, fields: HTTPFields = [:]) {
    self.method = method
    self.scheme = scheme
    self.authority = authority
    self.path = path
    self.fields = fields
  }
}

/// A final response's status and header section, as HTTP/2 carries them (RFC 9113 §8.3.2).
///
/// One that was received is well-formed: lower-case tokens for names, field values as RFC 9110 §5.5 has them, no field
/// of the connection.
public struct HTTP2ResponseHead: Sendable, Equatable {
  /// `:status`: 200…999 in a received one, since informational responses are left out.
  public var status: Int
  /// The header fields.
  public var fields: HTTPFields
  /// The value of Content-Length, in bytes, if a received response has one; of a response to HEAD and of a 304 it says
  /// nothing about the content that follows (RFC 9110 §8.6). To be sent, it must be among the fields.
  public internal(set) var contentLength: Int?

  /// A response to send.
  public init(status: Int, fields: HTTPFields = [:]) {
    self.status = status
    self.fields = fields
  }
}

/// Puts together the header section that is being received; there is one at a time on a connection (RFC 9113 §4.3).
///
/// The library has checked each field (names, values, order and number of pseudo-header fields, fields of the
/// connection); this bounds them and keeps them.
struct HeadBuilder {
  /// Whether it went over a limit. From then on nothing is kept.
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

  /// Forgets the last section but keeps its storage.
  mutating func reset() {
    isOversized = false
    status = 0
    (method, scheme, path) = ("", "", "")
    (authority, host, contentLength) = (nil, nil, nil)
    size = 0
    fields.removeAll(keepingCapacity: true)
  }

  /// Takes a field line.
  mutating func add(
    _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>, limits: HTTP2Limits
  ) {
    guard !isOversized else { return }
    // RFC 9113 §6.5.2 counts 32 for each field. Neither count is above what one frame or table entry holds.
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

  /// The request; nil if its Host field contradicts `:authority` (RFC 9113 §8.3.1).
  func request() -> HTTP2RequestHead? {
    if let authority, let host, ByteString(authority).lowercasedASCII != ByteString(host).lowercasedASCII { return nil }
    var head = HTTP2RequestHead(
      method: method, scheme: scheme, authority: authority ?? host ?? "", path: path, fields: httpFields())
    head.contentLength = contentLength
    return head
  }

  /// The response.
  func response() -> HTTP2ResponseHead {
    var head = HTTP2ResponseHead(status: status, fields: httpFields())
    head.contentLength = contentLength
    return head
  }

  private func httpFields() -> HTTPFields {
    var all = HTTPFields()
    // All at once: to append one by one costs a generic call for each.
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
    // The library takes digits only, once, no more of them than fit.
    case "content-length": contentLength = unsafe Int(String(decoding: value, as: UTF8.self))
    default: break
    }
    guard name.canonicalName != "host" else { return }
    unsafe fields.append(HTTPField(name: name, value: value))
  }
}
