import Bytes
import CNghttp2
import HTTPTypes

/// A header section to be sent, laid out as the library takes it. Kept from message to message for its storage.
///
/// Safe: its pointers are into its own bytes, and read only while `withPairs` holds those.
@safe struct FieldBlock {
  /// Its size as RFC 9113 §6.5.2 counts it.
  private(set) var size = 0
  private var bytes: [UInt8] = []
  private var lines: [Line] = []
  private var pairs: [nghttp2_nv] = unsafe []

  private struct Line {
    var name: Int
    var value: Int
    var flags: UInt8
  }

  /// Begins a request. CONNECT has neither scheme nor path (RFC 9113 §8.5).
  mutating func begin(_ head: HTTP2RequestHead) {
    reset()
    append(":method", head.method)
    if !head.scheme.isEmpty { append(":scheme", head.scheme) }
    append(":authority", head.authority)
    if !head.path.isEmpty { append(":path", head.path) }
    append(head.fields)
  }

  /// Begins a response.
  mutating func begin(_ head: HTTP2ResponseHead) {
    reset()
    append(":status", "\(head.status)")
    append(head.fields)
  }

  /// Calls `body` with the fields, which the library copies.
  mutating func withPairs<Result>(_ body: (UnsafePointer<nghttp2_nv>?, Int) -> Result) -> Result {
    unsafe pairs.removeAll(keepingCapacity: true)
    return unsafe bytes.withUnsafeMutableBufferPointer { buffer in
      guard var next = buffer.baseAddress else { return body(nil, 0) }
      for line in lines {
        // Safe: the lines cover the bytes, in order.
        let value = unsafe next + line.name
        unsafe pairs.append(
          nghttp2_nv(name: next, value: value, namelen: line.name, valuelen: line.value, flags: line.flags))
        unsafe next = value + line.value
      }
      return unsafe pairs.withUnsafeBufferPointer { unsafe body($0.baseAddress, $0.count) }
    }
  }

  private mutating func reset() {
    size = 0
    bytes.removeAll(keepingCapacity: true)
    lines.removeAll(keepingCapacity: true)
  }

  private mutating func append(_ name: StaticString, _ value: String) {
    bytes.append(name)
    bytes.append(contentsOf: value.utf8)
    note(Line(name: name.utf8CodeUnitCount, value: value.utf8.count, flags: 0))
  }

  private mutating func append(_ fields: HTTPFields) {
    for field in fields {
      let name = field.name.canonicalName
      guard !Self.isOfConnection(name) else { continue }
      bytes.append(contentsOf: name.utf8)
      let valueCount = unsafe field.withUnsafeBytesOfValue { value in
        unsafe bytes.append(contentsOf: value)
        return value.count
      }
      let isSecret = field.indexingStrategy == .disallow || field.indexingStrategy == .avoid
      let flags = isSecret ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE
      note(Line(name: name.utf8.count, value: valueCount, flags: UInt8(truncatingIfNeeded: flags.rawValue)))
    }
  }

  private mutating func note(_ line: Line) {
    size += line.name + line.value + 32
    lines.append(line)
  }

  /// Fields that no HTTP/2 message may have (RFC 9113 §8.2.2), and Host, which `:authority` stands for (§8.3.1).
  private static func isOfConnection(_ name: String) -> Bool {
    switch name {
    case "connection", "host", "http2-settings", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade": true
    default: false
    }
  }
}
