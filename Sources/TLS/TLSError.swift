import COpenSSL

/// The reason why a context could not be made, or a session ended. Safe to log: no byte of a key or of encrypted data.
public struct TLSError: Error, Sendable, Equatable, CustomStringConvertible {
  /// The kinds of errors that a caller may handle differently.
  public enum Cause: Sendable, Equatable {
    /// A certificate, key or CA file, or a setting, is not usable. The operator has to correct the configuration.
    case configuration
    /// The peer sent plain HTTP. Nothing was sent: the peer would understand `400` in plain HTTP, but no TLS alert.
    case plaintextHTTP
    /// The peer sent a fatal alert, for example because it does not trust the server's certificate (RFC 8446 §6.2).
    case alertFromPeer
    /// The peer violated the protocol, or requested something unsupported. `outgoing` contains the alert for it.
    case violationByPeer
    /// The peer's client certificate failed verification against the client CA. `outgoing` contains the alert for it.
    case certificateOfPeer
    case limitExceeded
    /// OpenSSL failed because memory was exhausted, or because of an error in this program.
    case internalFailure
  }

  /// The cause, for programs.
  public let cause: Cause
  /// The error for people: one sentence, or two if there is a fix to name.
  public let message: String
  /// OpenSSL's own description, if OpenSSL failed.
  public let reason: String?
  /// The kind of failure for the server's operator.
  public let failure: TLSFailure

  init(_ cause: Cause, _ message: String, reason: String? = nil, failure: TLSFailure? = nil) {
    (self.cause, self.message, self.reason) = (cause, message, reason)
    self.failure = failure ?? cause.failure
  }

  /// The message, followed by OpenSSL's own description if there is one.
  public var description: String { reason.map { "\(message) (OpenSSL: \($0))" } ?? message }

  /// Returns a configuration error with OpenSSL's last reason, which is removed from the thread's error queue.
  static func configuration(_ message: String) -> TLSError {
    let code = ERR_peek_last_error()
    ErrorQueue.clear()
    return TLSError(.configuration, message, reason: reason(of: code))
  }

  /// Returns an error for an operation of OpenSSL that can fail only for lack of memory.
  static func internalFailure(_ message: String) -> TLSError {
    let code = ERR_peek_last_error()
    let failure: TLSFailure? = ErrorQueue.takeMemoryFailure() ? .outOfMemory : nil
    return TLSError(.internalFailure, message, reason: reason(of: code), failure: failure)
  }

  /// Returns the error of the last failed call on `ssl`, read from the thread's error queue.
  /// - Parameter server: The server that a client expects; nil for a server.
  static func failure(of ssl: OpaquePointer, server: ServerIdentity?) -> TLSError {
    let code = ERR_peek_last_error()
    // A failed allocation may be deeper in the queue than the failure that it caused.
    let isOutOfMemory = ErrorQueue.takeMemoryFailure()
    let cause = isOutOfMemory ? .internalFailure : cause(of: code)
    let sentence = unsafe server?.sentence(for: cause, ERR_GET_REASON(code)) ?? sentence(for: cause, ssl)
    let failure = isOutOfMemory ? .outOfMemory : TLSFailure.of(code)
    return TLSError(cause, sentence, reason: reason(of: code), failure: failure)
  }

  private static func cause(of code: UInt) -> Cause {
    // OpenSSL's fatal errors are those that no peer can cause: no memory, a null argument, an internal error.
    guard code != 0, ERR_FATAL_ERROR(code) == 0 else { return .internalFailure }
    guard ERR_GET_LIB(code) == ERR_LIB_SSL else { return .violationByPeer }
    return switch ERR_GET_REASON(code) {
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
    case .certificateOfPeer: unsafe "The peer's certificate is invalid: \(verdict(SSL_get_verify_result(ssl)))."
    case .internalFailure: "TLS failed because of an internal error."
    case .configuration, .violationByPeer, .limitExceeded: "The peer's TLS is malformed or not acceptable."
    }
  }

  /// Returns the result of a certificate's verification, as OpenSSL words it.
  static func verdict(_ result: Int) -> String {
    unsafe X509_verify_cert_error_string(result).map { unsafe String(cString: $0) } ?? "unknown"
  }

  private static func reason(of code: UInt) -> String? {
    unsafe ERR_reason_error_string(code).map { unsafe String(cString: $0) }
  }
}

/// The kinds of failures of a TLS session for an operator: few, so that a metric can have a label for each.
public enum TLSFailure: Sendable, CaseIterable {
  case untrustedCertificate, expiredCertificate, refusedCertificate
  case unsupportedVersion, nothingShared, noApplicationProtocol, notTLS
  case clientCertificate
  case timedOut, closed, limitExceeded
  case otherAlert, protocolViolation
  case outOfMemory, internalError

