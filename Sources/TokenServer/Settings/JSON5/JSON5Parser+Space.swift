extension JSON5Parser {
  /// Skips white space and comments.
  mutating func skipSpace() throws(JSON5Failure) {
    while position < bytes.count {
      if take("//") {
        while let byte = peek, byte != UInt8(ascii: "\n") { position += 1 }
      } else if take("/*") {
        try skipBlockComment()
      } else if !skipOneSpace() {
        return
      }
    }
  }

  private mutating func skipBlockComment() throws(JSON5Failure) {
    let start = position - 2
    while position < bytes.count {
      if take("*/") { return }
      position += 1
    }
    position = start
    throw failure("this comment is never closed")
  }

  private mutating func skipOneSpace() -> Bool {
    switch peek {
    case 0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x20:
      position += 1
      return true
    default:
      // No-break space and the line separators, which come along when text is copied from a web page.
      return take("\u{A0}") || take("\u{2028}") || take("\u{2029}") || take("\u{FEFF}")
    }
  }
}
