/// Base64 as RFC 4648 has it: to encode and decode tokens (§5, no padding) to read what people paste (§4 or §5),
/// and to write a proxy's credentials (§4).
///
/// It is ours because JWS compact serialization is what the project exists for, and because OpenSSL's decoder knows
/// neither the URL alphabet nor how to write into memory of our choice.
package enum Base64 {
  /// How many characters `count` bytes take without padding.
  package static func encodedCount(_ count: Int) -> Int { (count * 4 + 2) / 3 }

  /// Appends the base64url form without padding (RFC 7515 §2).
  package static func appendURL(_ bytes: Span<UInt8>, to output: inout [UInt8]) {
    append(bytes, urlAlphabet, to: &output)
  }

  /// The base64 form with padding (RFC 4648 §4).
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

  /// Decodes base64url without padding, as strictly as RFC 7515 wants it; nil for anything else.
  ///
  /// Bits beyond the last byte must be zero (RFC 4648 §3.5), or one token would have several spellings.
  package static func decodeURL(_ text: Span<UInt8>) -> [UInt8]? {
    var bytes: [UInt8] = []
    var isValid = true
    bytes.append(addingCapacity: text.count / 4 * 3 + 3) { output in
      isValid = decode(text, value: urlValue, isStrict: true, into: &output)
    }
    return isValid ? bytes : nil
  }

  /// Decodes what people paste: either alphabet, padded or not, without white space; false for anything else.
  ///
  /// A truncated text decodes up to its end: the DER inside shows more reliably than the last few bits that data is
  /// missing.
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
    // Six bits left over are a lone character, which encodes nothing.
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
