import COpenSSL

@testable import TLS

/// Results of the handshake that the program does not need.
extension TLSSession {
  /// The protocol version in OpenSSL's form: `TLSv1.2` or `TLSv1.3`.
  var version: String { unsafe SSL_get_version(ssl).map { unsafe String(cString: $0) } ?? "unknown" }

  /// The cipher suite in OpenSSL's form, such as `TLS_AES_256_GCM_SHA384`, or nil before it is chosen.
  var cipher: String? {
    unsafe SSL_get_current_cipher(ssl).flatMap { unsafe SSL_CIPHER_get_name($0) }.map { unsafe String(cString: $0) }
  }

  /// The host that the client requested (RFC 6066 §3).
  var serverName: String? {
    unsafe SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name).map { unsafe String(cString: $0) }
  }
}
