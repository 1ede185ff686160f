import Bytes
package import HTTPTypes

/// Lookups that compare the lengths of names first, because most differ in it, and that join no values, because most
/// fields have one line. The subscripts of `HTTPFields` cost a thousand instructions each.
extension HTTPFields {
  /// Returns the value of a field, as the subscript does: the values of several lines are joined by commas.
  package func value(of name: HTTPField.Name) -> String? {
    var value: String?
    for field in self where field.name.isSame(as: name) {
      guard value == nil else { return self[name] }
      value = field.value
    }
    return value
  }

  /// Calls `body` with the value of each line of a field.
  package func forEachValue(of name: HTTPField.Name, _ body: (String) -> Void) {
    for field in self where field.name.isSame(as: name) { body(field.value) }
  }

  /// Returns whether there is a field.
  package func has(_ name: HTTPField.Name) -> Bool {
    contains { $0.name.isSame(as: name) }
  }
}

extension HTTPField.Name {
  fileprivate func isSame(as other: HTTPField.Name) -> Bool {
    canonicalName.utf8.count == other.canonicalName.utf8.count && canonicalName == other.canonicalName
  }
}

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
  static func hasRequestField(_ name: HTTPField.Name) -> Bool {
    let name = name.canonicalName
    // The length first, because most names differ in it.
    return switch name.utf8.count {
    case 2: name == "te"
    case 4: name == "host"
    case 7: name == "upgrade" || name == "trailer"
    case 10: name == "connection" || name == "keep-alive"
    case 14: name == "content-length"
    case 16: name == "proxy-connection"
    case 17: name == "transfer-encoding"
    case 19: name == "proxy-authorization"
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
