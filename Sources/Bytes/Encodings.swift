/// The only reader and writer of hexadecimal digits (RFC 4648 §8) in the project.
extension UInt8 {
  /// The value of a hexadecimal digit in either case. Nil otherwise.
  @inlinable @inline(__always)
  public var hexadecimalDigit: UInt8? {
    let decimal = self &- 0x30
    if decimal < 10 { return decimal }
    let letter = (self | 0x20) &- 0x61
    return letter < 6 ? letter &+ 10 : nil
  }
}

extension [UInt8] {
  /// Appends the two digits of `byte`, with lower-case letters unless `uppercase`.
  public mutating func append(hexadecimal byte: UInt8, uppercase: Bool = false) {
    let letter = uppercase ? UInt8(ascii: "A") : UInt8(ascii: "a")
    func digit(_ value: UInt8) -> UInt8 { value < 10 ? UInt8(ascii: "0") + value : letter + value - 10 }
    append(digit(byte >> 4))
    append(digit(byte & 15))
  }

  /// Appends `number` as sixteen lower-case digits.
  public mutating func append(hexadecimal number: UInt64) {
    append(addingCapacity: 16) { (output: inout OutputSpan<UInt8>) in output.append(hexadecimal: number) }
  }
}

extension OutputSpan<UInt8> {
  /// Appends `number` as sixteen lower-case digits. Traps without room for them.
  @inlinable
  @inline(__always)
  public mutating func append(hexadecimal number: UInt64) {
    append(eightDigits: number >> 32)
    append(eightDigits: number & 0xFFFF_FFFF)
  }

  /// Appends two lower-case digits for each byte. Traps without room for them.
  @inlinable
  public mutating func append(hexadecimal bytes: Span<UInt8>) {
    var index = 0
    while index + 4 <= bytes.count {
      // Safe: every bit pattern is a UInt32, and RawSpan checks the bounds.
      let loaded = unsafe bytes.bytes.unsafeLoadUnaligned(fromByteOffset: index, as: UInt32.self)
      append(eightDigits: UInt64(loaded.bigEndian))
      index += 4
    }
    while index < bytes.count {
      let digits = Self.hexadecimalDigits(UInt64(bytes[index]))
      append(UInt8(truncatingIfNeeded: digits >> 8))
      append(UInt8(truncatingIfNeeded: digits))
      index += 1
    }
  }

  /// Appends the digits of a 32-bit number.
  @inlinable
  @inline(__always)
  mutating func append(eightDigits number: UInt64) {
    let digits = Self.hexadecimalDigits(number).bigEndian
    unsafe withUnsafeMutableBufferPointer { buffer, count in
      precondition(count + 8 <= buffer.count)
      // Safe: there is room for eight bytes, and all of them are initialised.
      unsafe UnsafeMutableRawBufferPointer(buffer).storeBytes(of: digits, toByteOffset: count, as: UInt64.self)
      count += 8
    }
  }

