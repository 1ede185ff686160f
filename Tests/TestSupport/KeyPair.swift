import COpenSSL

/// A fresh key pair for a test.
///
/// `@unchecked Sendable`: the key never changes after its creation, and OpenSSL counts references atomically.
@safe public final class KeyPair: @unchecked Sendable {
  /// The algorithm of a key.
  public enum Algorithm: Sendable, Hashable {
    /// ECDSA on P-256.
    case p256
    /// ECDSA on P-384.
    case p384
    /// RSA with this number of bits.
    case rsa(Int32)
  }

  let key: OpaquePointer

  /// Generates a key pair.
  public init(_ algorithm: Algorithm = .p256) throws {
    let name = if case .rsa = algorithm { "RSA" } else { "EC" }
    let context = unsafe EVP_PKEY_CTX_new_from_name(nil, name, nil)
    defer { unsafe EVP_PKEY_CTX_free(context) }
    guard unsafe EVP_PKEY_keygen_init(context) == 1 else { throw TestFailure("OpenSSL cannot make \(name) keys.") }
    switch algorithm {
    case .p256: unsafe EVP_PKEY_CTX_set_group_name(context, "P-256")
    case .p384: unsafe EVP_PKEY_CTX_set_group_name(context, "P-384")
    case .rsa(let bits): unsafe EVP_PKEY_CTX_set_rsa_keygen_bits(context, bits)
    }
    var key: OpaquePointer?
    guard unsafe EVP_PKEY_generate(context, &key) == 1, let key = unsafe key else {
      throw TestFailure("OpenSSL cannot make a key: \(algorithm).")
    }
    unsafe self.key = key
  }

  deinit { unsafe EVP_PKEY_free(key) }

  /// The private key as PKCS #8 in PEM.
  public var pem: String {
    unsafe PEMText { bio in unsafe PEM_write_bio_PKCS8PrivateKey(bio, key, nil, nil, 0, nil, nil) }.text
  }

  /// The private key as encrypted PKCS #8 in PEM.
  public func encryptedPEM(passphrase: String) -> String {
    unsafe PEMText { bio in
      unsafe PEM_write_bio_PKCS8PrivateKey(
        bio, key, EVP_aes_256_cbc(), passphrase, Int32(passphrase.utf8.count), nil, nil)
    }.text
  }

  /// The public key as SubjectPublicKeyInfo in PEM.
  public var publicPEM: String {
    unsafe PEMText { bio in unsafe PEM_write_bio_PUBKEY(bio, key) }.text
  }
}
