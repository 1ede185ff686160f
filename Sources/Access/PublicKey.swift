import COpenSSL
import Cryptography
import Locks

/// A public key in OpenSSL, with contexts prepared for verification. Any thread may use it.
@safe final class PublicKey: Equatable, @unchecked Sendable {
  // Safe: the pointer is valid from `init` to `deinit`. Sendable: the EVP_PKEY is only read after it is made, `idle` is
  // accessed only inside `monitor`, and a verifier belongs to the thread that took it out of `idle`. `Locked` cannot
  // hold the verifiers, because they are not Sendable and leave it.

  enum Kind {
    case p256
    /// The length of the modulus is in bytes.
    case rsa(modulusLength: Int)
    case ed25519

    /// The signature algorithms of this kind of key (RFC 7518 §3.1, RFC 8037 §3.1).
    var algorithms: Set<JWTAlgorithm> {
      switch self {
      case .p256: [.es256]
      case .rsa: [.rs256, .ps256]
      case .ed25519: [.edDSA]
      }
    }
  }

  let kind: Kind
  /// The key in DER, which is the same for equal keys.
  private let subjectPublicKeyInfo: [UInt8]
  private let pointer: OpaquePointer
  private let monitor = Monitor()
  private var idle: [JWTAlgorithm: [SignatureVerifier]] = [:]

  /// Returns nil if OpenSSL refuses the key, for example a point that is not on its curve.
  init?(_ kind: Kind, subjectPublicKeyInfo: [UInt8]) {
    let key = unsafe subjectPublicKeyInfo.withUnsafeBufferPointer { buffer in
      var cursor = buffer.baseAddress
      return unsafe d2i_PUBKEY(nil, &cursor, buffer.count)
    }
    guard let key = unsafe key else {
      ERR_clear_error()
      return nil
    }
    unsafe pointer = key
    self.kind = kind
    self.subjectPublicKeyInfo = subjectPublicKeyInfo
  }

  deinit { unsafe EVP_PKEY_free(pointer) }

  static func == (left: PublicKey, right: PublicKey) -> Bool { left.subjectPublicKeyInfo == right.subjectPublicKeyInfo }

  /// Returns whether this key made the signature, in the form of JWS, by this algorithm.
  func verifies(_ signature: Span<UInt8>, of input: Span<UInt8>, _ algorithm: JWTAlgorithm) -> Bool {
    guard kind.algorithms.contains(algorithm), let verifier = takeVerifier(algorithm) else { return false }
    defer { keep(verifier, algorithm) }
    switch kind {
    case .p256:
      guard let signature = ECDSASignature(raw: signature) else { return false }
      return verifier.verifies(signature.der.span, of: input)
    case .rsa(let modulusLength):
      // The length check is step 1 of RFC 8017 §8.1.2 and §8.2.2.
      return signature.count == modulusLength && verifier.verifies(signature, of: input)
    case .ed25519: return verifier.verifies(signature, of: input)
    }
  }

  private func takeVerifier(_ algorithm: JWTAlgorithm) -> SignatureVerifier? {
    let verifier = monitor.withLock { idle[algorithm]?.popLast() }
    return unsafe verifier ?? SignatureVerifier(algorithm, key: pointer)
  }

  private func keep(_ verifier: SignatureVerifier, _ algorithm: JWTAlgorithm) {
    monitor.withLock { idle[algorithm, default: []].append(verifier) }
  }
}

extension PublicKey {
  /// Creates a key from the coordinates of a point of P-256 (RFC 7518 §6.2.1).
  static func p256(x: [UInt8], y: [UInt8]) throws(UnusableKey) -> PublicKey {
    guard x.count == 32, y.count == 32 else { throw .init("its x and y are not 32 bytes each.") }
    guard let key = PublicKey(.p256, subjectPublicKeyInfo: ECDSASignature.keyPrefix + x + y)
    else { throw .init("its x and y are not a point of P-256.") }
    return key
  }

  /// Creates an RSA key (RFC 7518 §6.3.1).
  static func rsa(modulus: [UInt8], exponent: [UInt8]) throws(UnusableKey) -> PublicKey {
    // Leading zeros are not allowed, but some libraries write them (RFC 7518 §6.3.1.1).
    let modulus = Array(modulus.drop { $0 == 0 })
    let exponent = Array(exponent.drop { $0 == 0 })
    guard modulus.count <= maximumModulusBits / 8, let first = modulus.first, let last = modulus.last else {
      throw .init("its modulus is longer than \(maximumModulusBits) bits, or 0.")
    }
    let bits = modulus.count * 8 - first.leadingZeroBitCount
    guard bits >= minimumModulusBits else {
      throw .init("its modulus has \(bits) bits; fewer than \(minimumModulusBits) are not safe.")
    }
    guard last & 1 == 1 else { throw .init("its modulus is even, so it is not an RSA key.") }
    try checkExponent(exponent)
    let numbers = DER.sequence(DER.integer(modulus) + DER.integer(exponent))
    let info = DER.publicKey(DER.rsaEncryption, numbers)
    guard let key = PublicKey(.rsa(modulusLength: modulus.count), subjectPublicKeyInfo: info)
    else { throw .init("its n and e are not an RSA key.") }
    return key
  }

