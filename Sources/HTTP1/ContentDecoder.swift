import Bytes

/// Where in a message's content its reader is, whichever way the content is framed (RFC 9112 §6.3). It keeps no bytes.
public struct ContentDecoder: Sendable {
  private enum Framing { case fixed, chunked, untilClose }

  private let framing: Framing
  /// What is left of content of a known length.
  private var remaining = 0
  private var chunks: ChunkedDecoder

  /// Makes a decoder that is ready for the first byte of a request's content.
  public init(_ framing: MessageFraming, limits: HTTP1Limits = .init()) {
    switch framing {
    case .none: self.init(.fixed, limits)
    case .fixed(let length): self.init(.fixed, length: length, limits)
    case .chunked: self.init(.chunked, limits)
    }
  }

  /// Makes a decoder that is ready for the first byte of a response's content.
  public init(_ framing: ResponseFraming, limits: HTTP1Limits = .init()) {
    switch framing {
    case .none: self.init(.fixed, limits)
    case .fixed(let length): self.init(.fixed, length: length, limits)
    case .chunked: self.init(.chunked, limits)
    case .untilClose: self.init(.untilClose, limits)
    }
  }

  private init(_ framing: Framing, length: Int = 0, _ limits: HTTP1Limits) {
    self.framing = framing
    remaining = length
    chunks = ChunkedDecoder(limits: limits)
  }

  /// Takes bytes from the front of `bytes`, as ``ChunkedDecoder/decode(_:)`` does.
  public mutating func decode(
    _ bytes: Span<UInt8>
  ) throws(RequestError) -> (consumed: Int, event: ChunkedDecoder.Event) {
    switch framing {
    case .chunked: return try chunks.decode(bytes)
    case .fixed where remaining == 0: return (0, .end)
    case .fixed, .untilClose:
      let count = framing == .fixed ? min(remaining, bytes.count) : bytes.count
      if framing == .fixed { remaining -= count }
      return (count, count == 0 ? .needMore : .data(0..<count))
    }
  }

  /// Whether the end of the connection is the end of the content. Otherwise content that has not ended is cut.
  public var endsWithConnection: Bool { framing == .untilClose }
}

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
    case trailers, ended
  }

  let limits: HTTP1Limits
  var state = State.size
  /// The size being read, then what is left of the chunk's data.
  var remaining = 0
  var sizeDigits = 0
  /// Whether the name of the extension being read has a character yet.
  var hasName = false
  var extensionBytes = 0
  private var trailers: FieldLineScanner
  private var refusal: RequestError?

  /// Makes a decoder that is ready for the first byte of a body.
  public init(limits: HTTP1Limits = .init()) {
    self.limits = limits
    trailers = FieldLineScanner(trailerSectionAt: 0, limits: limits)
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
      if state == .trailers {
        index &+= try skipTrailers(in: bytes.extracting(index...))
        break
      }
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

  /// Takes one byte that is neither chunk data nor of the trailer section.
  private mutating func step(_ byte: UInt8) throws(RequestError) {
    switch state {
    case .size: try stepSize(byte)
    case .sizeEnd: try expectLineFeed(byte, then: remaining == 0 ? .trailers : .data)
    case .extensionName, .extensionValue, .extensionToken, .extensionQuoted, .extensionEscape, .extensionQuotedEnd:
      try stepExtension(byte)
    case .data, .trailers, .ended: break
    case .dataEnd:
      guard byte == .carriageReturn else { throw RequestError(forbidden: byte) ?? .malformedChunkEnd }
      state = .dataLineFeed
    case .dataLineFeed:
      try expectLineFeed(byte, then: .size)
      sizeDigits = 0
    }
  }

  /// Reads the trailer section (RFC 9112 §7.1.2), or as much of it as there is. Returns how many bytes that took.
  private mutating func skipTrailers(in bytes: Span<UInt8>) throws(RequestError) -> Int {
    var position = 0
    while true {
      switch try trailers.next(in: bytes, from: &position) {
      case .line: continue
      case .end: state = .ended
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
    if byte == .carriageReturn { state = .sizeEnd } else { try startExtension() }
  }

  /// Takes the LF that has to follow a CR.
  private mutating func expectLineFeed(_ byte: UInt8, then next: State) throws(RequestError) {
    guard byte == .lineFeed else { throw .bareCarriageReturn }
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
