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
