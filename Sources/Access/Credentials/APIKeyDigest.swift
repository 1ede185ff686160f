import COpenSSL
public import DeveloperToken

/// SHA-256 of an API key: all that a configuration has of it.
///
/// The key has 256 random bits, so a plain hash is enough: what makes password hashes slow, guessable input, is not there.
public struct APIKeyDigest: Sendable {
  private let bytes: InlineArray<32, UInt8>

  /// Reads what `new-api-key` and `sha256sum` print: 64 hexadecimal digits, upper or lower case, and nothing else.
  public init?(hexadecimal text: String) {
    let digits = Array(text.utf8)
    guard digits.count == 64 else { return nil }
    var bytes = InlineArray<32, UInt8>(repeating: 0)
    for index in bytes.indices {
      guard let high = Self.value(digits[2 * index]), let low = Self.value(digits[2 * index + 1]) else { return nil }
      bytes[index] = high << 4 | low
    }
    self.bytes = bytes
  }

  /// Hashes a key as it was presented.
  ///
  /// - Throws: `CryptographyError` if OpenSSL fails.
  public init(of key: Span<UInt8>) throws(CryptographyError) {
    bytes = try Self.sha256(of: key)
  }

  /// 64 hexadecimal digits in lower case.
  public var hexadecimal: String {
    let digits = Array("0123456789abcdef".utf8)
    var text: [UInt8] = []
    text.reserveCapacity(64)
    for index in bytes.indices { text += [digits[Int(bytes[index] >> 4)], digits[Int(bytes[index] & 15)]] }
    return String(decoding: text, as: UTF8.self)
  }

  /// Whether it is that of no key at all, with or without a line's end: what a script makes of a variable that is unset.
  public var isOfEmptyKey: Bool { Self.ofEmptyKeys.contains(self) }

  private static let ofEmptyKeys = [[], [UInt8(ascii: "\n")]].compactMap { try? APIKeyDigest(of: $0.span) }

  private static func value(_ digit: UInt8) -> UInt8? {
    switch digit {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - UInt8(ascii: "A") + 10
    default: nil
    }
  }
}

extension APIKeyDigest: Hashable {
  /// Compares all 32 bytes, whichever differ: how long it takes tells nothing about either.
  public static func == (left: APIKeyDigest, right: APIKeyDigest) -> Bool {
    unsafe left.bytes.span.withUnsafeBytes { left in
      unsafe right.bytes.span.withUnsafeBytes { right in
        unsafe CRYPTO_memcmp(left.baseAddress, right.baseAddress, left.count) == 0
      }
    }
  }

  /// Feeds all 32 bytes.
  public func hash(into hasher: inout Hasher) {
    unsafe bytes.span.withUnsafeBytes { bytes in unsafe hasher.combine(bytes: bytes) }
  }
}

extension APIKeyDigest: CustomStringConvertible {
  /// The digits.
  public var description: String { hexadecimal }
}
