import COpenSSL

/// The session ID context: what a session ticket must have been issued under to be honoured.
///
/// A resumed session carries the client certificate that was verified when it began. So the context is a digest of the
/// client CAs, and to drop a CA voids the sessions that rest on it.
struct SessionIdentity {
  /// The context, 32 bytes.
  private(set) var digest = [UInt8](repeating: 0, count: Int(SHA256_DIGEST_LENGTH))

  /// Adds a client CA. False if OpenSSL fails to digest it.
  mutating func add(_ authority: borrowing Certificate) -> Bool {
    var fingerprint = digest
    guard unsafe X509_digest(authority.pointer, EVP_sha256(), &fingerprint, nil) == 1 else { return false }
    // Chained, so that it depends on each of them and on their order.
    let input = digest + fingerprint
    return unsafe EVP_Digest(input, input.count, &digest, nil, EVP_sha256(), nil) == 1
  }

  /// Sets it. False if OpenSSL refuses.
  func set(on context: OpaquePointer) -> Bool {
    unsafe SSL_CTX_set_session_id_context(context, digest, UInt32(digest.count)) == 1
  }
}
