import Bytes

/// A decoder of the chunked transfer coding (RFC 9112 §7.1), strict and incremental. It keeps no bytes.
///
/// Strict means: sizes of 1 to 16 hexadecimal digits; no white space in a chunk's first line but inside quoted strings
/// (the grammar has it as "bad white space", which no sender may generate); CRLF and nothing else at the end of every
/// line. Trailer fields are checked like field lines and thrown away, as RFC 9110 §6.5.1 advises for all that one has
/// no use for.
public struct ChunkedDecoder: Sendable {
  /// What the next byte belongs to.
  enum State {
    case size, sizeEnd
    case extensionName, extensionValue, extensionToken, extensionQuoted, extensionEscape, extensionQuotedEnd
    case data, dataEnd, dataLineFeed
    case trailerStart, trailerName, trailerValue, trailerEnd
    case lastLineFeed, ended
  }

  let limits: HTTP1Limits
  var state = State.size
  /// The size being read, then what is left of the chunk's data.
  var remaining = 0
  var sizeDigits = 0
  /// Whether the name of the extension or of the trailer field being read has a character yet.
  var hasName = false
  var extensionBytes = 0
  var trailerBytes = 0
  var trailerLines = 0
  private var refusal: RequestError?

  /// Makes a decoder that is ready for the first byte of a body.
  public init(limits: HTTP1Limits = .init()) {
    self.limits = limits
  }

  /// Takes bytes from the front of `bytes`. Call it again with what is behind the consumed ones, until the end.
  ///
  /// - Parameter bytes: Received bytes that were not consumed yet.
  /// - Returns: What was found, and how many bytes it took: never any behind the end of the body, and all of them with
  ///   ``Event/needMore``.
  /// - Throws: ``RequestError``, and the same one ever after.
  public mutating func decode(_ bytes: Span<UInt8>) throws(RequestError) -> (consumed: Int, event: Event) {
    if let refusal { throw refusal }
    do {
      return try advance(in: bytes)
    } catch {
      refusal = error
      throw error
    }
  }

  private mutating func advance(in bytes: Span<UInt8>) throws(RequestError) -> (consumed: Int, event: Event) {
    var index = 0
    while index < bytes.count, state != .ended {
      if state == .data {
        let end = index &+ min(remaining, bytes.count &- index)
        remaining &-= end &- index
        if remaining == 0 { state = .dataEnd }
        return (end, .data(index..<end))
      }
      try step(bytes[index])
      index &+= 1
    }
    return (index, state == .ended ? .end : .needMore)
  }

  /// Takes one byte that is not chunk data.
  private mutating func step(_ byte: UInt8) throws(RequestError) {
    switch state {
    case .size: try stepSize(byte)
    case .sizeEnd: try expectLineFeed(byte, then: remaining == 0 ? .trailerStart : .data)
    case .extensionName, .extensionValue, .extensionToken, .extensionQuoted, .extensionEscape, .extensionQuotedEnd:
      try stepExtension(byte)
    case .data, .ended: break
    case .dataEnd:
      guard byte == .carriageReturn else { throw RequestError(forbidden: byte) ?? .malformedChunkEnd }
      state = .dataLineFeed
    case .dataLineFeed:
      try expectLineFeed(byte, then: .size)
      sizeDigits = 0
    case .trailerStart, .trailerName, .trailerValue, .trailerEnd: try stepTrailer(byte)
    case .lastLineFeed: try expectLineFeed(byte, then: .ended)
    }
  }

  private mutating func stepSize(_ byte: UInt8) throws(RequestError) {
    if let digit = byte.hexadecimalDigit {
      guard sizeDigits < 16, remaining <= Int.max >> 4 else { throw .malformedChunkSize }
      remaining = remaining << 4 | Int(digit)
      sizeDigits += 1
      return
    }
    guard sizeDigits > 0, byte == .carriageReturn || byte == .semicolon else {
      throw RequestError(forbidden: byte) ?? .malformedChunkSize
    }
    if byte == .carriageReturn { state = .sizeEnd } else { try startExtension() }
  }

  /// Takes the LF that has to follow a CR.
  func expectLineFeed(_ byte: UInt8) throws(RequestError) {
    guard byte == .lineFeed else { throw .bareCarriageReturn }
  }

