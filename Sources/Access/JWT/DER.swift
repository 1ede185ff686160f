/// As much of DER (X.690 §10) as it takes to write a `SubjectPublicKeyInfo` (RFC 5280 §4.1.2.7).
enum DER {
  /// `AlgorithmIdentifier` of a key on P-256 (RFC 5480 §2.1.1).
  static let p256: [UInt8] = [
    0x30, 0x13, 0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01, 0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03,
    0x01, 0x07,
  ]
  /// `AlgorithmIdentifier` of an RSA key (RFC 3279 §2.3.1).
  static let rsaEncryption: [UInt8] = [
    0x30, 0x0D, 0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01, 0x05, 0x00,
  ]
  /// `AlgorithmIdentifier` of an Ed25519 key (RFC 8410 §3).
  static let ed25519: [UInt8] = [0x30, 0x05, 0x06, 0x03, 0x2B, 0x65, 0x70]

  /// A `SubjectPublicKeyInfo`.
  static func publicKey(_ algorithm: [UInt8], _ key: [UInt8]) -> [UInt8] {
    // The octet in front counts unused bits.
    sequence(algorithm + element(0x03, [0] + key))
  }

  static func sequence(_ contents: [UInt8]) -> [UInt8] { element(0x30, contents) }

  /// A positive INTEGER, from big-endian bytes without leading zeros.
  static func integer(_ magnitude: [UInt8]) -> [UInt8] {
    let isSigned = (magnitude.first ?? 0x80) >= 0x80
    return element(0x02, isSigned ? [0] + magnitude : magnitude)
  }

  private static func element(_ tag: UInt8, _ contents: [UInt8]) -> [UInt8] {
    let count = contents.count
    guard count >= 0x80 else { return [tag, UInt8(count)] + contents }
    var length: [UInt8] = []
    var rest = count
    while rest > 0 {
      length.insert(UInt8(truncatingIfNeeded: rest), at: 0)
      rest >>= 8
    }
    return [tag, 0x80 | UInt8(length.count)] + length + contents
  }
}