  /// The value of a metric's label.
  public var label: StaticString { words.label }
  /// The failure for the server's log: the rest of a sentence.
  public var sentence: StaticString { words.sentence }
  /// Whether the server's operator can act on the failure. Any public port gets the other kinds.
  public var isForOperator: Bool { words.isForOperator }

  private var words: (label: StaticString, sentence: StaticString, isForOperator: Bool) {
    switch self {
    case .untrustedCertificate: ("untrusted_certificate", "the client does not trust the certificate", true)
    case .expiredCertificate: ("expired_certificate", "the client says that the certificate has expired", true)
    case .refusedCertificate: ("refused_certificate", "the client does not accept the certificate", true)
    case .unsupportedVersion: ("unsupported_version", "the client does not speak TLS 1.2 or 1.3", false)
    case .nothingShared:
      ("nothing_shared", "the client and the server share no cipher suite, curve or signature algorithm", false)
    case .noApplicationProtocol:
      ("no_application_protocol", "the client offers by ALPN only protocols that the server does not support", false)
    case .notTLS: ("not_tls", "the client does not speak TLS", false)
    case .clientCertificate: ("client_certificate", "the server refused the client's certificate", true)
    case .timedOut: ("timeout", "the client did not finish the handshake within server.limits.tlsHandshake", false)
    case .closed: ("closed", "the client closed the connection during the handshake", false)
    case .limitExceeded: ("limit_exceeded", "the client sent more than the limit allows", false)
    case .otherAlert: ("other_alert", "the client ended the session with an alert", false)
    case .protocolViolation: ("protocol_violation", "the client broke the TLS protocol", false)
    case .outOfMemory: ("out_of_memory", "the server has no memory for it", true)
    case .internalError: ("internal_error", "OpenSSL failed", true)
    }
  }

  /// Returns the kind of an OpenSSL error, or nil if only its ``TLSError/Cause`` is known.
  fileprivate static func of(_ code: UInt) -> TLSFailure? {
    guard ERR_GET_LIB(code) == ERR_LIB_SSL else { return nil }
    // A fatal alert from the peer has the number 1000 + that of RFC 8446 §6.
    let alert = SSL_AD_REASON_OFFSET
    return switch ERR_GET_REASON(code) {
    case alert + SSL_AD_UNKNOWN_CA: .untrustedCertificate
    case alert + SSL_AD_CERTIFICATE_EXPIRED: .expiredCertificate
    case alert + SSL_AD_BAD_CERTIFICATE, alert + SSL_AD_UNSUPPORTED_CERTIFICATE, alert + SSL_AD_CERTIFICATE_REVOKED,
      alert + SSL_AD_CERTIFICATE_UNKNOWN:
      .refusedCertificate
    case alert + SSL_AD_PROTOCOL_VERSION, SSL_R_UNSUPPORTED_PROTOCOL, SSL_R_VERSION_TOO_LOW,
      SSL_R_UNSUPPORTED_SSL_VERSION, SSL_R_INAPPROPRIATE_FALLBACK, SSL_R_NO_PROTOCOLS_AVAILABLE:
      .unsupportedVersion
    case alert + SSL_AD_HANDSHAKE_FAILURE, alert + SSL_AD_INSUFFICIENT_SECURITY, SSL_R_NO_SHARED_CIPHER,
      SSL_R_NO_SUITABLE_KEY_SHARE, SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM, SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS,
      SSL_R_NO_SHARED_GROUPS:
      .nothingShared
    case alert + SSL_AD_NO_APPLICATION_PROTOCOL, SSL_R_NO_APPLICATION_PROTOCOL: .noApplicationProtocol
    case SSL_R_HTTP_REQUEST, SSL_R_HTTPS_PROXY_REQUEST, SSL_R_WRONG_VERSION_NUMBER: .notTLS
    case SSL_R_CERTIFICATE_VERIFY_FAILED: .clientCertificate
    default: nil
    }
  }
}

extension TLSError.Cause {
  /// The kind of a failure with no further details.
  fileprivate var failure: TLSFailure {
    switch self {
    case .configuration, .internalFailure: .internalError
    case .plaintextHTTP: .notTLS
    case .alertFromPeer: .otherAlert
    case .violationByPeer: .protocolViolation
    case .certificateOfPeer: .clientCertificate
    case .limitExceeded: .limitExceeded
    }
  }
}