  private mutating func expectLineFeed(_ byte: UInt8, then next: State) throws(RequestError) {
    try expectLineFeed(byte)
    state = next
  }
}

extension ChunkedDecoder {
  /// What ``decode(_:)`` found.
  public enum Event: Sendable, Equatable {
    /// Nothing more in these bytes.
    case needMore
    /// Chunk data, as a range of the bytes that were passed in. Never empty.
    case data(Range<Int>)
    /// The end of the body, trailer section included.
    case end
  }
}

extension ChunkedDecoder {
  /// Begins an extension at its semicolon.
  mutating func startExtension() throws(RequestError) {
    try countExtensionByte()
    state = .extensionName
    hasName = false
  }

  /// Takes one byte of `*( ";" chunk-ext-name [ "=" chunk-ext-val ] )` (RFC 9112 §7.1.1).
  mutating func stepExtension(_ byte: UInt8) throws(RequestError) {
    if state == .extensionQuoted || state == .extensionEscape { return try stepQuotedString(byte) }
    let canEnd = state == .extensionName ? hasName : state != .extensionValue
    if byte == .carriageReturn, canEnd {
      state = .sizeEnd
      return
    }
    if byte == .semicolon, canEnd { return try startExtension() }
    try countExtensionByte()
    switch state {
    case .extensionName where ByteSet.token.contains(byte): hasName = true
    case .extensionName where byte == .equalsSign && hasName: state = .extensionValue
    case .extensionValue where byte == .doubleQuote: state = .extensionQuoted
    case .extensionValue where ByteSet.token.contains(byte): state = .extensionToken
    case .extensionToken where ByteSet.token.contains(byte): break
    default: throw RequestError(forbidden: byte) ?? .malformedChunkExtension
    }
  }

  /// Takes one byte of a quoted string behind its opening quote (RFC 9110 §5.6.4).
  private mutating func stepQuotedString(_ byte: UInt8) throws(RequestError) {
    try countExtensionByte()
    guard !byte.isControl || byte == .horizontalTab else {
      throw RequestError(forbidden: byte) ?? .malformedChunkExtension
    }
    if state == .extensionEscape {
      state = .extensionQuoted
    } else if byte == .doubleQuote {
      state = .extensionQuotedEnd
    } else if byte == .backslash {
      state = .extensionEscape
    }
  }

  /// Counts a byte towards the limit on all extensions of the body.
  private mutating func countExtensionByte() throws(RequestError) {
    extensionBytes += 1
    guard extensionBytes <= limits.chunkExtensions else { throw .chunkExtensionsTooLong }
  }
}

extension ChunkedDecoder {
  /// Takes one byte of the trailer section (RFC 9112 §7.1.2): field lines, then an empty line.
  mutating func stepTrailer(_ byte: UInt8) throws(RequestError) {
    if state == .trailerStart {
      if byte == .carriageReturn {
        state = .lastLineFeed
        return
      }
      try startTrailerLine(byte)
    }
    trailerBytes += 1
    guard trailerBytes <= limits.trailerSection else { throw .trailerSectionTooLarge }
    switch state {
    case .trailerName: try stepTrailerName(byte)
    case .trailerValue where byte == .carriageReturn: state = .trailerEnd
    case .trailerValue:
      guard !byte.isControl || byte == .horizontalTab else { throw RequestError(forbidden: byte) ?? .controlCharacter }
    default:
      try expectLineFeed(byte)
      state = .trailerStart
    }
  }

  private mutating func startTrailerLine(_ byte: UInt8) throws(RequestError) {
    guard !byte.isWhitespace else { throw .obsoleteFolding }
    guard trailerLines < limits.fieldLines else { throw .tooManyFieldLines }
    trailerLines += 1
    hasName = false
    state = .trailerName
  }

  private mutating func stepTrailerName(_ byte: UInt8) throws(RequestError) {
    if byte == .colon {
      guard hasName else { throw .emptyFieldName }
      state = .trailerValue
      return
    }
    guard ByteSet.token.contains(byte) else {
      throw byte.isWhitespace ? .whitespaceInFieldName : RequestError(forbidden: byte) ?? .malformedFieldName
    }
    hasName = true
  }
}