  /// Creates a key from a point of edwards25519 (RFC 8032 §5.1.2).
  static func ed25519(_ point: [UInt8]) throws(UnusableKey) -> PublicKey {
    guard point.count == 32 else { throw .init("its x is not 32 bytes.") }
    guard SmallOrderPoint.isSound(point),
      let key = PublicKey(.ed25519, subjectPublicKeyInfo: DER.publicKey(DER.ed25519, point))
    else { throw .init("its x is not the point of a valid key.") }
    return key
  }

  /// RFC 7518 §3.3.
  private static let minimumModulusBits = 2048
  /// A larger modulus would let a stranger cause too much work with one verification.
  private static let maximumModulusBits = 8192

  /// Requires an odd exponent from 3 to 2³¹ − 1, as Go does. With 1, a message is its signature; longer ones cost time.
  private static func checkExponent(_ exponent: [UInt8]) throws(UnusableKey) {
    let value = exponent.count <= 4 ? exponent.reduce(0) { $0 << 8 | UInt32($1) } : .max
    guard value & 1 == 1, (3...0x7FFF_FFFF).contains(value) else {
      throw .init("its exponent is not an odd number from 3 to 2147483647.")
    }
  }
}

/// The reason why a key of a set is left out: the end of a sentence after a colon, with a full stop.
struct UnusableKey: Error {
  let reason: String

  init(_ reason: String) { self.reason = reason }
}

/// The points of edwards25519 that 8 times give the neutral element. OpenSSL accepts them as keys of forged signatures.
enum SmallOrderPoint {
  /// Returns whether y is below p (RFC 8032 §5.1.3) and the order is not small. OpenSSL checks the curve later.
  static func isSound(_ point: [UInt8]) -> Bool {
    guard let sign = point.indices.last else { return false }
    var y = point
    y[sign] &= 0x7F
    let isReduced = y[sign] < 0x7F || y[0] < 0xED || y[1..<sign].contains { $0 != 0xFF }
    return isReduced && !coordinates.contains(y)
  }

  /// The y of all eight points, little-endian. Points that differ only by sign share one. Orders 4, 1, 8, 8 and 2.
  private static let coordinates: [[UInt8]] = [
    [UInt8](repeating: 0, count: 32),
    [1] + [UInt8](repeating: 0, count: 31),
    [
      0x26, 0xE8, 0x95, 0x8F, 0xC2, 0xB2, 0x27, 0xB0, 0x45, 0xC3, 0xF4, 0x89, 0xF2, 0xEF, 0x98, 0xF0,
      0xD5, 0xDF, 0xAC, 0x05, 0xD3, 0xC6, 0x33, 0x39, 0xB1, 0x38, 0x02, 0x88, 0x6D, 0x53, 0xFC, 0x05,
    ],
    [
      0xC7, 0x17, 0x6A, 0x70, 0x3D, 0x4D, 0xD8, 0x4F, 0xBA, 0x3C, 0x0B, 0x76, 0x0D, 0x10, 0x67, 0x0F,
      0x2A, 0x20, 0x53, 0xFA, 0x2C, 0x39, 0xCC, 0xC6, 0x4E, 0xC7, 0xFD, 0x77, 0x92, 0xAC, 0x03, 0x7A,
    ],
    [0xEC] + [UInt8](repeating: 0xFF, count: 30) + [0x7F],
  ]
}

/// The part of DER (X.690 §10) that a `SubjectPublicKeyInfo` (RFC 5280 §4.1.2.7) needs.
enum DER {
  /// The `AlgorithmIdentifier` of an RSA key (RFC 3279 §2.3.1).
  static let rsaEncryption: [UInt8] = [
    0x30, 0x0D, 0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01, 0x05, 0x00,
  ]
  /// The `AlgorithmIdentifier` of an Ed25519 key (RFC 8410 §3).
  static let ed25519: [UInt8] = [0x30, 0x05, 0x06, 0x03, 0x2B, 0x65, 0x70]

  static func publicKey(_ algorithm: [UInt8], _ key: [UInt8]) -> [UInt8] {
    // The first octet counts unused bits.
    sequence(algorithm + element(0x03, [0] + key))
  }

  static func sequence(_ contents: [UInt8]) -> [UInt8] { element(0x30, contents) }

  /// Returns a positive INTEGER from big-endian bytes without leading zeros.
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
