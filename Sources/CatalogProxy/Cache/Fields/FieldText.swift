/// Questions about parts of a field value.
enum FieldText {
  /// Whether `range` is `lowercase`, letter case aside.
  static func isEqual(_ range: Range<Int>, of bytes: Span<UInt8>, to lowercase: StaticString) -> Bool {
    guard range.count == lowercase.utf8CodeUnitCount else { return false }
    for offset in 0..<range.count {
      let byte = bytes[range.lowerBound + offset]
      let letter = byte &- 0x41 < 26 ? byte | 0x20 : byte
      // Safe: `offset` is below the literal's length.
      guard unsafe letter == lowercase.utf8Start[offset] else { return false }
    }
    return true
  }

  /// The same for a name that is not a literal, in ASCII.
  static func isEqual(_ range: Range<Int>, of bytes: Span<UInt8>, to lowercase: String) -> Bool {
    guard range.count == lowercase.utf8.count else { return false }
    for (index, expected) in zip(range, lowercase.utf8) {
      let byte = bytes[index]
      guard (byte &- 0x41 < 26 ? byte | 0x20 : byte) == expected else { return false }
    }
    return true
  }

  /// The number of seconds that `range` is (RFC 9111 §1.2.2): digits and nothing else. One that is too large to count
  /// becomes 2³¹, 68 years, as the RFC would have it. Nil for anything else.
  static func deltaSeconds(_ range: Range<Int>, of bytes: Span<UInt8>) -> Int? {
    guard !range.isEmpty else { return nil }
    var seconds = 0
    for index in range {
      let digit = bytes[index] &- UInt8(ascii: "0")
      guard digit < 10 else { return nil }
      seconds = min(seconds * 10 + Int(digit), mostSeconds)
    }
    return seconds
  }

  /// What no length of time exceeds, so that sums of a few cannot overflow.
  static let mostSeconds = 1 << 31
}
