import Bytes

/// Scans the field lines of a header section or of a trailer section, up to the empty line behind them (RFC 9112 §5,
/// §7.1.2). Requests, responses and chunked content share one grammar, `field-name ":" OWS field-value OWS`, and this is
/// its only reader.
///
/// It takes no folded line, no white space before the colon, no control character but HTAB, and no line end but CRLF.
/// Each byte is scanned once, however the bytes are split, and a violation is reported as soon as its byte is there.
struct FieldLineScanner: Sendable {
  /// What ``next(in:from:)`` found.
  enum Event {
    /// Nothing more in these bytes.
    case needMore
    /// A field line, as its name and what stands between its colon and its CRLF.
    case line(name: Range<Int>, content: Range<Int>)
    /// The empty line.
    case end
  }

  /// What the next byte belongs to.
  private enum Phase {
    case lineStart, name, value, lineEnd, sectionEnd
  }

  private let maximumLines: Int
  private let tooLarge: RequestError
  /// Where the content of a line must have ended, for its CRLF to lie within the limit.
  private var contentLimit: Int
  private var phase = Phase.lineStart
  private var lines = 0
  private var lineStart: Int
  private var colon = 0

  /// The scanner of the section that begins at index `start`, by the limits on header sections.
  init(headerSectionAt start: Int, limits: HTTP1Limits) {
    self.init(at: start, lines: limits.fieldLines, bytes: limits.headerSection, tooLarge: .headerSectionTooLarge)
  }

  /// The scanner of the section that begins at index `start`, by the limits on trailer sections.
  init(trailerSectionAt start: Int, limits: HTTP1Limits) {
    self.init(at: start, lines: limits.fieldLines, bytes: limits.trailerSection, tooLarge: .trailerSectionTooLarge)
  }

  private init(at start: Int, lines: Int, bytes: Int, tooLarge: RequestError) {
    maximumLines = lines
    contentLimit = start &+ bytes &- 2
    self.tooLarge = tooLarge
    lineStart = start
  }

  /// Scans on from `position`, the first byte that has not been looked at, to the end of a line.
  ///
  /// - Throws: ``RequestError``. The scanner is of no use then.
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

  /// Counts indices from `count` bytes further on, for a reader that keeps no bytes. The ranges of a line that has begun
  /// before reach back over them.
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
    while position < bytes.count {
      guard position < contentLimit else { throw tooLarge }
      let byte = bytes[position]
      if byte == .colon {
        guard position > lineStart else { throw .emptyFieldName }
        colon = position
        position &+= 1
        phase = .value
        return
      }
      guard ByteSet.token.contains(byte) else {
        throw byte.isWhitespace ? .whitespaceInFieldName : RequestError(forbidden: byte) ?? .malformedFieldName
      }
      position &+= 1
    }
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

  /// Takes the LF that has to follow a CR.
  private mutating func endLine(in bytes: Span<UInt8>, at position: inout Int) throws(RequestError) {
    guard bytes[position] == .lineFeed else { throw .bareCarriageReturn }
    position &+= 1
    lineStart = position
    phase = .lineStart
  }
}

/// A field line of a received head, as offsets into its bytes: 16 bytes in all.
public struct FieldLine: Sendable, Equatable {
  private let nameStart: UInt32
  private let nameEnd: UInt32
  private let valueStart: UInt32
  private let valueEnd: UInt32

  /// Keeps two ranges that lie within a head. Heads are bounded far below 4 GiB by ``HTTP1Limits``.
  init(name: Range<Int>, value: Range<Int>) {
    nameStart = UInt32(clamping: name.lowerBound)
    nameEnd = UInt32(clamping: name.upperBound)
    valueStart = UInt32(clamping: value.lowerBound)
    valueEnd = UInt32(clamping: value.upperBound)
  }

  /// Keeps the line with this name, and with the value that `content` is without the white space around it.
  @inline(__always)
  init(name: Range<Int>, content: Range<Int>, in bytes: Span<UInt8>) {
    self.init(name: name, value: bytes.trimmingWhitespace(content))
  }

  /// The field name, a token.
  public var name: Range<Int> { Int(nameStart)..<Int(nameEnd) }

  /// The field value without the optional white space around it; may be empty.
  public var value: Range<Int> { Int(valueStart)..<Int(valueEnd) }
}
