/// Classifies a text by the format of API keys: `mkts_`, 43 random characters, and a checksum of six characters.
///
/// Secret scanners find a key by `\bmkts_[0-9A-Za-z]{49}\b` and confirm it by the checksum. The checksum is the CRC-32
/// of all characters before it (ISO/IEC 13239, as in zlib), in base 62. An operator may also use a key of any other
/// format.
public enum APIKeyForm: Sendable, Equatable {
  /// It came from `new-api-key`.
  case genuine
  /// It came from there, too, but something is missing, added or changed.
  case mistyped
  /// Anything else.
  case other

  /// What keys begin with: MusicKit token server.
  static let prefix = Array("mkts_".utf8)
  /// Random characters, of 62: 256 bits.
  static let randomCount = 43
  /// Characters of the checksum: 62⁶ is above 2³².
  static let checksumCount = 6
  /// The digits of base 62, in the order of ASCII.
  static let alphabet = Array("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz".utf8)

  /// Looks at a text.
  public init(of text: Span<UInt8>) {
    guard text.count >= Self.prefix.count, Self.prefix.indices.allSatisfy({ text[$0] == Self.prefix[$0] }) else {
      self = .other
      return
    }
    self = Self.isGenuine(text) ? .genuine : .mistyped
  }

  /// Looks at a text.
  public init(of text: String) { self.init(of: Array(text.utf8).span) }

  private static func isGenuine(_ text: Span<UInt8>) -> Bool {
    let bodyCount = prefix.count + randomCount
    guard text.count == bodyCount + checksumCount else { return false }
    let expected = checksum(of: text.extracting(0..<bodyCount))
    return expected.indices.allSatisfy { text[bodyCount + $0] == expected[$0] }
      && (prefix.count..<bodyCount).allSatisfy { alphabet.contains(text[$0]) }
  }

  /// CRC-32, most significant digit first, with leading zeros.
  static func checksum(of text: Span<UInt8>) -> [UInt8] {
    var digits = [UInt8](repeating: alphabet[0], count: checksumCount)
    var rest = crc32(text)
    for index in digits.indices.reversed() {
      digits[index] = alphabet[Int(rest % 62)]
      rest /= 62
    }
    return digits
  }

  /// Bit by bit, because a key is short and checked seldom.
  private static func crc32(_ bytes: Span<UInt8>) -> UInt32 {
    var remainder: UInt32 = .max
    for index in bytes.indices {
      remainder ^= UInt32(bytes[index])
      for _ in 0..<8 { remainder = remainder >> 1 ^ (remainder & 1 == 1 ? 0xEDB8_8320 : 0) }
    }
    return ~remainder
  }
}
