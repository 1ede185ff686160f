import Bytes
public import HTTPTypes

/// A serializer of response heads (RFC 9112 §4, §5). The output is always one well-formed head: control characters in
/// values become spaces. It allocates only the growth of the output array.
public enum ResponseSerializer {
  /// Appends a response head, including its final empty line.
  /// - Parameters:
  ///   - prepared: Field lines that are already serialized, for many responses.
  ///   - encoded: Field lines that are already serialized, for this response. A Date among them replaces `date`.
  ///   - fields: The handler's other fields. The serializer omits those of framing and connection.
  ///   - contentLength: The length in bytes, for HEAD that of GET; nil for none. Not sent with 1xx, 204, 304 (RFC 9110 §8.6).
  ///   - isChunked: Whether the content follows in chunks (RFC 9112 §7.1), because its length is unknown.
  ///   - date: The value of Date. A Date in `fields`, which comes from an origin, replaces it.
  ///   - requestID: The value of X-Request-ID, which replaces one in `fields`. An empty value writes nothing.
  ///   - version: The version of the request. HTTP/1.0 needs a field to keep the connection open.
  public static func append(
    status: HTTPResponse.Status, prepared: FieldSection = .empty, encoded: FieldSection = .empty, fields: HTTPFields,
    contentLength: Int?, isChunked: Bool = false, date: Span<UInt8>, requestID: Span<UInt8>, keepAlive: Bool,
    version: HTTPVersion, to output: inout [UInt8]
  ) {
    output.appendStatusLine(status)
    output.append(copying: prepared.bytes.span)
    output.append(copying: encoded.bytes.span)
    var needsDate = !encoded.hasDate
    for field in fields {
      switch Role(field.name) {
      case .omitted: continue
      case .requestID where !requestID.isEmpty: continue
      case .date: needsDate = false
      case .requestID, .plain: break
      }
      output.appendFieldLine(field)
    }
    output.append(addingCapacity: date.count + requestID.count + roomForOwnFields) {
      (line: inout OutputSpan<UInt8>) in
      if needsDate, !date.isEmpty {
        line.append("Date")
        line.appendFieldValue(date)
      }
      if let contentLength, status.code >= 200, status.code != 204, status.code != 304 {
        line.append("Content-Length: ")
        line.append(decimal: contentLength)
        line.append("\r\n")
      }
      if isChunked { line.append("Transfer-Encoding: chunked\r\n") }
      if !requestID.isEmpty {
        line.append("X-Request-ID")
        line.appendFieldValue(requestID)
      }
      // The version may already mean the same (RFC 9112 §9.3, §9.6).
      if !keepAlive {
        line.append("Connection: close\r\n")
      } else if version == .http10 {
        line.append("Connection: keep-alive\r\n")
      }
      line.append("\r\n")
    }
  }

  /// The most bytes of the fields that the server writes, without Date and X-Request-ID: 8, 39, 28, 16, 24 and CRLF.
  private static let roomForOwnFields = 128

  /// Appends the interim response that requests the body (RFC 9110 §15.2.1).
  public static func appendContinue(to output: inout [UInt8]) { output.append("HTTP/1.1 100 Continue\r\n\r\n") }

  /// What a field is to the serializer, which writes all except the plain ones itself.
  fileprivate enum Role {
    case plain, date, requestID
    /// Connection, Content-Length, Keep-Alive, Transfer-Encoding, Upgrade.
    case omitted

    @inline(__always)
    init(_ name: HTTPField.Name) { self = name.canonicalName.withUTF8Bytes { Role($0.indices, in: $0) } }

    @inline(__always)
    init(_ name: Range<Int>, in bytes: Span<UInt8>) {
      switch name.count {
      case 4 where bytes.equalsIgnoringCase(name, "date"): self = .date
      case 7 where bytes.equalsIgnoringCase(name, "upgrade"): self = .omitted
      case 10 where bytes.equalsIgnoringCase(name, "connection"): self = .omitted
      case 10 where bytes.equalsIgnoringCase(name, "keep-alive"): self = .omitted
      case 12 where bytes.equalsIgnoringCase(name, "x-request-id"): self = .requestID
      case 14 where bytes.equalsIgnoringCase(name, "content-length"): self = .omitted
      case 17 where bytes.equalsIgnoringCase(name, "transfer-encoding"): self = .omitted
      default: self = .plain
      }
    }
  }
}

