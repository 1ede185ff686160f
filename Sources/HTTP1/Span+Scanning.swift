extension Span<UInt8> {
  /// The index of the first control character (HTAB too) from `start` on, or `count`.
  ///
  /// Eight bytes at a time: a byte below 0x20 borrows its top bit when 0x20 is taken from it, and DEL becomes zero
  /// under exclusive or. Borrows spread to higher bytes only, so the lowest mark is exact.
  @inline(__always)
  func firstControl(from start: Int) -> Int {
    let ones: UInt64 = 0x0101_0101_0101_0101
    let tops: UInt64 = 0x8080_8080_8080_8080
    var index = start
    while count &- index >= 8 {
      // Safe: every bit pattern is a UInt64, and RawSpan checks the bounds.
      let loaded = unsafe bytes.unsafeLoadUnaligned(fromByteOffset: index, as: UInt64.self)
      let word = UInt64(littleEndian: loaded)
      let deleted = word ^ (ones &* 0x7f)
      let marks = (((word &- ones &* 0x20) & ~word) | ((deleted &- ones) & ~deleted)) & tops
      if marks != 0 { return index &+ marks.trailingZeroBitCount &>> 3 }
      index &+= 8
    }
    while index < count, !self[index].isControl { index &+= 1 }
    return index
  }

  /// The index of the first byte in `range` that equals `byte`; nil if `range` does not contain it.
  func firstIndex(of byte: UInt8, in range: Range<Int>) -> Int? {
    for index in range where self[index] == byte { return index }
    return nil
  }

  /// `range` without the optional white space at both ends (RFC 9110 §5.6.3).
  @inline(__always)
  func trimmingWhitespace(_ range: Range<Int>) -> Range<Int> {
    var (start, end) = (range.lowerBound, range.upperBound)
    while start < end, self[start].isWhitespace { start &+= 1 }
    while start < end, self[end &- 1].isWhitespace { end &-= 1 }
    return start..<end
  }

  /// Whether the bytes in `range` are exactly those of `literal`.
  @inline(__always)
  func equals(_ range: Range<Int>, _ literal: StaticString) -> Bool {
    guard range.count == literal.utf8CodeUnitCount else { return false }
    for offset in 0..<range.count {
      // Safe: `offset` is below the literal's length.
      guard unsafe self[range.lowerBound &+ offset] == literal.utf8Start[offset] else { return false }
    }
    return true
  }

  /// Whether the bytes in `range` are those of `lowercase`. The case of ASCII letters does not matter.
  @inline(__always)
  func equalsIgnoringCase(_ range: Range<Int>, _ lowercase: StaticString) -> Bool {
    guard range.count == lowercase.utf8CodeUnitCount else { return false }
    for offset in 0..<range.count {
      // Safe: `offset` is below the literal's length.
      guard unsafe self[range.lowerBound &+ offset].lowercased == lowercase.utf8Start[offset] else { return false }
    }
    return true
  }

  /// The non-negative decimal number that `range` is: one to 19 digits that fit `Int`. Nil for anything else.
  func decimal(in range: Range<Int>) -> Int? {
    guard 1...19 ~= range.count else { return nil }
    var value: Int = 0
    for index in range {
      guard let digit = self[index].decimalDigit else { return nil }
      let (tens, tensOverflow) = value.multipliedReportingOverflow(by: 10)
      let (sum, sumOverflow) = tens.addingReportingOverflow(Int(digit))
      guard !tensOverflow, !sumOverflow else { return nil }
      value = sum
    }
    return value
  }
}
