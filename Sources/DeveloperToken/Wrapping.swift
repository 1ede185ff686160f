/// What copying leaves around a token.
enum PastedTokenTrimmer {
  /// The range of the token itself, and a remark if something was around it.
  static func strip(_ text: Span<UInt8>) -> (range: Range<Int>, remark: String?) {
    var range = trim(text, 0..<text.count)
    if isBearer(text, range) { range = trim(text, (range.lowerBound + 7)..<range.upperBound) }
    let isBare = range == 0..<text.count || (range.lowerBound == 0 && isLineEnd(text, from: range.upperBound))
    return (range, isBare ? nil : "It came with white space, quotes or “Bearer” around it, which are no part of it.")
  }

  private static func trim(_ text: Span<UInt8>, _ range: Range<Int>) -> Range<Int> {
    var (start, end) = (range.lowerBound, range.upperBound)
    while start < end, isWrapping(text[start]) { start += 1 }
    while start < end, isWrapping(text[end - 1]) { end -= 1 }
    return start..<end
  }

  private static func isWrapping(_ byte: UInt8) -> Bool {
    byte == 0x20 || (0x09...0x0D).contains(byte) || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'")
  }

  /// Schemes are compared without case (RFC 9110 §11.1).
  private static func isBearer(_ text: Span<UInt8>, _ range: Range<Int>) -> Bool {
    let lower = Array("bearer".utf8)
    let start = range.lowerBound
    return range.count > lower.count && text[start + lower.count] == 0x20
      && lower.indices.allSatisfy { text[start + $0] | 0x20 == lower[$0] }
  }

  /// A line end after the token is how every tool prints it, and no remark's worth.
  private static func isLineEnd(_ text: Span<UInt8>, from end: Int) -> Bool {
    text.extracting(end...).allSatisfy { $0 == 0x0A || $0 == 0x0D }
  }
}