extension [UInt8] {
  /// Appends a field line. Control characters in the value become spaces, so that none can end the line.
  mutating func appendFieldLine(_ field: HTTPField) {
    // HTTPField.Name guarantees that a name is a token.
    let name = field.name.rawName
    unsafe field.withUnsafeBytesOfValue { bytes in
      // Safe: the span does not leave the closure that has the bytes.
      let value = unsafe Span(_unsafeElements: bytes)
      // The array grows once for each line: to append its parts one by one takes twice the time.
      append(addingCapacity: name.utf8.count + value.count + 4) { (line: inout OutputSpan<UInt8>) in
        line.append(utf8: name)
        line.appendFieldValue(value)
      }
    }
  }

  mutating func appendLines(of section: FieldLines, _ isIncluded: (_ name: Range<Int>, _ bytes: Span<UInt8>) -> Bool) {
    let span = section.bytes.span
    for line in section.lines where isIncluded(line.name, span) { append(line, of: section) }
  }

  /// Appends the status line. The version is always the server's own, regardless of the request's (RFC 9110 §2.5).
  mutating func appendStatusLine(_ status: HTTPResponse.Status) {
    if let line = Self.statusLine(status.code) { return append(line) }
    append("HTTP/1.1 ")
    append(decimal: status.code, width: 3)
    append(.space)
    status.reasonPhrase.withUTF8Bytes { appendSafely($0) }
    append("\r\n")
  }

  /// Returns the whole status line of a code that this server itself responds with.
  private static func statusLine(_ code: Int) -> StaticString? {
    switch code {
    case 200: "HTTP/1.1 200 OK\r\n"
    case 204: "HTTP/1.1 204 No Content\r\n"
    case 304: "HTTP/1.1 304 Not Modified\r\n"
    case 400: "HTTP/1.1 400 Bad Request\r\n"
    case 401: "HTTP/1.1 401 Unauthorized\r\n"
    case 403: "HTTP/1.1 403 Forbidden\r\n"
    case 404: "HTTP/1.1 404 Not Found\r\n"
    case 405: "HTTP/1.1 405 Method Not Allowed\r\n"
    case 408: "HTTP/1.1 408 Request Timeout\r\n"
    case 413: "HTTP/1.1 413 Content Too Large\r\n"
    case 414: "HTTP/1.1 414 URI Too Long\r\n"
    case 417: "HTTP/1.1 417 Expectation Failed\r\n"
    case 429: "HTTP/1.1 429 Too Many Requests\r\n"
    case 431: "HTTP/1.1 431 Request Header Fields Too Large\r\n"
    case 500: "HTTP/1.1 500 Internal Server Error\r\n"
    case 501: "HTTP/1.1 501 Not Implemented\r\n"
    case 502: "HTTP/1.1 502 Bad Gateway\r\n"
    case 503: "HTTP/1.1 503 Service Unavailable\r\n"
    case 504: "HTTP/1.1 504 Gateway Timeout\r\n"
    case 505: "HTTP/1.1 505 HTTP Version Not Supported\r\n"
    default: nil
    }
  }

  /// Appends a field value or a reason phrase. Control characters except HTAB become spaces (RFC 9110 §5.5).
  mutating func appendSafely(_ bytes: Span<UInt8>) {
    append(addingCapacity: bytes.count) { (output: inout OutputSpan<UInt8>) in output.append(copyingText: bytes) }
  }
}

extension OutputSpan<UInt8> {
  /// Appends the part of a field line after its name. Control characters in the value become spaces.
  @inline(__always)
  mutating func appendFieldValue(_ value: Span<UInt8>) {
    append(.colon)
    append(.space)
    append(copyingText: value)
    append(.carriageReturn)
    append(.lineFeed)
  }

  /// Appends a copy of `bytes` in which control characters are spaces. Traps without room for it.
  @inline(__always)
  fileprivate mutating func append(copyingText bytes: Span<UInt8>) {
    var start = 0
    while true {
      let end = bytes.endOfText(from: start)
      append(copying: bytes.extracting(start..<end))
      guard end < bytes.count else { return }
      append(.space)
      start = end + 1
    }
  }
}

/// Serialized field lines that many responses share. Each response copies the bytes.
public struct FieldSection: Sendable, Equatable {
  package private(set) var bytes: [UInt8] = []
  /// Whether there is a Date, which comes from an origin.
  private(set) var hasDate = false

