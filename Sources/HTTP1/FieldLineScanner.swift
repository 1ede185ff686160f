import Bytes

/// A scanner of the field lines in a header section or a trailer section, to the final empty line (RFC 9112 §5,
/// §7.1.2). It refuses folded lines, white space before the colon, control characters except HTAB, and line ends other
/// than CRLF. It scans each byte once, and reports a violation as soon as its byte is there.
struct FieldLineScanner: Sendable {
  enum Event {
    /// The bytes contain no further complete line.
    case needMore
    /// A field line: its name, and the bytes between its colon and its CRLF.
    case line(name: Range<Int>, content: Range<Int>)
    /// The empty line at the end of the section.
    case end
  }

  /// The part of the section that the next byte belongs to.
  private enum Phase {
    case lineStart, name, value, lineEnd, sectionEnd
  }

  private let maximumLines: Int
  private let tooLarge: RequestError
  /// The index at which the content of a line must have ended, so that its CRLF is within the limit.
  private var contentLimit: Int
  private var phase = Phase.lineStart
  private var lines = 0
  private var lineStart: Int
  private var colon = 0

  /// Creates a scanner for the header section or the trailer section at index `start`.
  init(at start: Int = 0, limits: HTTP1Limits, isTrailerSection: Bool = false) {
    maximumLines = limits.fieldLines
    contentLimit = start &+ (isTrailerSection ? limits.trailerSection : limits.headerSection) &- 2
    tooLarge = isTrailerSection ? .trailerSectionTooLarge : .headerSectionTooLarge
    lineStart = start
  }

  /// Scans from `position`, the first unscanned byte, to the end of a line. After an error the scanner must not be used.
  @inline(__always)
  mutating func next(in bytes: Span<UInt8>, from position: inout Int) throws(RequestError) -> Event {
    while position < bytes.count {
      switch phase {
      case .lineStart: try startLine(in: bytes, from: &position)
      case .name: try scanName(in: bytes, from: &position)
      case .value: try scanValue(in: bytes, from: &position)
      case .lineEnd:
        let line = Event.line(name: lineStart..<colon, content: colon &+ 1..<position &- 1)
        try endLine(in: bytes, at: &position)
        return line
      case .sectionEnd:
        try endLine(in: bytes, at: &position)
        return .end
      }
    }
    return .needMore
  }

  /// Moves the origin of all indices by `count` bytes, for a caller that stores no bytes.
  mutating func forget(_ count: Int) {
    contentLimit &-= count
    lineStart &-= count
    colon &-= count
  }

  private mutating func startLine(in bytes: Span<UInt8>, from position: inout Int) throws(RequestError) {
    let byte = bytes[position]
    if byte == .carriageReturn {
      position &+= 1
      phase = .sectionEnd
      return
    }
    guard !byte.isWhitespace else { throw .obsoleteFolding }
    guard lines < maximumLines else { throw .tooManyFieldLines }
    lines &+= 1
    phase = .name
  }

  private mutating func scanName(in bytes: Span<UInt8>, from position: inout Int) throws(RequestError) {
    let end = min(bytes.count, contentLimit)
    let index = bytes.endOfToken(from: position, to: end)
    position = index
    guard index < end else {
      if index < bytes.count { throw tooLarge }
      return
    }
    let byte = bytes[index]
    guard byte == .colon else {
      throw byte.isWhitespace ? .whitespaceInFieldName : RequestError(forbidden: byte) ?? .malformedFieldName
    }
    guard index > lineStart else { throw .emptyFieldName }
    colon = index
    position = index &+ 1
    phase = .value
  }

  private mutating func scanValue(in bytes: Span<UInt8>, from position: inout Int) throws(RequestError) {
    position = bytes.endOfText(from: position)
    guard position <= contentLimit else { throw tooLarge }
    guard position < bytes.count else { return }
    let byte = bytes[position]
    guard byte == .carriageReturn else { throw RequestError(forbidden: byte) ?? .controlCharacter }
    position &+= 1
    phase = .lineEnd
  }

  /// Consumes the LF that must follow a CR.
  private mutating func endLine(in bytes: Span<UInt8>, at position: inout Int) throws(RequestError) {
    guard bytes[position] == .lineFeed else { throw .bareCarriageReturn }
    position &+= 1
    lineStart = position
    phase = .lineStart
  }
}

