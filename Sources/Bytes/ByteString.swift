/// Text from outside, kept as the received bytes. Comparison, hashing and sorting work byte by byte. `String` compares
/// and hashes by canonical equivalence, which costs O(n²) for n combining marks, and equates different bytes. So it is
/// for text of the operator and of the program (docs/decisions.md, 55).
public struct ByteString: Sendable {
  /// The bytes. They are UTF-8 if the source guarantees it.
  public let bytes: [UInt8]

  /// Creates a value from bytes, unchanged.
  public init(_ bytes: [UInt8]) { self.bytes = bytes }
  /// Creates a value from the UTF-8 of a text.
  public init(_ text: some StringProtocol) { bytes = Array(text.utf8) }

  /// The text for display only. Never compare it.
  public var text: String { String(decoding: bytes, as: UTF8.self) }
  /// The number of bytes.
  public var count: Int { bytes.count }
  /// Whether all bytes are ASCII, so that ``text`` has one normal form.
  public var isASCII: Bool { bytes.allSatisfy { $0 < 0x80 } }
  /// The same bytes, with ASCII letters in lower case.
  public var lowercasedASCII: ByteString { ByteString(bytes.map(\.lowercased)) }
}

extension ByteString: Hashable, Comparable {
  /// Returns whether both values have the same bytes.
  public static func == (left: ByteString, right: ByteString) -> Bool { left.bytes == right.bytes }

  /// Returns whether the bytes are the UTF-8 of `text`, without any normalization.
  public static func == (left: ByteString, text: String) -> Bool {
    left.bytes.count == text.utf8.count && left.bytes.elementsEqual(text.utf8)
  }

  /// Returns whether the bytes differ from the UTF-8 of `text`.
  public static func != (left: ByteString, text: String) -> Bool { !(left == text) }
  /// Matches a string literal in a `case`.
  public static func ~= (text: String, value: ByteString) -> Bool { value == text }

  /// Orders by bytes, like UTF-8.
  public static func < (left: ByteString, right: ByteString) -> Bool {
    left.bytes.lexicographicallyPrecedes(right.bytes)
  }

  /// Feeds the number of bytes and the bytes.
  public func hash(into hasher: inout Hasher) {
    hasher.combine(bytes.count)
    // Safe: the buffer is read within the closure only.
    unsafe bytes.withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
  }
}

extension ByteString: ExpressibleByStringInterpolation {
  /// Creates a value from the UTF-8 of a literal.
  public init(stringLiteral text: String) { self.init(text) }
}

extension ByteString: CustomStringConvertible {
  /// The text for display, equal to ``text``.
  public var description: String { text }
}

extension UInt64 {
  /// The number with each upper-case ASCII letter of its eight bytes in lower case.
  @inlinable
  var lowercasedBytes: UInt64 {
    // Without their top bits, the sums do not carry into the next byte: 0x3f takes `A` to 0x80, and 0x25 takes `[`.
    let rest = self & ~UInt64.tops
    let letters = (rest &+ UInt64.ones &* 0x3f) & ~(rest &+ UInt64.ones &* 0x25) & ~self & UInt64.tops
    return self | letters &>> 2
  }
}

/// Eight bytes at a time.
extension Span<UInt8> {
  /// Returns the index of the first byte in `start..<end` that `marks` marks by its top bit, or of the last bytes,
  /// which do not fill a word. `marks` gets eight bytes, the first one lowest; only its lowest mark must be exact.
  @inlinable @inline(__always)
  public func firstMark(from start: Int, to end: Int, _ marks: (_ word: UInt64) -> UInt64) -> Int {
    var index = start
    while end &- index >= 8 {
      // Safe: every bit pattern is a UInt64, and RawSpan checks the bounds.
      let loaded = unsafe bytes.unsafeLoadUnaligned(fromByteOffset: index, as: UInt64.self)
      let marked = marks(UInt64(littleEndian: loaded)) & UInt64.tops
      if marked != 0 { return index &+ marked.trailingZeroBitCount &>> 3 }
      index &+= 8
    }
    return index
  }
}

extension UInt64 {
  /// 1 in each of the eight bytes.
  @inlinable @inline(__always)
  public static var ones: UInt64 { 0x0101_0101_0101_0101 }
  /// The top bit of each of the eight bytes.
  @inlinable @inline(__always)
  public static var tops: UInt64 { 0x8080_8080_8080_8080 }

