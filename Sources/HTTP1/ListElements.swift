/// The elements of a comma-separated list (RFC 9110 §5.6.1), one after the other, without the white space around them.
///
/// Knows no quoted strings: none of the lists that the codec itself reads has an acceptable element with one.
struct ListElements {
  private var rest: Range<Int>?

  /// The list that the field value in `range` is. An empty value has one element, an empty one.
  init(_ range: Range<Int>) {
    rest = range
  }

  /// The next element, which may be empty; nil after the last.
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
