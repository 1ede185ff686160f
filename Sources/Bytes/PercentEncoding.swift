/// Percent-encoding (RFC 3986 §2.1).
public enum PercentEncoding {
  /// The bytes with every escape undone; nil if a percent sign is not followed by two hexadecimal digits.
  public static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.count)
    var rest = text.makeIterator()
    while let byte = rest.next() {
      guard byte == UInt8(ascii: "%") else {
        bytes.append(byte)
        continue
      }
      guard let high = rest.next()?.hexadecimalDigit, let low = rest.next()?.hexadecimalDigit else { return nil }
      bytes.append(high << 4 | low)
    }
    return bytes
  }
}

extension Span<UInt8> {
  /// The byte that the percent sign at `index` and the two digits behind it stand for; nil if they are no escape.
  @inlinable @inline(__always)
  public func percentEncodedByte(at index: Int, before end: Int) -> UInt8? {
    guard end &- index >= 3, let high = self[index &+ 1].hexadecimalDigit, let low = self[index &+ 2].hexadecimalDigit
    else { return nil }
    return high << 4 | low
  }
}

extension [UInt8] {
  /// Appends the escape of `byte`, its letters in upper case (RFC 3986 §2.1).
  public mutating func append(percentEncoding byte: UInt8) {
    append(UInt8(ascii: "%"))
    append(hexadecimal: byte, uppercase: true)
  }
}

extension UInt8 {
  /// `unreserved` (RFC 3986 §2.3): a character that means the same percent-encoded and plain.
  public var isUnreservedInURI: Bool {
    switch self {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
      UInt8(ascii: "~"):
      true
    default: false
    }
  }
}
