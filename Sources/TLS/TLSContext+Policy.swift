import COpenSSL

extension TLSContext {
  /// TLS 1.2: forward secrecy and AEAD only, the cheapest first. TLS 1.3 has nothing else by definition.
  private static let cipherList = [
    "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-CHACHA20-POLY1305",
  ].joined(separator: ":")

  /// Best first. P-384 is last and for certificates: TLS 1.2 refuses those whose curve is not in this list.
  private static let groups = "X25519:P-256:P-384"

  /// OpenSSL's own list without SHA-224, which it still offers with ECDSA and RSA in TLS 1.2.
  private static let signatureAlgorithms = [
    "ecdsa_secp256r1_sha256", "ecdsa_secp384r1_sha384", "ecdsa_secp521r1_sha512", "ed25519", "ed448",
    "rsa_pss_pss_sha256", "rsa_pss_pss_sha384", "rsa_pss_pss_sha512",
    "rsa_pss_rsae_sha256", "rsa_pss_rsae_sha384", "rsa_pss_rsae_sha512",
    "rsa_pkcs1_sha256", "rsa_pkcs1_sha384", "rsa_pkcs1_sha512",
  ].joined(separator: ":")

  /// Everything that is the same for every server and every client: versions, ciphers, options, modes, sessions.
  static func applyPolicy(to context: OpaquePointer) throws(TLSError) {
    // Level 2 is 112 bits: no RSA below 2048, no SHA-1. Set here because distributions differ.
    unsafe SSL_CTX_set_security_level(context, 2)
    unsafe SSL_CTX_set_options(
      context,
      // ChaCha20 goes first for clients that put it first: those have no AES in hardware.
      SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION)
    // An idle connection gives its 2 × 16 KiB of record buffers back. Partial writes are of no use here: a session's
    // outgoing array takes everything.
    unsafe SSL_CTX_set_mode(context, Int(SSL_MODE_RELEASE_BUFFERS))
    unsafe SSL_CTX_set_session_cache_mode(context, Int(SSL_SESS_CACHE_OFF))
    let isAccepted =
      unsafe SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1
      && SSL_CTX_set_cipher_list(context, cipherList) == 1
      && SSL_CTX_set1_groups_list(context, groups) == 1
      && SSL_CTX_set1_sigalgs_list(context, signatureAlgorithms) == 1
      // One connection of a keep-alive client needs one ticket to come back with.
      && SSL_CTX_set_num_tickets(context, 1) == 1
    guard isAccepted else {
      throw .internalFailure("This build of OpenSSL lacks the TLS versions, ciphers or signatures required.")
    }
  }

  /// Whether `new` may honour the session tickets of `old`: if both have the same private key.
  ///
  /// When an operator replaces a leaked key, sessions and ticket keys of the old key must end with it.
  static func haveSameKey(_ old: OpaquePointer, _ new: OpaquePointer) -> Bool {
    // Compares the public halves; keys of different kinds are no error, only not equal.
    let isSameKey = unsafe EVP_PKEY_eq(SSL_CTX_get0_privatekey(old), SSL_CTX_get0_privatekey(new)) == 1
    ErrorQueue.clear()
    return isSameKey
  }
}