  /// A section without field lines.
  public static let empty = FieldSection([:])

  /// Serializes `fields`, except those that the server writes for each response.
  public init(_ fields: HTTPFields) { for field in fields { append(field) } }

  /// The number of bytes.
  public var count: Int { bytes.count }

  /// Appends the lines whose name `isIncluded`, except those that the server writes for each response.
  public mutating func append(_ lines: FieldLines, where isIncluded: (_ name: Range<Int>, _ bytes: Span<UInt8>) -> Bool)
  {
    bytes.appendLines(of: lines) { name, bytes in
      isIncluded(name, bytes) && ResponseSerializer.Role(name, in: bytes) == .plain
    }
  }

  /// Makes room for this many more bytes.
  public mutating func reserveRoom(for count: Int) { bytes.reserveCapacity(bytes.count + count) }

  /// Appends the Date of an origin.
  public mutating func append(date: Span<UInt8>) {
    append("Date", date)
    hasDate = true
  }

  /// Appends a field line with a value of visible ASCII characters.
  public mutating func append(_ name: StaticString, _ value: StaticString) {
    append(name, upTo: value.utf8CodeUnitCount) { $0.append(value) }
  }

  /// Appends a field line whose value `appendValue` appends: at most `most` visible ASCII characters and spaces.
  public mutating func append(_ name: StaticString, upTo most: Int, _ appendValue: (inout OutputSpan<UInt8>) -> Void) {
    bytes.append(addingCapacity: name.utf8CodeUnitCount + most + 4) { (line: inout OutputSpan<UInt8>) in
      line.append(name)
      line.append(": ")
      appendValue(&line)
      line.append("\r\n")
    }
  }

  /// Appends a field line. Control characters in the value become spaces.
  public mutating func append(_ name: StaticString, _ value: Span<UInt8>) {
    bytes.append(addingCapacity: name.utf8CodeUnitCount + value.count + 4) { (line: inout OutputSpan<UInt8>) in
      line.append(name)
      line.appendFieldValue(value)
    }
  }

  /// Appends a field line, unless it is one that the server writes for each response.
  public mutating func append(_ field: HTTPField) {
    guard ResponseSerializer.Role(field.name) == .plain else { return }
    bytes.appendFieldLine(field)
  }

  /// Appends the lines of another section that begin at byte `start`.
  public mutating func append(_ other: FieldSection, from start: Int = 0) {
    bytes.append(copying: other.bytes.span.extracting(start...))
    hasDate = hasDate || other.hasDate
  }

  /// The same lines in as much memory as they need.
  public var withoutSpareRoom: FieldSection {
    var copy = self
    copy.bytes = []
    copy.bytes.reserveCapacity(count)
    copy.bytes.append(copying: bytes.span)
    return copy
  }
}

/// A point in time in the format of HTTP: `Sun, 06 Nov 1994 08:49:37 GMT` (IMF-fixdate, RFC 9110 §5.6.7).
public struct HTTPDate: Sendable, Equatable {
  /// The seconds since 1970-01-01 00:00:00 UTC without leap seconds, at most the last second of the year 9999.
  public let secondsSinceEpoch: Int

  /// Creates the date nearest to a time that the format can express.
  public init(secondsSinceEpoch: Int) { self.secondsSinceEpoch = min(max(secondsSinceEpoch, 0), 253_402_300_799) }

  /// Appends the 29 bytes of the date.
  public func append(to output: inout [UInt8]) {
    // One append, because this is a part of every new response.
    output.append(addingCapacity: 29) { (text: inout OutputSpan<UInt8>) in append(to: &text) }
  }

  /// The date.
  public var text: InlineArray<29, UInt8> { InlineArray { (text: inout OutputSpan<UInt8>) in append(to: &text) } }

  /// Returns the date of a time in seconds since the epoch.
  package static func text(_ secondsSinceEpoch: Int) -> String {
    let text = HTTPDate(secondsSinceEpoch: secondsSinceEpoch).text
    return String(decoding: text.indices.map { text[$0] }, as: UTF8.self)
  }

