import COpenSSL

/// What OpenSSL makes at first use and keeps for the life of the process: providers, algorithms, decoders, error strings.
enum OpenSSLCaches {
  /// Has OpenSSL do once with a random key what it does later with the MusicKit key.
  ///
  /// Its caches take 300 KB: made in locked memory, they would leave no room for the key. A failure here shows again
  /// where it matters.
  static func fill() { filled }

  private static let filled: Void = {
    defer { ERR_clear_error() }
    guard let random = unsafe copenssl_generate_p256() else { return }
    defer { unsafe EVP_PKEY_free(random) }
    guard let key = unsafe decoded(random) else { return }
    defer { unsafe EVP_PKEY_free(key) }
    unsafe sign(with: key)
  }()

  /// The key after a round trip through PKCS #8 in DER.
  private static func decoded(_ key: OpaquePointer) -> OpaquePointer? {
    guard let info = unsafe EVP_PKEY2PKCS8(key) else { return nil }
    defer { unsafe PKCS8_PRIV_KEY_INFO_free(info) }
    var der: UnsafeMutablePointer<UInt8>?
    let count = unsafe i2d_PKCS8_PRIV_KEY_INFO(info, &der)
    guard let der = unsafe der, count > 0 else { return nil }
    defer { unsafe CRYPTO_clear_free(der, Int(count), nil, 0) }
    var cursor = unsafe UnsafePointer<UInt8>?(der)
    guard let parsed = unsafe d2i_PKCS8_PRIV_KEY_INFO(nil, &cursor, Int(count)) else { return nil }
    defer { unsafe PKCS8_PRIV_KEY_INFO_free(parsed) }
    return unsafe EVP_PKCS82PKEY(parsed)
  }

  private static func sign(with key: OpaquePointer) {
    guard let context = unsafe EVP_PKEY_CTX_new_from_pkey(nil, key, nil) else { return }
    defer { unsafe EVP_PKEY_CTX_free(context) }
    guard unsafe EVP_PKEY_sign_init(context) == 1, unsafe EVP_PKEY_CTX_set_signature_md(context, EVP_sha256()) == 1
    else { return }
    let digest = [UInt8](repeating: 0, count: 32)
    var signature = [UInt8](repeating: 0, count: ECDSASignature.longestDER)
    var count = signature.count
    unsafe EVP_PKEY_sign(context, &signature, &count, digest, digest.count)
  }
}
