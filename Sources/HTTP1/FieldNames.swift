import Bytes
import HTTPTypes

/// The names of fields that belong to a connection, and not to the message that it carries.
enum ConnectionFields {
  /// Whether a field of a response is only for the connection (RFC 9110 §7.6.1, and other such fields of HTTP/1.1).
  static func hasResponseField(_ name: Range<Int>, in bytes: Span<UInt8>) -> Bool {
    switch name.count {
    case 2: bytes.equalsIgnoringCase(name, "te")
    case 7: bytes.equalsIgnoringCase(name, "upgrade") || bytes.equalsIgnoringCase(name, "trailer")
    case 10: bytes.equalsIgnoringCase(name, "connection") || bytes.equalsIgnoringCase(name, "keep-alive")
    case 14: bytes.equalsIgnoringCase(name, "content-length")
    case 16: bytes.equalsIgnoringCase(name, "proxy-connection")
    case 17: bytes.equalsIgnoringCase(name, "transfer-encoding")
    case 18: bytes.equalsIgnoringCase(name, "proxy-authenticate")
    default: false
    }
  }

  /// Whether the serializer writes a field of a request itself, or never.
  static func hasRequestField(_ name: Range<Int>, in bytes: Span<UInt8>) -> Bool {
    switch name.count {
    case 2: bytes.equalsIgnoringCase(name, "te")
    case 4: bytes.equalsIgnoringCase(name, "host")
    case 7: bytes.equalsIgnoringCase(name, "upgrade") || bytes.equalsIgnoringCase(name, "trailer")
    case 10: bytes.equalsIgnoringCase(name, "connection") || bytes.equalsIgnoringCase(name, "keep-alive")
    case 14: bytes.equalsIgnoringCase(name, "content-length")
    case 16: bytes.equalsIgnoringCase(name, "proxy-connection")
    case 17: bytes.equalsIgnoringCase(name, "transfer-encoding")
    case 19: bytes.equalsIgnoringCase(name, "proxy-authorization")
    default: false
    }
  }

  /// Whether the serializer writes a field of a response itself, for each response.
  static func isWrittenByServer(_ name: Range<Int>, in bytes: Span<UInt8>) -> Bool {
    switch name.count {
    case 4: bytes.equalsIgnoringCase(name, "date")
    case 7: bytes.equalsIgnoringCase(name, "upgrade")
    case 10: bytes.equalsIgnoringCase(name, "connection") || bytes.equalsIgnoringCase(name, "keep-alive")
    case 12: bytes.equalsIgnoringCase(name, "x-request-id")
    case 14: bytes.equalsIgnoringCase(name, "content-length")
    case 17: bytes.equalsIgnoringCase(name, "transfer-encoding")
    default: false
    }
  }
}

/// The names that responses often have. To make a name of bytes takes three strings; these exist already.
enum CommonFieldName {
  /// Returns the name with exactly these bytes, if it is a common one.
  static func find(_ name: Range<Int>, in bytes: Span<UInt8>) -> HTTPField.Name? {
    guard name.count < byLength.count else { return nil }
    return byLength[name.count].first { entry in
      let expected = entry.bytes.span
      for offset in 0..<name.count where bytes[name.lowerBound &+ offset] != expected[offset] { return false }
      return true
    }?.name
  }

  private typealias Entry = (bytes: [UInt8], name: HTTPField.Name)

  /// Apple's, those of content delivery networks, and those of every server.
  private static let spellings = [
    "Access-Control-Allow-Origin", "Age", "Apple-Seq", "Apple-Timing-App", "Apple-TK", "Cache-Control",
    "Content-Encoding", "Content-Language", "Content-Type", "Date", "ETag", "Expires", "Last-Modified", "Retry-After",
    "Server", "Set-Cookie", "Strict-Transport-Security", "Vary", "Via", "X-Apple-Application-Instance",
    "X-Apple-Application-Site", "X-Apple-Jingle-Correlation-Key", "X-Apple-Request-UUID", "X-Cache",
    "X-Content-Type-Options", "X-Daiquiri-Instance", "X-Responding-Instance",
  ]

  /// As servers of HTTP/1.1 write them, and as HTTP/2 does.
  private static let byLength: [[Entry]] = {
    var table: [[Entry]] = []
    for text in spellings + spellings.map({ $0.lowercased() }) {
      guard let name = HTTPField.Name(text) else { continue }
      while table.count <= text.utf8.count { table.append([]) }
      table[text.utf8.count].append((Array(text.utf8), name))
    }
    return table
  }()
}
