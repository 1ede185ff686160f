import COpenSSL
import DeveloperToken
import Locks

/// A public key as OpenSSL has it, and contexts prepared to verify by it. For any number of threads.
@safe final class PublicKey: Equatable, @unchecked Sendable {
  // Safe because the pointer is valid from `init` to `deinit`. Sendable because an EVP_PKEY is only read after it is
  // made, `idle` is touched only under `lock`, and a verifier that was taken out belongs to the one who took it.

  /// What kind of key.
  enum Kind: Sendable {
    case p256
    /// With the length of its modulus in bytes.
    case rsa(modulusLength: Int)
    case ed25519

    /// The signature algorithms that such keys are for (RFC 7518 §3.1, RFC 8037 §3.1).
    var algorithms: Set<JWTAlgorithm> {
      switch self {
      case .p256: [.es256]
      case .rsa: [.rs256, .ps256]
      case .ed25519: [.edDSA]
      }
    }
  }

  let kind: Kind
  /// In DER: the same for the same key.
  private let subjectPublicKeyInfo: [UInt8]
  private let pointer: OpaquePointer
  private let lock = Mutex()
  private var idle: [JWTAlgorithm: [SignatureVerifier]] = [:]

  /// Nil if OpenSSL takes it for no key: a point that is not on its curve.
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

  static func == (left: PublicKey, right: PublicKey) -> Bool {
    left.subjectPublicKeyInfo == right.subjectPublicKeyInfo
  }

  /// Whether the signature, in the form that JWS has it in, is this key's by this algorithm.
  func verifies(_ signature: Span<UInt8>, of input: Span<UInt8>, _ algorithm: JWTAlgorithm) -> Bool {
    guard kind.algorithms.contains(algorithm), let verifier = takeVerifier(algorithm) else { return false }
    defer { lock.withLock { idle[algorithm, default: []].append(verifier) } }
    switch kind {
    case .p256:
      guard let signature = ECDSASignature(raw: signature) else { return false }
      return verifier.verifies(signature.der.span, of: input)
    case .rsa(let modulusLength):
      // RFC 8017 §8.1.2 and §8.2.2, step 1.
      return signature.count == modulusLength && verifier.verifies(signature, of: input)
    case .ed25519: return verifier.verifies(signature, of: input)
    }
  }

  private func takeVerifier(_ algorithm: JWTAlgorithm) -> SignatureVerifier? {
    if let verifier = lock.withLock({ idle[algorithm]?.popLast() }) { return verifier }
    return unsafe SignatureVerifier(algorithm, key: pointer)
  }
}
