import COpenSSL
import Glibc

/// A TLS session of OpenSSL's client on a blocking socket, which it does not own. It trusts every certificate.
@safe final class ClientTLS {
  private let ssl: OpaquePointer

  // Created once, never changed and never freed, so any thread may create sessions from it.
  nonisolated(unsafe) private static let context = unsafe SSL_CTX_new(TLS_client_method())

  /// Performs the handshake.
  init(_ descriptor: Int32) throws {
    guard let context = unsafe Self.context, let ssl = unsafe SSL_new(context) else {
      throw TestFailure("There is no memory for a TLS client.")
    }
    unsafe self.ssl = unsafe ssl
    unsafe SSL_set_min_proto_version(ssl, TLS1_3_VERSION)
    let protocols = [UInt8("http/1.1".utf8.count)] + Array("http/1.1".utf8)
    unsafe SSL_set_alpn_protos(ssl, protocols, UInt32(protocols.count))
    unsafe SSL_set_fd(ssl, descriptor)
    // OpenSSL writes to its sockets without MSG_NOSIGNAL.
    signal(SIGPIPE, SIG_IGN)
    ERR_clear_error()
    guard unsafe SSL_connect(ssl) == 1 else { throw TestFailure("The TLS handshake failed.") }
  }

  deinit {
    unsafe SSL_free(ssl)
  }

  func write(_ bytes: [UInt8]) throws {
    guard !bytes.isEmpty else { return }
    ERR_clear_error()
    guard unsafe SSL_write(ssl, bytes, Int32(bytes.count)) == Int32(bytes.count) else {
      throw TestFailure("The client cannot send over TLS.")
    }
  }

  /// Returns the next plaintext, or nil at the end of the connection, with or without close_notify.
  func read() throws -> [UInt8]? {
    var bytes = [UInt8](repeating: 0, count: 16 * 1024)
    ERR_clear_error()
    let count = unsafe SSL_read(ssl, &bytes, Int32(bytes.count))
    if count > 0 { return Array(bytes.prefix(Int(count))) }
    switch unsafe SSL_get_error(ssl, count) {
    case SSL_ERROR_ZERO_RETURN: return nil
    case SSL_ERROR_SSL where ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING: return nil
    default: throw TestFailure("The client cannot receive over TLS.")
    }
  }

  /// Fails the session with an alert, by feeding it a record that does not decrypt.
  func sendFatalAlert() throws {
    guard let forged = unsafe BIO_new(BIO_s_mem()) else { throw TestFailure("There is no memory for a record.") }
    let record: [UInt8] = [23, 3, 3, 0, 32] + [UInt8](repeating: 0, count: 32)
    unsafe BIO_write(forged, record, Int32(record.count))
    unsafe SSL_set0_rbio(ssl, forged)
    _ = try? read()
  }

  /// Sends close_notify.
  func close() {
    ERR_clear_error()
    unsafe SSL_shutdown(ssl)
  }

  var isClosedByPeer: Bool { unsafe SSL_get_shutdown(ssl) & SSL_RECEIVED_SHUTDOWN != 0 }
}