  private func append(to text: inout OutputSpan<UInt8>) {
    let (days, time) = secondsSinceEpoch.quotientAndRemainder(dividingBy: 86400)
    let date = CivilDate(daysSinceEpoch: days)
    // The epoch was a Thursday.
    text.appendName((days + 4) % 7, of: "SunMonTueWedThuFriSat")
    text.append(.comma)
    text.append(.space)
    text.append(twoDigits: date.day)
    text.append(.space)
    text.appendName(date.month - 1, of: "JanFebMarAprMayJunJulAugSepOctNovDec")
    text.append(.space)
    text.append(twoDigits: date.year / 100)
    text.append(twoDigits: date.year % 100)
    text.append(.space)
    text.append(twoDigits: time / 3600)
    text.append(.colon)
    text.append(twoDigits: time / 60 % 60)
    text.append(.colon)
    text.append(twoDigits: time % 60)
    text.append(" GMT")
  }
}

extension OutputSpan<UInt8> {
  /// Appends the three-letter name at `index` of a string of such names.
  fileprivate mutating func appendName(_ index: Int, of names: StaticString) {
    for offset in index * 3..<index * 3 + 3 {
      // Safe: a weekday is below 7 and a month below 12, so the three letters are within the literal.
      unsafe append(names.utf8Start[offset])
    }
  }
}

/// A serializer of requests (RFC 9112 §3, §5, §7.1). The output is always one well-formed head: control characters in
/// values become spaces, and a target that would end the request line is refused.
public enum RequestSerializer {
  /// Appends a request head, including its final empty line.
  /// - Parameters:
  ///   - target: The request target in origin form, sent byte for byte.
  ///   - host: The value of Host: name or address, with the port unless it is the scheme's default.
  ///   - fields: The end-to-end fields. The serializer omits the fields of the connection: Connection, Content-Length,
  ///     Host, Keep-Alive, Proxy-Authorization, Proxy-Connection, TE, Trailer, Transfer-Encoding, Upgrade.
  ///   - credential: A field that is sent after `fields`.
  ///   - framing: The framing of the content. Methods that usually have some send a Content-Length of 0 (RFC 9110 §8.6).
  /// - Throws: ``RequestError/malformedTarget`` unless ``isOriginForm(_:)``.
  public static func append(
    _ method: HTTPRequest.Method, target: Span<UInt8>, host: String, fields: FieldLines,
    credential: FieldLines = FieldLines(), framing: MessageFraming, to output: inout [UInt8]
  ) throws(RequestError) {
    guard isOriginForm(target) else { throw .malformedTarget }
    appendLine(method, target, host, to: &output)
    output.appendLines(of: fields) { name, bytes in
      !bytes.isOfConnection(name) && !bytes.equalsIgnoringCase(name, "host")
        && !bytes.equalsIgnoringCase(name, "proxy-authorization")
    }
    output.appendLines(of: credential) { _, _ in true }
    switch framing {
    case .none where [.post, .put, .patch].contains(method): output.append("Content-Length: 0\r\n")
    case .none, .untilClose: break
    case .fixed(let length):
      output.append("Content-Length: ")
      output.append(decimal: length)
      output.append("\r\n")
    case .chunked: output.append("Transfer-Encoding: chunked\r\n")
    }
    output.append("\r\n")
  }

  /// Returns whether a target is a slash and visible ASCII, so that it cannot end its line (RFC 9112 §3.2.1).
  public static func isOriginForm(_ target: Span<UInt8>) -> Bool {
    guard !target.isEmpty, target[0] == .slash else { return false }
    return target.indices.allSatisfy { 0x21...0x7e ~= target[$0] }
  }

  /// Appends a request to a proxy to open a tunnel to `authority`, host and port (RFC 9110 §9.3.6).
  public static func appendConnect(to authority: String, authorization: String?, _ output: inout [UInt8]) {
    authority.withUTF8Bytes { appendLine(.connect, $0, authority, to: &output) }
    if let authorization { output.appendFieldLine(HTTPField(name: .proxyAuthorization, value: authorization)) }
    output.append("\r\n")
  }

  private static func appendLine(
    _ method: HTTPRequest.Method, _ target: Span<UInt8>, _ host: String, to output: inout [UInt8]
  ) {
    // The type guarantees that a method is a token.
    output.append(utf8: method.rawValue)
    output.append(.space)
    output.append(copying: target)
    output.append(" HTTP/1.1\r\nHost: ")
    host.withUTF8Bytes { output.appendSafely($0) }
    output.append("\r\n")
  }
}
