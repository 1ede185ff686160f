import COpenSSL

/// Verifies signatures by one key and one algorithm, and reuses OpenSSL's prepared contexts.
///
/// The contexts hold state, so a verifier belongs to one thread at a time.
@safe final class SignatureVerifier {
  // Safe: the contexts are valid from `init` to `deinit`, and each holds its own reference to the key.

  private let digestContext: OpaquePointer
  private let engine: Engine

  /// Ed25519 hashes the input itself, twice (RFC 8032 §5.1.7). For the other algorithms, the verifier hashes it first.
  @safe private enum Engine {
    case digested(context: OpaquePointer, digest: OpaquePointer)
    case whole(key: OpaquePointer)
  }

  /// Returns nil if OpenSSL lacks memory, or the key is not for the algorithm.
  init?(_ algorithm: JWTAlgorithm, key: OpaquePointer) {
    guard let digestContext = unsafe EVP_MD_CTX_new() else { return nil }
    guard let engine = unsafe Self.engine(algorithm, key) else {
      unsafe EVP_MD_CTX_free(digestContext)
      ERR_clear_error()
      return nil
    }
    unsafe self.digestContext = digestContext
    self.engine = engine
  }

  deinit {
    unsafe EVP_MD_CTX_free(digestContext)
    switch engine {
    case .digested(let context, let digest):
      unsafe EVP_PKEY_CTX_free(context)
      unsafe EVP_MD_free(digest)
    case .whole(let key): unsafe EVP_PKEY_free(key)
    }
  }

  /// Returns whether the signature is valid. OpenSSL expects ECDSA signatures in DER.
  func verifies(_ signature: Span<UInt8>, of input: Span<UInt8>) -> Bool {
    let isGood =
      switch engine {
      case .digested(let context, let digest): unsafe verifies(signature, of: input, context, digest)
      case .whole(let key): unsafe verifies(signature, of: input, key)
      }
    // A later TLS call of this thread must not find the errors of this call.
    if !isGood { ERR_clear_error() }
    return isGood
  }

  private func verifies(
    _ signature: Span<UInt8>, of input: Span<UInt8>, _ context: OpaquePointer, _ digest: OpaquePointer
  ) -> Bool {
    var hash = InlineArray<32, UInt8>(repeating: 0)
    var hashSpan = hash.mutableSpan
    let isHashed = unsafe hashSpan.withUnsafeMutableBufferPointer { hash in
      unsafe input.withUnsafeBufferPointer { input in
        unsafe EVP_DigestInit_ex2(digestContext, digest, nil) == 1
          && EVP_DigestUpdate(digestContext, input.baseAddress, input.count) == 1
          && EVP_DigestFinal_ex(digestContext, hash.baseAddress, nil) == 1
      }
    }
    guard isHashed else { return false }
    return unsafe hash.span.withUnsafeBufferPointer { hash in
      unsafe signature.withUnsafeBufferPointer { signature in
        unsafe EVP_PKEY_verify(context, signature.baseAddress, signature.count, hash.baseAddress, hash.count) == 1
      }
    }
  }

  private func verifies(_ signature: Span<UInt8>, of input: Span<UInt8>, _ key: OpaquePointer) -> Bool {
    unsafe input.withUnsafeBufferPointer { input in
      unsafe signature.withUnsafeBufferPointer { signature in
        unsafe EVP_DigestVerifyInit_ex(digestContext, nil, nil, nil, nil, key, nil) == 1
          && EVP_DigestVerify(digestContext, signature.baseAddress, signature.count, input.baseAddress, input.count)
            == 1
      }
    }
  }

  // MARK: Preparation

  private static func engine(_ algorithm: JWTAlgorithm, _ key: OpaquePointer) -> Engine? {
    guard algorithm != .edDSA else {
      guard unsafe EVP_PKEY_up_ref(key) == 1 else { return nil }
      return unsafe .whole(key: key)
    }
    guard let digest = unsafe EVP_MD_fetch(nil, "SHA256", nil) else { return nil }
    guard let context = unsafe EVP_PKEY_CTX_new_from_pkey(nil, key, nil) else {
      unsafe EVP_MD_free(digest)
      return nil
    }
    guard unsafe EVP_PKEY_verify_init(context) == 1, unsafe EVP_PKEY_CTX_set_signature_md(context, digest) == 1,
      unsafe setPadding(algorithm, context, digest)
    else {
      unsafe EVP_PKEY_CTX_free(context)
      unsafe EVP_MD_free(digest)
      return nil
    }
    return unsafe .digested(context: context, digest: digest)
  }

  /// Sets the padding. For PSS, the salt is as long as the hash, and MGF1 uses the same hash (RFC 7518 §3.5).
  private static func setPadding(_ algorithm: JWTAlgorithm, _ context: OpaquePointer, _ digest: OpaquePointer) -> Bool {
    switch algorithm {
    case .es256, .edDSA: true
    case .rs256: unsafe EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PADDING) == 1
    case .ps256:
      unsafe EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PSS_PADDING) == 1
        && EVP_PKEY_CTX_set_rsa_pss_saltlen(context, RSA_PSS_SALTLEN_DIGEST) == 1
        && EVP_PKEY_CTX_set_rsa_mgf1_md(context, digest) == 1
    }
  }
}