  /// Returns the eight digits of a 32-bit number, the first digit in the highest byte. The function converts all digits
  /// at once: it spreads the nibbles over eight bytes and turns each into `0`…`9` or `a`…`f`.
  @inlinable
  @inline(__always)
  static func hexadecimalDigits(_ number: UInt64) -> UInt64 {
    var nibbles = (number | number << 16) & 0x0000_FFFF_0000_FFFF
    nibbles = (nibbles | nibbles << 8) & 0x00FF_00FF_00FF_00FF
    nibbles = (nibbles | nibbles << 4) & 0x0F0F_0F0F_0F0F_0F0F
    // Sets 1 in each byte with a nibble of ten or more. No byte overflows into the next one.
    let letters = ((nibbles &+ 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101
    return nibbles &+ 0x3030_3030_3030_3030 &+ letters &* 0x27
  }
}

extension String {
  /// Creates text with two lower-case digits for each byte, in the format of `sha256sum`.
  public init(hexadecimal bytes: Span<UInt8>) {
    var digits: [UInt8] = []
    digits.append(addingCapacity: 2 * bytes.count) { (output: inout OutputSpan<UInt8>) in
      output.append(hexadecimal: bytes)
    }
    self.init(decoding: digits, as: UTF8.self)
  }
}

/// Base64 (RFC 4648): for tokens (§5, no padding), for pasted text (§4 or §5) and for a proxy's credentials (§4).
/// OpenSSL's decoder neither knows the URL alphabet nor writes into memory that the caller chooses.
package enum Base64 {
  /// Returns the number of characters for `count` bytes without padding.
  package static func encodedCount(_ count: Int) -> Int { (count * 4 + 2) / 3 }

  /// Appends the base64url form without padding (RFC 7515 §2).
  package static func appendURL(_ bytes: Span<UInt8>, to output: inout [UInt8]) {
    append(bytes, urlAlphabet, to: &output)
  }

  /// Returns the base64 form with padding (RFC 4648 §4).
  package static func encode(_ bytes: Span<UInt8>) -> String {
    var output: [UInt8] = []
    append(bytes, alphabet, to: &output)
    while output.count % 4 != 0 { output.append(UInt8(ascii: "=")) }
    return String(decoding: output, as: UTF8.self)
  }

  private static func append(_ bytes: Span<UInt8>, _ alphabet: [UInt8], to output: inout [UInt8]) {
    output.append(addingCapacity: encodedCount(bytes.count)) { (output: inout OutputSpan<UInt8>) in
      func append(_ group: UInt32, characters: UInt32) {
        for position in 0..<characters { output.append(alphabet[Int(group >> (18 - 6 * position) & 63)]) }
      }
      var index = 0
      while index + 3 <= bytes.count {
        append(UInt32(bytes[index]) << 16 | UInt32(bytes[index + 1]) << 8 | UInt32(bytes[index + 2]), characters: 4)
        index += 3
      }
      switch bytes.count - index {
      case 1: append(UInt32(bytes[index]) << 16, characters: 2)
      case 2: append(UInt32(bytes[index]) << 16 | UInt32(bytes[index + 1]) << 8, characters: 3)
      default: break
      }
    }
  }

  /// Decodes base64url without padding, as strictly as RFC 7515 requires; nil for other text. Bits beyond the last byte
  /// must be zero (RFC 4648 §3.5), because otherwise one token would have several spellings.
  package static func decodeURL(_ text: Span<UInt8>) -> [UInt8]? {
    var bytes: [UInt8] = []
    var isValid = true
    bytes.append(addingCapacity: text.count / 4 * 3 + 3) { output in
      isValid = decode(text, value: urlValue, isStrict: true, into: &output)
    }
    return isValid ? bytes : nil
  }

  /// Decodes pasted text in either alphabet, with or without padding, without whitespace; false for other text. A
  /// truncated text is decoded to its end: the DER inside shows missing data more reliably than the last few bits do.
  package static func decodePasted(_ text: Span<UInt8>, into output: inout OutputSpan<UInt8>) -> Bool {
    var count = text.count
    while count > 0, text.count - count < 2, text[count - 1] == UInt8(ascii: "=") { count -= 1 }
    return decode(text.extracting(0..<count), value: anyValue, isStrict: false, into: &output)
  }

  private static func decode(
    _ text: Span<UInt8>, value: (UInt8) -> UInt32?, isStrict: Bool, into output: inout OutputSpan<UInt8>
  ) -> Bool {
    var bits: UInt32 = 0
    var count = 0
    for index in text.indices {
      guard let six = value(text[index]) else { return false }
      bits = (bits << 6 | six) & 0xFFFF
      count += 6
      guard count >= 8 else { continue }
      count -= 8
      output.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
    }
    // Six remaining bits mean a single last character, which encodes no byte.
    return !isStrict || (count < 6 && bits & (1 << UInt32(count) - 1) == 0)
  }

  private static func urlValue(_ byte: UInt8) -> UInt32? {
    switch byte {
    case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(byte - UInt8(ascii: "A"))
    case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(byte - UInt8(ascii: "a") + 26)
    case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(byte - UInt8(ascii: "0") + 52)
    case UInt8(ascii: "-"): 62
    case UInt8(ascii: "_"): 63
    default: nil
    }
  }

  private static func anyValue(_ byte: UInt8) -> UInt32? {
    switch byte {
    case UInt8(ascii: "+"): 62
    case UInt8(ascii: "/"): 63
    default: urlValue(byte)
    }
  }

  private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
  private static let urlAlphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
}

/// Percent-encoding (RFC 3986 §2.1).
public enum PercentEncoding {
  /// Decodes every escape. Returns nil if two hexadecimal digits do not follow a percent sign.
  public static func decode(_ text: Span<UInt8>) -> [UInt8]? {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.count)
    var index = 0
    while index < text.count {
      guard text[index] == UInt8(ascii: "%") else {
        bytes.append(text[index])
        index += 1
        continue
      }
      guard let byte = text.percentEncodedByte(at: index, before: text.count) else { return nil }
      bytes.append(byte)
      index += 3
    }
    return bytes
  }

  /// Decodes every escape, and a form's plus signs as spaces; nil if an escape is malformed or the result is not UTF-8.
  package static func text(_ text: some StringProtocol, isOfForm: Bool = false) -> String? {
    let text = text.utf8.map { isOfForm && $0 == UInt8(ascii: "+") ? UInt8(ascii: " ") : $0 }
    return decode(text.span).flatMap { String(validating: $0, as: UTF8.self) }
  }

  /// Encodes a value for a query, as forms do: unreserved characters and commas stay, and a space becomes a plus sign.
  package static func formValue(_ text: String) -> String {
    var value: [UInt8] = []
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: " "): value.append(UInt8(ascii: "+"))
      case UInt8(ascii: ","): value.append(byte)
      case _ where byte.isUnreservedInURI: value.append(byte)
      default: value.append(percentEncoding: byte)
      }
    }
    return String(decoding: value, as: UTF8.self)
  }
}

extension Span<UInt8> {
  /// Returns the byte that the escape at `index` encodes. Returns nil if two hexadecimal digits do not follow.
  @inlinable @inline(__always)
  public func percentEncodedByte(at index: Int, before end: Int) -> UInt8? {
    guard end &- index >= 3, let high = self[index &+ 1].hexadecimalDigit, let low = self[index &+ 2].hexadecimalDigit
    else { return nil }
    return high << 4 | low
  }
}

extension [UInt8] {
  /// Appends the escape of `byte` with upper-case letters (RFC 3986 §2.1).
  public mutating func append(percentEncoding byte: UInt8) {
    append(UInt8(ascii: "%"))
    append(hexadecimal: byte, uppercase: true)
  }
}

extension UInt8 {
  /// Whether the byte is `unreserved` (RFC 3986 §2.3): it means the same percent-encoded and plain.
  @inlinable
  public var isUnreservedInURI: Bool {
    switch self {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"):
      true
    default: false
    }
  }

  /// Whether the byte is a letter, in either case.
  @inlinable public var isASCIILetter: Bool { (self | 0x20) &- UInt8(ascii: "a") < 26 }

  /// Whether the byte is a letter, a digit, `-`, `.` or `_`, which are safe in names, header fields, JSON and logs.
  public var isOfName: Bool { isUnreservedInURI && self != UInt8(ascii: "~") }
}
