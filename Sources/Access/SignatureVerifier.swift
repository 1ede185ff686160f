import COpenSSL
import Cryptography

/// Verifies signatures by one key and one algorithm, and reuses OpenSSL's prepared contexts. The contexts hold state,
/// so a verifier belongs to one thread at a time.
@safe final class SignatureVerifier {
  // Safe: the pointers are valid from `init` to `deinit`, and each holds its own reference to the key.

  /// Ed25519 hashes the input itself, twice (RFC 8032 §5.1.7); for the other algorithms the verifier hashes it first.
  @safe private enum Engine {
    case digested(context: OpaquePointer, SHA256.Hasher)
    case whole(key: OpaquePointer)
  }

  private let engine: Engine

  /// Returns nil if OpenSSL lacks memory, or the key is not for the algorithm.
  init?(_ algorithm: JWTAlgorithm, key: OpaquePointer) {
    guard let engine = unsafe Self.engine(algorithm, key) else {
      ERR_clear_error()
      return nil
    }
    self.engine = engine
  }

  deinit {
    switch engine {
    case .digested(let context, _): unsafe EVP_PKEY_CTX_free(context)
    case .whole(let key): unsafe EVP_PKEY_free(key)
    }
  }

  /// Returns whether the signature is valid. OpenSSL expects ECDSA signatures in DER.
  func verifies(_ signature: Span<UInt8>, of input: Span<UInt8>) -> Bool {
    let isGood =
      switch engine {
      case .digested(let context, let hasher): unsafe verifies(signature, of: input, context, hasher)
      case .whole(let key): unsafe verifies(signature, of: input, key)
      }
    // A later TLS call of this thread must not find the errors of this call.
    if !isGood { ERR_clear_error() }
    return isGood
  }

  private func verifies(
    _ signature: Span<UInt8>, of input: Span<UInt8>, _ context: OpaquePointer, _ hasher: SHA256.Hasher
  ) -> Bool {
    guard let hash = try? hasher.digest(of: input) else { return false }
    return unsafe hash.span.withUnsafeBufferPointer { hash in
      unsafe signature.withUnsafeBufferPointer { signature in
        unsafe EVP_PKEY_verify(context, signature.baseAddress, signature.count, hash.baseAddress, hash.count) == 1
      }
    }
  }

  private func verifies(_ signature: Span<UInt8>, of input: Span<UInt8>, _ key: OpaquePointer) -> Bool {
    guard let context = unsafe EVP_MD_CTX_new() else { return false }
    defer { unsafe EVP_MD_CTX_free(context) }
    return unsafe input.withUnsafeBufferPointer { input in
      unsafe signature.withUnsafeBufferPointer { signature in
        unsafe EVP_DigestVerifyInit_ex(context, nil, nil, nil, nil, key, nil) == 1
          && EVP_DigestVerify(context, signature.baseAddress, signature.count, input.baseAddress, input.count) == 1
      }
    }
  }

  private static func engine(_ algorithm: JWTAlgorithm, _ key: OpaquePointer) -> Engine? {
    guard algorithm != .edDSA else {
      guard unsafe EVP_PKEY_up_ref(key) == 1 else { return nil }
      return unsafe .whole(key: key)
    }
    guard let hasher = try? SHA256.Hasher(), let context = unsafe EVP_PKEY_CTX_new_from_pkey(nil, key, nil)
    else { return nil }
    guard unsafe EVP_PKEY_verify_init(context) == 1,
      unsafe EVP_PKEY_CTX_set_signature_md(context, SHA256.algorithm.pointer) == 1,
      unsafe setPadding(algorithm, context)
    else {
      unsafe EVP_PKEY_CTX_free(context)
      return nil
    }
    return unsafe .digested(context: context, hasher)
  }

  /// Sets the padding. For PSS, the salt is as long as the hash, and MGF1 uses the same hash (RFC 7518 §3.5).
  private static func setPadding(_ algorithm: JWTAlgorithm, _ context: OpaquePointer) -> Bool {
    switch algorithm {
    case .es256, .edDSA: true
    case .rs256: unsafe EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PADDING) == 1
    case .ps256:
      unsafe EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PSS_PADDING) == 1
        && EVP_PKEY_CTX_set_rsa_pss_saltlen(context, RSA_PSS_SALTLEN_DIGEST) == 1
        && EVP_PKEY_CTX_set_rsa_mgf1_md(context, SHA256.algorithm.pointer) == 1
    }
  }
}
