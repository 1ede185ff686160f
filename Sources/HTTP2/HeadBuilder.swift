import Bytes
import HTTPTypes

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
