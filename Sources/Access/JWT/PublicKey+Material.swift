extension PublicKey {
  /// A point of P-256 by its coordinates (RFC 7518 §6.2.1).
  static func p256(x: [UInt8], y: [UInt8]) throws(UnusableKey) -> PublicKey {
    guard x.count == 32, y.count == 32 else { throw .init("its x and y are not 32 bytes each.") }
    let point: [UInt8] = [0x04] + x + y
    guard let key = PublicKey(.p256, subjectPublicKeyInfo: DER.publicKey(DER.p256, point)) else {
      throw .init("its x and y are no point of P-256.")
    }
    return key
  }

  /// An RSA key (RFC 7518 §6.3.1).
  static func rsa(modulus: [UInt8], exponent: [UInt8]) throws(UnusableKey) -> PublicKey {
    // Not to be there, and some libraries write them all the same (RFC 7518 §6.3.1.1).
    let modulus = Array(modulus.drop { $0 == 0 })
    let exponent = Array(exponent.drop { $0 == 0 })
    guard modulus.count <= maximumModulusBits / 8, let first = modulus.first, let last = modulus.last else {
      throw .init("its modulus is longer than \(maximumModulusBits) bits, or 0.")
    }
    let bits = modulus.count * 8 - first.leadingZeroBitCount
    guard bits >= minimumModulusBits else {
      throw .init("its modulus has \(bits) bits; fewer than \(minimumModulusBits) are not safe.")
    }
    guard last & 1 == 1 else { throw .init("its modulus is even, so it is no RSA key.") }
    try checkExponent(exponent)
    let numbers = DER.sequence(DER.integer(modulus) + DER.integer(exponent))
    let info = DER.publicKey(DER.rsaEncryption, numbers)
    guard let key = PublicKey(.rsa(modulusLength: modulus.count), subjectPublicKeyInfo: info) else {
      throw .init("its n and e are no RSA key.")
    }
    return key
  }

  /// A point of edwards25519 (RFC 8032 §5.1.2).
  static func ed25519(_ point: [UInt8]) throws(UnusableKey) -> PublicKey {
    guard point.count == 32 else { throw .init("its x is not 32 bytes.") }
    guard SmallOrderPoint.isSound(point),
      let key = PublicKey(.ed25519, subjectPublicKeyInfo: DER.publicKey(DER.ed25519, point))
    else { throw .init("its x is no point that a key can be.") }
    return key
  }

  /// Below this, RFC 7518 §3.3 allows none.
  private static let minimumModulusBits = 2048
  /// Above this, one verification costs more than a stranger should be able to ask for.
  private static let maximumModulusBits = 8192

  /// Odd, from 3 to 2³¹ − 1: 1 makes everything its own signature, and long ones only cost time. Go's bound too.
  private static func checkExponent(_ exponent: [UInt8]) throws(UnusableKey) {
    let value = exponent.count <= 4 ? exponent.reduce(0) { $0 << 8 | UInt32($1) } : .max
    guard value & 1 == 1, (3...0x7FFF_FFFF).contains(value) else {
      throw .init("its exponent is not an odd number from 3 to 2147483647.")
    }
  }
}
