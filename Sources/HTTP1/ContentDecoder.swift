import Bytes

/// A decoder of a message's content, for all kinds of framing (RFC 9112 §6.3). It is incremental, and stores no bytes.
/// The chunked coding (RFC 9112 §7.1) is strict: sizes have 1 to 16 digits, every line ends with CRLF, and white space
/// is only in quoted strings: no sender may generate "bad white space". Trailer fields are checked and discarded.
public struct ContentDecoder: Sendable {
  /// The part of the content that the next byte belongs to.
  private enum Part {
    case size, sizeEnd
    case extensionName, extensionValue, extensionToken, extensionQuoted, extensionEscape, extensionQuotedEnd
    case data, dataEnd, dataLineFeed
    case trailers, ended
  }

  /// The result of ``decode(_:)``.
  public enum Event: Sendable, Equatable {
    /// All bytes are consumed, and contain nothing more.
    case needMore
    /// Content, as a range of the bytes passed to the call. Never empty.
    case data(Range<Int>)
    /// The end of the content, including the trailer section.
    case end
  }

  private let framing: MessageFraming
  private let limits: HTTP1Limits
  private var part: Part
  /// The size of a chunk while its digits are read, and then the number of data bytes left in it, or in the content.
  private var remaining = 0
  private var sizeDigits = 0
  /// Whether the name of the current extension has a character.
  private var hasName = false
  private var extensionBytes = 0
  private var trailers: FieldLineScanner
  private var refusal: RequestError?

  /// Creates a decoder for the first byte of a message's content.
  public init(_ framing: MessageFraming, limits: HTTP1Limits = .init()) {
    self.framing = framing
    self.limits = limits
    trailers = FieldLineScanner(limits: limits, isTrailerSection: true)
    switch framing {
    case .none, .fixed(0): part = .ended
    case .fixed(let length): (part, remaining) = (.data, length)
    case .chunked: part = .size
    case .untilClose: (part, remaining) = (.data, .max)
    }
  }

  /// Whether the end of the connection ends the content. Otherwise it truncates content that is incomplete.
  public var endsWithConnection: Bool { framing == .untilClose }

  /// Decodes the front of `bytes`, those that are not consumed yet.
  /// - Returns: The event, and the number of bytes that it consumed: none after the end of the content.
  /// - Throws: ``RequestError``. All later calls throw the same error.
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
    while index < bytes.count, part != .ended {
      if part == .trailers {
        index &+= try skipTrailers(in: bytes.extracting(index...))
        break
      }
      if part == .data {
        let end = index &+ min(remaining, bytes.count &- index)
        remaining &-= end &- index
        if remaining == 0 { part = framing == .chunked ? .dataEnd : .ended }
        return (end, .data(index..<end))
      }
      try step(bytes[index])
      index &+= 1
    }
    return (index, part == .ended ? .end : .needMore)
  }

  /// Processes one byte that is neither chunk data nor a part of the trailer section.
  private mutating func step(_ byte: UInt8) throws(RequestError) {
    switch part {
    case .size: try stepSize(byte)
    case .sizeEnd: try expectLineFeed(byte, then: remaining == 0 ? .trailers : .data)
    case .extensionName, .extensionValue, .extensionToken, .extensionQuoted, .extensionEscape, .extensionQuotedEnd:
      try stepExtension(byte)
    case .data, .trailers, .ended: break
    case .dataEnd:
      guard byte == .carriageReturn else { throw RequestError(forbidden: byte) ?? .malformedChunkEnd }
      part = .dataLineFeed
    case .dataLineFeed:
      try expectLineFeed(byte, then: .size)
      sizeDigits = 0
    }
  }

  /// Scans the trailer section (RFC 9112 §7.1.2), or the part that has arrived. Returns the number of bytes scanned.
  private mutating func skipTrailers(in bytes: Span<UInt8>) throws(RequestError) -> Int {
    var position = 0
    while true {
      switch try trailers.next(in: bytes, from: &position) {
      case .line: continue
      case .end: part = .ended
      case .needMore: trailers.forget(position)
      }
      return position
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
    if byte == .carriageReturn { part = .sizeEnd } else { try startExtension() }
  }

  private mutating func expectLineFeed(_ byte: UInt8, then next: Part) throws(RequestError) {
    guard byte == .lineFeed else { throw .bareCarriageReturn }
    part = next
  }

  private mutating func startExtension() throws(RequestError) {
    try countExtensionByte()
    part = .extensionName
    hasName = false
  }

  /// Processes one byte of `*( ";" chunk-ext-name [ "=" chunk-ext-val ] )` (RFC 9112 §7.1.1).
  private mutating func stepExtension(_ byte: UInt8) throws(RequestError) {
    if part == .extensionQuoted || part == .extensionEscape { return try stepQuotedString(byte) }
    let canEnd = part == .extensionName ? hasName : part != .extensionValue
    if byte == .carriageReturn, canEnd {
      part = .sizeEnd
      return
    }
    if byte == .semicolon, canEnd { return try startExtension() }
    try countExtensionByte()
    switch part {
    case .extensionName where ByteSet.token.contains(byte): hasName = true
    case .extensionName where byte == .equalsSign && hasName: part = .extensionValue
    case .extensionValue where byte == .doubleQuote: part = .extensionQuoted
    case .extensionValue where ByteSet.token.contains(byte): part = .extensionToken
    case .extensionToken where ByteSet.token.contains(byte): break
    default: throw RequestError(forbidden: byte) ?? .malformedChunkExtension
    }
  }

  /// Processes one byte of a quoted string after its opening quote (RFC 9110 §5.6.4).
  private mutating func stepQuotedString(_ byte: UInt8) throws(RequestError) {
    try countExtensionByte()
    guard !byte.isControl || byte == .horizontalTab else {
      throw RequestError(forbidden: byte) ?? .malformedChunkExtension
    }
    if part == .extensionEscape {
      part = .extensionQuoted
    } else if byte == .doubleQuote {
      part = .extensionQuotedEnd
    } else if byte == .backslash {
      part = .extensionEscape
    }
  }

  /// Counts a byte against the limit of all extensions in the body.
  private mutating func countExtensionByte() throws(RequestError) {
    extensionBytes += 1
    guard extensionBytes <= limits.chunkExtensions else { throw .chunkExtensionsTooLong }
  }
}

extension [UInt8] {
  /// Appends a chunk (RFC 9112 §7.1). It appends nothing for zero bytes, which would be the last chunk.
  package mutating func appendChunk(_ content: Span<UInt8>) {
    guard !content.isEmpty else { return }
    append(utf8: String(content.count, radix: 16))
    append("\r\n")
    append(copying: content)
    append("\r\n")
  }

  /// Appends the last chunk and an empty trailer section.
  package mutating func appendLastChunk() { append("0\r\n\r\n") }
}
