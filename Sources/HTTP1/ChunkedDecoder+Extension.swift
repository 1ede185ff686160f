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
