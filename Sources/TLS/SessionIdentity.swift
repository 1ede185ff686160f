import COpenSSL

/// The session ID context: the server accepts a session ticket only if it was issued under the same context.
///
/// A resumed session carries the client certificate that was verified when it began. So the context is a digest of the
/// client CAs, and removing a CA invalidates the sessions that depend on it.
struct SessionIdentity {
  /// The context, 32 bytes.
  private(set) var digest = [UInt8](repeating: 0, count: Int(SHA256_DIGEST_LENGTH))

  /// Adds a client CA. Returns false if OpenSSL cannot compute its digest.
  mutating func add(_ authority: borrowing Certificate) -> Bool {
    var fingerprint = digest
    guard unsafe X509_digest(authority.pointer, EVP_sha256(), &fingerprint, nil) == 1 else { return false }
    // Chained, so that the digest depends on all CAs and on their order.
    let input = digest + fingerprint
    return unsafe EVP_Digest(input, input.count, &digest, nil, EVP_sha256(), nil) == 1
  }

  /// Sets the context. Returns false if OpenSSL refuses it.
  func set(on context: OpaquePointer) -> Bool {
    unsafe SSL_CTX_set_session_id_context(context, digest, UInt32(digest.count)) == 1
  }
}
