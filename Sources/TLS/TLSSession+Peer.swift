import COpenSSL

/// What the handshake settled, and what the client said about itself.
extension TLSSession {
  /// Whether the handshake finished and the peer has not closed.
  public var isEstablished: Bool { state == .established }

  /// Whether a ticket of an earlier session spared the full handshake.
  public var wasResumed: Bool { unsafe SSL_session_reused(ssl) == 1 }

  /// The protocol version, as OpenSSL writes it: `TLSv1.2` or `TLSv1.3`.
  public var version: String { unsafe SSL_get_version(ssl).map { unsafe String(cString: $0) } ?? "unknown" }

  /// The cipher suite by OpenSSL's name, for example `TLS_AES_256_GCM_SHA384`; nil before it is chosen.
  public var cipher: String? {
    unsafe SSL_get_current_cipher(ssl).flatMap { unsafe SSL_CIPHER_get_name($0) }.map { unsafe String(cString: $0) }
  }

  /// The host that the client asked for (RFC 6066 §3), unchecked. It has no say in which certificate is shown. A
  /// resumed TLS 1.2 session has none.
  public var serverName: String? {
    unsafe SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name).map { unsafe String(cString: $0) }
  }

  /// The protocol chosen by ALPN (RFC 7301); nil if the client did not use it.
  public var applicationProtocol: String? {
    var name: UnsafePointer<UInt8>?
    var length: UInt32 = 0
    unsafe SSL_get0_alpn_selected(ssl, &name, &length)
    guard let name = unsafe name else { return nil }
    return unsafe String(decoding: UnsafeBufferPointer(start: name, count: Int(length)), as: UTF8.self)
  }

  /// The client's certificate, verified against the client CAs in this handshake or in the one of the session that it
  /// resumes; nil if it sent none. Read afresh each time.
  public var clientCertificate: ClientCertificate? {
    unsafe SSL_get0_peer_certificate(ssl).flatMap { unsafe ClientCertificate($0, authorities: authorities) }
  }

  /// What the session is tied to: see ``SessionIdentity``.
  private var authorities: [UInt8] {
    guard let session = unsafe SSL_get_session(ssl) else { return [] }
    var length: UInt32 = 0
    guard let identity = unsafe SSL_SESSION_get0_id_context(session, &length) else { return [] }
    return unsafe Array(UnsafeBufferPointer(start: identity, count: Int(length)))
  }
}
