import COpenSSL

extension TLSError {
  /// An error in the configuration, with OpenSSL's last reason for it, which it takes off the thread's error queue.
  static func configuration(_ message: String) -> TLSError {
    let code = ERR_peek_last_error()
    ErrorQueue.clear()
    return TLSError(.configuration, message, reason: reason(of: code))
  }

  /// OpenSSL could not do what needs nothing but memory.
  static func internalFailure(_ message: String) -> TLSError {
    let code = ERR_peek_last_error()
    let failure: TLSFailure? = ErrorQueue.takeMemoryFailure() ? .outOfMemory : nil
    return TLSError(.internalFailure, message, reason: reason(of: code), failure: failure)
  }

  /// What made the last call on `ssl` fail for good, read off the thread's error queue.
  /// - Parameter server: Whom a client expected; nil for a server.
  static func failure(of ssl: OpaquePointer, server: ServerIdentity?) -> TLSError {
    let code = ERR_peek_last_error()
    // It may be deeper in the queue than the last failure, which it led to.
    let isOutOfMemory = ErrorQueue.takeMemoryFailure()
    let cause = isOutOfMemory ? .internalFailure : cause(of: code)
    let sentence = unsafe server?.sentence(for: cause, ERR_GET_REASON(code)) ?? sentence(for: cause, ssl)
    let failure = isOutOfMemory ? .outOfMemory : TLSFailure(code)
    return TLSError(cause, sentence, reason: reason(of: code), failure: failure)
  }

  private static func cause(of code: UInt) -> Cause {
    let number = ERR_GET_REASON(code)
    // What OpenSSL calls fatal is what no peer can bring about: no memory, a null argument, an internal error.
    guard code != 0, ERR_FATAL_ERROR(code) == 0 else { return .internalFailure }
    guard ERR_GET_LIB(code) == ERR_LIB_SSL else { return .violationByPeer }
    return switch number {
    case SSL_R_HTTP_REQUEST: .plaintextHTTP
    case SSL_R_CERTIFICATE_VERIFY_FAILED: .certificateOfPeer
    // A fatal alert from the peer becomes the reason 1000 + its number.
    case SSL_AD_REASON_OFFSET..<SSL_AD_REASON_OFFSET + 256: .alertFromPeer
    default: .violationByPeer
    }
  }

  private static func sentence(for cause: Cause, _ ssl: OpaquePointer) -> String {
    switch cause {
    case .plaintextHTTP: "The peer sent a plain HTTP request to a TLS port."
    case .alertFromPeer: "The peer ended the TLS session with an alert."
    case .certificateOfPeer: unsafe "The peer's certificate was refused: \(verdict(on: ssl))."
    case .internalFailure: "TLS failed for a reason of our own."
    case .configuration, .violationByPeer, .limitExceeded: "The peer's TLS is malformed or not acceptable."
    }
  }

  /// How the verification of the peer's certificate ended, in OpenSSL's words.
  private static func verdict(on ssl: OpaquePointer) -> String {
    unsafe X509_verify_cert_error_string(SSL_get_verify_result(ssl)).map { unsafe String(cString: $0) } ?? "unknown"
  }

  private static func reason(of code: UInt) -> String? {
    unsafe ERR_reason_error_string(code).map { unsafe String(cString: $0) }
  }
}
