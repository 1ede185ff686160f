/// Text from outside, kept as the bytes that came: compared, hashed and sorted byte by byte.
///
/// `String` compares and hashes by canonical equivalence, for which it sorts each run of combining marks by insertion: a
/// run of n marks costs O(n²). It also takes different bytes for the same text. So `String` is for text of the
/// operator's and the program's own, and what a peer sends is looked up, compared and hashed as this type.
public struct ByteString: Sendable {
  /// The bytes; UTF-8 where the source says so.
  public let bytes: [UInt8]

  /// Takes bytes as they are.
  public init(_ bytes: [UInt8]) {
    self.bytes = bytes
  }

  /// Takes the UTF-8 of a text.
  public init(_ text: some StringProtocol) {
    bytes = Array(text.utf8)
  }

  /// The text, to be shown and never to be compared.
  public var text: String { String(decoding: bytes, as: UTF8.self) }

  /// How many bytes there are.
  public var count: Int { bytes.count }

  /// Whether all of it is ASCII, so that ``text`` has one normal form.
  public var isASCII: Bool { bytes.allSatisfy { $0 < 0x80 } }

  /// The same with ASCII letters in lower case, and all other bytes as they are.
  public var lowercasedASCII: ByteString {
    ByteString(bytes.map { $0 &- UInt8(ascii: "A") < 26 ? $0 | 0x20 : $0 })
  }
}

extension ByteString: Hashable, Comparable {
  /// Whether both are the same bytes.
  public static func == (left: ByteString, right: ByteString) -> Bool { left.bytes == right.bytes }

  /// Whether the bytes are the UTF-8 of `text`, without any normalization of either.
  public static func == (left: ByteString, text: String) -> Bool {
    left.bytes.count == text.utf8.count && left.bytes.elementsEqual(text.utf8)
  }

  /// Whether the bytes are other than the UTF-8 of `text`.
  public static func != (left: ByteString, text: String) -> Bool { !(left == text) }

  /// Lets a literal stand in a `case`.
  public static func ~= (text: String, value: ByteString) -> Bool { value == text }

  /// Sorts by bytes, as UTF-8 is sorted.
  public static func < (left: ByteString, right: ByteString) -> Bool {
    left.bytes.lexicographicallyPrecedes(right.bytes)
  }

  /// Feeds the bytes and how many there are.
  public func hash(into hasher: inout Hasher) {
    hasher.combine(bytes.count)
    // Safe: the buffer is read within the closure only.
    unsafe bytes.withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
  }
}

extension ByteString: ExpressibleByStringInterpolation {
  /// Takes the UTF-8 of a literal.
  public init(stringLiteral text: String) {
    self.init(text)
  }
}

extension ByteString: CustomStringConvertible {
  /// The text.
  public var description: String { text }
}

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
