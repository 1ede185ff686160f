import Bytes
import CNghttp2
import HTTPTypes

/// A header section to be sent, in the layout of nghttp2. A session reuses one block to keep its storage.
///
/// Safe: the pointers refer to the bytes of this block, and are read only while `withPairs` holds those bytes.
@safe struct FieldBlock {
  /// The size as RFC 9113 §6.5.2 counts it.
  private(set) var size = 0
  private var bytes: [UInt8] = []
  private var lines: [Line] = []
  private var pairs: [nghttp2_nv] = unsafe []

  private struct Line {
    var name: Int
    var value: Int
    var flags: UInt8
  }

  /// Starts a request. CONNECT has neither scheme nor path (RFC 9113 §8.5).
  mutating func begin(_ head: HTTP2RequestHead) {
    reset()
    append(":method", head.method)
    if !head.scheme.isEmpty { append(":scheme", head.scheme) }
    append(":authority", head.authority)
    if !head.path.isEmpty { append(":path", head.path) }
    append(head.fields)
  }

  /// Starts a response.
  mutating func begin(_ head: HTTP2ResponseHead) {
    reset()
    append(":status", "\(head.status)")
    append(head.fields)
  }

  /// Calls `body` with the fields. The library copies them.
  mutating func withPairs<Result>(_ body: (UnsafePointer<nghttp2_nv>?, Int) -> Result) -> Result {
    unsafe pairs.removeAll(keepingCapacity: true)
    return unsafe bytes.withUnsafeMutableBufferPointer { buffer in
      guard var next = buffer.baseAddress else { return body(nil, 0) }
      for line in lines {
        // Safe: the lines cover the bytes in order.
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
    bytes.append(utf8: value)
    note(Line(name: name.utf8CodeUnitCount, value: value.utf8.count, flags: 0))
  }

  private mutating func append(_ fields: HTTPFields) {
    for field in fields {
      let name = field.name.canonicalName
      guard !Self.isOfConnection(name) else { continue }
      bytes.append(utf8: name)
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

  /// Returns whether HTTP/2 forbids the field (RFC 9113 §8.2.2), or it is Host, which `:authority` replaces (§8.3.1).
  private static func isOfConnection(_ name: String) -> Bool {
    switch name {
    case "connection", "host", "http2-settings", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade": true
    default: false
    }
  }
}

/// The field names that are common in HTTP/2, created once: a new name of more than 15 bytes costs an allocation.
enum FieldNames {
  /// Returns the name with these bytes. Returns nil if the bytes are not a lower-case token (RFC 9113 §8.2.1).
  static func name(_ bytes: UnsafeBufferPointer<UInt8>) -> HTTPField.Name? {
    for name in unsafe table[bucket(of: bytes.count, bytes.first, bytes.last)]
    where unsafe name.canonicalName.utf8.elementsEqual(bytes) {
      return name
    }
    return HTTPField.Name(parsed: unsafe String(decoding: bytes, as: UTF8.self))
  }

  /// Hash table of names by length, first and last byte. Most buckets have one name.
  private static let table: [[HTTPField.Name]] = {
    var table = Array(repeating: [HTTPField.Name](), count: 256)
    for text in common {
      guard let name = HTTPField.Name(parsed: text) else { continue }
      table[bucket(of: text.utf8.count, text.utf8.first, text.utf8.last)].append(name)
    }
    return table
  }()

  private static func bucket(of count: Int, _ first: UInt8?, _ last: UInt8?) -> Int {
    (count &* 11 &+ Int(first ?? 0) &* 3 &+ Int(last ?? 0)) & 0xff
  }

  /// The common fields of requests and responses on this server. A missing name costs only time.
  private static let common = [
    "accept", "accept-charset", "accept-encoding", "accept-language", "accept-ranges", "access-control-allow-headers",
    "access-control-allow-methods", "access-control-allow-origin", "access-control-expose-headers",
    "access-control-max-age", "access-control-request-headers", "access-control-request-method", "age", "allow",
    "alt-svc", "authorization", "cache-control", "cdnuuid", "content-disposition", "content-encoding",
    "content-language", "content-length", "content-location", "content-range", "content-security-policy",
    "content-type", "cookie", "date", "etag", "expect", "expires", "forwarded", "from", "host", "if-match",
    "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "last-modified", "link", "location",
    "max-forwards", "media-user-token", "music-user-token", "origin", "pragma", "priority", "proxy-authenticate",
    "proxy-authorization", "range", "referer", "retry-after", "sec-ch-ua", "sec-ch-ua-mobile", "sec-ch-ua-platform",
    "sec-fetch-dest", "sec-fetch-mode", "sec-fetch-site", "sec-fetch-user", "server", "server-timing", "set-cookie",
    "strict-transport-security", "te", "trailer", "traceparent", "tracestate", "upgrade-insecure-requests",
    "user-agent", "vary", "via", "www-authenticate", "x-api-key", "x-apple-application-instance",
    "x-apple-application-site", "x-apple-jingle-correlation-key", "x-apple-orig-url", "x-apple-request-uuid",
    "x-cache", "x-cache-remote", "x-content-type-options", "x-forwarded-for", "x-forwarded-proto", "x-frame-options",
    "x-limit-policy", "x-rate-limit-policy", "x-request-id", "x-responding-instance", "x-xss-protection",
  ]
}
