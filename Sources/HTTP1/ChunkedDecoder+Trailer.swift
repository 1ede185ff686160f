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