/// What the field lines of a head have stated so far about framing and connection.
struct ConnectionFacts: Sendable {
  var contentLength: Int?
  private(set) var isChunked = false
  private var asksToClose = false
  private var asksToKeepAlive = false

  /// The framing (RFC 9112 §6.3), or nil without a field for it.
  var framing: MessageFraming? { isChunked ? .chunked : contentLength.map { .fixed($0) } }

  /// RFC 9112 §9.3: "close" has precedence, then the version, then "keep-alive".
  func isKept(in version: HTTPVersion) -> Bool { !asksToClose && (version == .http11 || asksToKeepAlive) }

  /// Records Transfer-Encoding: one field line, without Content-Length (RFC 9112 §6.1). The caller checks the coding.
  mutating func noteTransferEncoding(in version: HTTPVersion) throws(RequestError) {
    guard version == .http11 else { throw .transferEncodingInHTTP10 }
    guard !isChunked else { throw .repeatedTransferEncoding }
    guard contentLength == nil else { throw .contentLengthWithTransferEncoding }
    isChunked = true
  }

  /// Records an option of Connection, and returns whether it is about the connection as a whole.
  @discardableResult
  mutating func noteOption(_ option: Range<Int>, in bytes: Span<UInt8>) -> Bool {
    let isClose = bytes.equalsIgnoringCase(option, "close")
    let isKeepAlive = bytes.equalsIgnoringCase(option, "keep-alive")
    asksToClose = asksToClose || isClose
    asksToKeepAlive = asksToKeepAlive || isKeepAlive
    return isClose || isKeepAlive
  }
}

/// A field line of a received head, as offsets into the head's bytes: 16 bytes in total.
public struct FieldLine: Sendable, Equatable {
  private let nameStart: UInt32
  private let nameEnd: UInt32
  private let valueStart: UInt32
  private let valueEnd: UInt32

  /// Stores two ranges within a head, which is far below 4 GiB.
  package init(name: Range<Int>, value: Range<Int>) {
    nameStart = UInt32(truncatingIfNeeded: name.lowerBound)
    nameEnd = UInt32(truncatingIfNeeded: name.upperBound)
    valueStart = UInt32(truncatingIfNeeded: value.lowerBound)
    valueEnd = UInt32(truncatingIfNeeded: value.upperBound)
  }

  /// Creates a line from its name, and from its content with surrounding white space.
  @inline(__always)
  init(name: Range<Int>, content: Range<Int>, in bytes: Span<UInt8>) {
    self.init(name: name, value: bytes.trimmingWhitespace(content))
  }

  /// The field name, a token.
  public var name: Range<Int> { Int(nameStart)..<Int(nameEnd) }
  /// The field value without surrounding optional white space. It may be empty.
  public var value: Range<Int> { Int(valueStart)..<Int(valueEnd) }
}

/// The elements of a list (RFC 9110 §5.6.1) without surrounding white space. No valid one has a quoted string.
struct ListElements {
  private var rest: Range<Int>?

  /// Creates the list for the field value in `range`. An empty value has one empty element.
  init(_ range: Range<Int>) { rest = range }

  /// Returns the next element, which may be empty, or nil after the last.
  mutating func next(in bytes: Span<UInt8>) -> Range<Int>? {
    guard let rest else { return nil }
    guard let comma = bytes.firstIndex(of: .comma, in: rest) else {
      self.rest = nil
      return bytes.trimmingWhitespace(rest)
    }
    self.rest = comma + 1..<rest.upperBound
    return bytes.trimmingWhitespace(rest.lowerBound..<comma)
  }
}

extension Span<UInt8> {
  /// Returns whether a field of this name belongs to a connection, not to the message (RFC 9110 §7.6.1 and others).
  func isOfConnection(_ name: Range<Int>) -> Bool {
    switch name.count {
    case 2: equalsIgnoringCase(name, "te")
    case 7: equalsIgnoringCase(name, "upgrade") || equalsIgnoringCase(name, "trailer")
    case 10: equalsIgnoringCase(name, "connection") || equalsIgnoringCase(name, "keep-alive")
    case 14: equalsIgnoringCase(name, "content-length")
    case 16: equalsIgnoringCase(name, "proxy-connection")
    case 17: equalsIgnoringCase(name, "transfer-encoding")
    default: false
    }
  }
}
