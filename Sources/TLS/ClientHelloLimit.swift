import COpenSSL

/// The search for ClientHellos that announce more bytes than a server waits for.
///
/// OpenSSL allocates, and fills, the whole announced length of a ClientHello when its first four bytes arrive: up to
/// 128 KiB for a peer that then sends nothing. So a server looks at the announced length first. A client sends
/// ClientHellos unencrypted: first, and in TLS 1.3 once more after a HelloRetryRequest (RFC 8446 §4.1.4). OpenSSL limits
/// all other messages of a client.
struct ClientHelloLimit {
  /// The bytes of the present message's header (RFC 8446 §4), and how many there are.
  private var header: UInt32 = 0
  private var headerCount = 0
  /// The bytes of the present message that are still to come.
  private var rest = 0

  /// Returns whether an unencrypted `record` continues or begins a ClientHello of more than `limit` bytes.
  mutating func isExceeded(by record: UnsafeRawBufferPointer, _ limit: Int) -> Bool {
    // An SSLv2 ClientHello is one record, and so no longer than one.
    guard unsafe record[0] == UInt8(SSL3_RT_HANDSHAKE) else { return false }
    let content = unsafe record.dropFirst(Self.recordHeader)
    return unsafe isExceeded(byContent: UnsafeRawBufferPointer(rebasing: content), limit)
  }

  private mutating func isExceeded(byContent content: UnsafeRawBufferPointer, _ limit: Int) -> Bool {
    var next = 0
    while next < content.count {
      if rest > 0 {
        let part = min(rest, content.count - next)
        (rest, next) = (rest - part, next + part)
        continue
      }
      header = unsafe header << 8 | UInt32(content[next])
      (headerCount, next) = (headerCount + 1, next + 1)
      guard headerCount == Self.messageHeader else { continue }
      rest = Int(header & 0xff_ffff)
      headerCount = 0
      if header >> 24 == UInt32(SSL3_MT_CLIENT_HELLO), rest > limit { return true }
    }
    return false
  }

  private static let recordHeader = Int(SSL3_RT_HEADER_LENGTH)
  private static let messageHeader = Int(SSL3_HM_HEADER_LENGTH)
}

/// The limits on the certificates of a client.
enum ClientChain {
  /// Limits the certificates that the clients of `context` may send, and keeps only the first of them after its
  /// verification.
  static func limit(on context: OpaquePointer, _ limits: TLSLimits) {
    // Before OpenSSL allocates memory for the message.
    unsafe SSL_CTX_set_max_cert_list(context, limits.certificateListBytes)
    unsafe SSL_CTX_set_cert_verify_callback(
      context,
      { store, mostCertificates in
        guard let store = unsafe store, let chain = unsafe X509_STORE_CTX_get0_untrusted(store) else { return 0 }
        guard unsafe OPENSSL_sk_num(chain) <= Int(bitPattern: mostCertificates) else {
          unsafe X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_CHAIN_TOO_LONG)
          return 0
        }
        let result = unsafe X509_verify_cert(store)
        // A session would keep them until it ends. The first is the client's own. Safe: the stack is the one that
        // OpenSSL's handshake gives to the session next, and the verification has its own references.
        while unsafe OPENSSL_sk_num(chain) > 1 { unsafe X509_free(OpaquePointer(OPENSSL_sk_pop(chain))) }
        return result
      }, UnsafeMutableRawPointer(bitPattern: limits.mostCertificates))
  }
}
