/// Bytes compared with literals, in place.
extension Span<UInt8> {
  /// Whether the bytes in `range` are exactly those of `literal`.
  @inlinable @inline(__always)
  public func equals(_ range: Range<Int>, _ literal: StaticString) -> Bool {
    guard range.count == literal.utf8CodeUnitCount else { return false }
    for offset in 0..<range.count {
      // Safe: `offset` is below the literal's length.
      guard unsafe self[range.lowerBound &+ offset] == literal.utf8Start[offset] else { return false }
    }
    return true
  }

  /// Whether the bytes in `range` are those of `lowercase`. The case of ASCII letters does not matter.
  @inlinable @inline(__always)
  public func equalsIgnoringCase(_ range: Range<Int>, _ lowercase: StaticString) -> Bool {
    guard range.count == lowercase.utf8CodeUnitCount else { return false }
    for offset in 0..<range.count {
      // Safe: `offset` is below the literal's length.
      guard unsafe self[range.lowerBound &+ offset].lowercased == lowercase.utf8Start[offset] else { return false }
    }
    return true
  }

  /// Whether the bytes in `range` are those of `lowercase`, ASCII. The case of ASCII letters does not matter.
  public func equalsIgnoringCase(_ range: Range<Int>, _ lowercase: String) -> Bool {
    guard range.count == lowercase.utf8.count else { return false }
    for (index, expected) in zip(range, lowercase.utf8) where self[index].lowercased != expected { return false }
    return true
  }

  /// Whether `byte` occurs.
  public func contains(_ byte: UInt8) -> Bool { indices.contains { self[$0] == byte } }

  /// `range` without the optional white space at both ends (RFC 9110 §5.6.3).
  @inlinable @inline(__always)
  public func trimmingWhitespace(_ range: Range<Int>) -> Range<Int> {
    var (start, end) = (range.lowerBound, range.upperBound)
    while start < end, self[start].isWhitespace { start &+= 1 }
    while start < end, self[end &- 1].isWhitespace { end &-= 1 }
    return start..<end
  }
}

extension UInt8 {
  /// `A`–`Z` in lower case, everything else as it is.
  @inlinable @inline(__always)
  public var lowercased: UInt8 { self &- 0x41 < 26 ? self | 0x20 : self }

  /// SP or HTAB: what OWS is made of (RFC 9110 §5.6.3).
  @inlinable @inline(__always)
  public var isWhitespace: Bool { self == 0x20 || self == 0x09 }

  /// The value of a decimal digit, nil for anything else.
  @inlinable @inline(__always)
  public var decimalDigit: UInt8? {
    let value = self &- 0x30
    return value < 10 ? value : nil
  }
}
