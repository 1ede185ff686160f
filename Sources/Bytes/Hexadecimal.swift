/// Hexadecimal digits (RFC 4648 §8): the one reader of them, and the one writer.
extension UInt8 {
  /// The value of a hexadecimal digit of either case; nil for anything else.
  @inlinable @inline(__always)
  public var hexadecimalDigit: UInt8? {
    let decimal = self &- 0x30
    if decimal < 10 { return decimal }
    let letter = (self | 0x20) &- 0x61
    return letter < 6 ? letter &+ 10 : nil
  }
}

extension [UInt8] {
  /// Appends the two digits of `byte`, letters in lower case unless `uppercase`.
  public mutating func append(hexadecimal byte: UInt8, uppercase: Bool = false) {
    let letter = uppercase ? UInt8(ascii: "A") : UInt8(ascii: "a")
    func digit(_ value: UInt8) -> UInt8 { value < 10 ? UInt8(ascii: "0") + value : letter + value - 10 }
    append(digit(byte >> 4))
    append(digit(byte & 15))
  }

  /// Appends `number` in sixteen lower-case digits.
  public mutating func append(hexadecimal number: UInt64) {
    for half in [number >> 32, number & 0xFFFF_FFFF] {
      let digits = Self.hexadecimalDigits(half).bigEndian
      // Safe: the buffer is read within the closure only.
      unsafe Swift.withUnsafeBytes(of: digits) { unsafe append(contentsOf: $0) }
    }
  }

  /// Eight digits of a 32-bit number, the first in the highest byte, all at once: its nibbles are spread over eight bytes,
  /// and each becomes `0`…`9` or `a`…`f`.
  private static func hexadecimalDigits(_ number: UInt64) -> UInt64 {
    var nibbles = (number | number << 16) & 0x0000_FFFF_0000_FFFF
    nibbles = (nibbles | nibbles << 8) & 0x00FF_00FF_00FF_00FF
    nibbles = (nibbles | nibbles << 4) & 0x0F0F_0F0F_0F0F_0F0F
    // 1 in each byte whose nibble is ten or more; no byte overflows into its neighbour.
    let letters = ((nibbles &+ 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101
    return nibbles &+ 0x3030_3030_3030_3030 &+ letters &* 0x27
  }
}

extension String {
  /// Two lower-case digits for each byte, as `sha256sum` prints a digest.
  public init(hexadecimal bytes: Span<UInt8>) {
    var digits: [UInt8] = []
    digits.reserveCapacity(2 * bytes.count)
    for index in bytes.indices { digits.append(hexadecimal: bytes[index]) }
    self.init(decoding: digits, as: UTF8.self)
  }
}