  /// The top bit of each byte that equals `byte`. Borrows spread only to higher bytes, so the lowest mark is exact.
  @inlinable @inline(__always)
  public func marks(of byte: UInt8) -> UInt64 {
    let others = self ^ (UInt64.ones &* UInt64(byte))
    return (others &- UInt64.ones) & ~others & UInt64.tops
  }

  /// The top bit of each byte below 0x20. Borrows spread only to higher bytes, so the lowest mark is exact.
  @inlinable @inline(__always)
  public var marksOfControls: UInt64 { (self &- UInt64.ones &* 0x20) & ~self & UInt64.tops }
}

/// In-place comparison of bytes with literals.
extension Span<UInt8> {
  /// Returns whether the bytes in `range` are exactly those of `literal`.
  @inlinable @inline(__always)
  public func equals(_ range: Range<Int>, _ literal: StaticString) -> Bool {
    guard range.count == literal.utf8CodeUnitCount else { return false }
    for offset in 0..<range.count {
      // Safe: `offset` is below the literal's length.
      guard unsafe self[range.lowerBound &+ offset] == literal.utf8Start[offset] else { return false }
    }
    return true
  }

  /// Returns whether the bytes in `range` equal `lowercase`, ignoring the case of ASCII letters.
  @inlinable @inline(__always)
  public func equalsIgnoringCase(_ range: Range<Int>, _ lowercase: StaticString) -> Bool {
    guard range.count == lowercase.utf8CodeUnitCount else { return false }
    var offset = 0
    while range.count &- offset >= 8 {
      // Safe: every bit pattern is a UInt64, RawSpan checks the bounds, and eight bytes of the literal are left.
      let mine = unsafe bytes.unsafeLoadUnaligned(fromByteOffset: range.lowerBound &+ offset, as: UInt64.self)
      let expected = unsafe UnsafeRawPointer(lowercase.utf8Start + offset).loadUnaligned(as: UInt64.self)
      guard mine == expected || mine.lowercasedBytes == expected else { return false }
      offset &+= 8
    }
    while offset < range.count {
      // Safe: `offset` is below the literal's length.
      guard unsafe self[range.lowerBound &+ offset].lowercased == lowercase.utf8Start[offset] else { return false }
      offset &+= 1
    }
    return true
  }

  /// Returns whether the bytes in `range` equal `lowercase` (ASCII), ignoring the case of ASCII letters. It has a label
  /// because a literal without one would become a `String` too, which takes longer to compare.
  public func equalsIgnoringCase(_ range: Range<Int>, text lowercase: String) -> Bool {
    guard range.count == lowercase.utf8.count else { return false }
    for (index, expected) in zip(range, lowercase.utf8) where self[index].lowercased != expected { return false }
    return true
  }

  /// Returns whether `byte` occurs.
  public func contains(_ byte: UInt8) -> Bool { indices.contains { self[$0] == byte } }

  /// Returns `range` without the optional whitespace (OWS) at both ends (RFC 9110 §5.6.3).
  @inlinable @inline(__always)
  public func trimmingWhitespace(_ range: Range<Int>) -> Range<Int> {
    var (start, end) = (range.lowerBound, range.upperBound)
    while start < end, self[start].isWhitespace { start &+= 1 }
    while start < end, self[end &- 1].isWhitespace { end &-= 1 }
    return start..<end
  }
}

extension UInt8 {
  /// The byte, with `A`–`Z` converted to lower case.
  @inlinable @inline(__always)
  public var lowercased: UInt8 { self &- 0x41 < 26 ? self | 0x20 : self }

  /// Whether the byte is SP or HTAB, the two bytes of OWS (RFC 9110 §5.6.3).
  @inlinable @inline(__always)
  public var isWhitespace: Bool { self == 0x20 || self == 0x09 }

  /// Whether the byte is a control character, including HTAB: 0x00–0x1F or DEL.
  @inlinable @inline(__always)
  public var isControl: Bool { self < 0x20 || self == 0x7f }

  /// The value of a decimal digit. Nil otherwise.
  @inlinable @inline(__always)
  public var decimalDigit: UInt8? {
    let value = self &- 0x30
    return value < 10 ? value : nil
  }
}
