import COpenSSL

/// Why a TLS context could not be made, or why a session had to end.
///
/// It is safe to log whole: it holds file names and OpenSSL's reason, never a byte of a key or of what was encrypted.
public struct TLSError: Error, Sendable, Equatable {
  /// What went wrong, in the kinds that a caller may handle differently.
  public enum Cause: Sendable, Equatable {
    /// A certificate, key or CA file, or a setting, cannot be used. The operator has to fix the configuration.
    case configuration
    /// The peer spoke plain HTTP. Nothing was sent: it would understand `400` in plain HTTP, but no TLS alert.
    case plaintextHTTP
    /// The peer sent a fatal alert, for example because it does not trust our certificate (RFC 8446 §6.2).
    case alertFromPeer
    /// The peer broke the protocol, or asked for what is not on offer. The alert for it is in `outgoing`.
    case violationByPeer
    /// The peer's client certificate does not hold up against the client CA. The alert for it is in `outgoing`.
    case certificateOfPeer
    /// The peer exceeded one of ``TLSLimits``.
    case limitExceeded
    /// OpenSSL failed because memory ran out or because of an error in this program.
    case internalFailure
  }

  /// What went wrong, for programs.
  public let cause: Cause

  /// What went wrong, for people: one sentence, or two if there is a fix to name.
  public let message: String

  /// OpenSSL's own words for it, if it was OpenSSL that refused.
  public let reason: String?

  /// What went wrong, in the kinds that a server's operator tells apart.
  public let failure: TLSFailure

  /// Whether the peer is to blame, so that it is worth no more than a line at `debug` level.
  public var isCausedByPeer: Bool {
    switch cause {
    case .configuration, .internalFailure: false
    case .plaintextHTTP, .alertFromPeer, .violationByPeer, .certificateOfPeer, .limitExceeded: true
    }
  }

  init(_ cause: Cause, _ message: String, reason: String? = nil, failure: TLSFailure? = nil) {
    self.cause = cause
    self.failure = failure ?? cause.failure
    self.message = message
    self.reason = reason
  }
}

extension TLSError: CustomStringConvertible {
  /// The message, followed by OpenSSL's own words where there are any.
  public var description: String {
    reason.map { "\(message) (OpenSSL: \($0))" } ?? message
  }
}

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

/// Why a TLS session failed, in the kinds that an operator tells apart. There are few, so that a metric can have a label
/// for each.
public enum TLSFailure: Sendable, CaseIterable {
  case untrustedCertificate, expiredCertificate, refusedCertificate
  case unsupportedVersion, nothingShared, noApplicationProtocol, notTLS
  case clientCertificate
  case timedOut, closed, limitExceeded
  case otherAlert, protocolViolation
  case outOfMemory, internalError

  /// The value of a metric's label.
  public var label: StaticString {
    switch self {
    case .untrustedCertificate: "untrusted_certificate"
    case .expiredCertificate: "expired_certificate"
    case .refusedCertificate: "refused_certificate"
    case .unsupportedVersion: "unsupported_version"
    case .nothingShared: "nothing_shared"
    case .noApplicationProtocol: "no_application_protocol"
    case .notTLS: "not_tls"
    case .clientCertificate: "client_certificate"
    case .timedOut: "timeout"
    case .closed: "closed"
    case .limitExceeded: "limit_exceeded"
    case .otherAlert: "other_alert"
    case .protocolViolation: "protocol_violation"
    case .outOfMemory: "out_of_memory"
    case .internalError: "internal_error"
    }
  }

  /// What happened, for a log of the server: the rest of a sentence.
  public var sentence: StaticString {
    switch self {
    case .untrustedCertificate: "the client does not trust the certificate"
    case .expiredCertificate: "the client says that the certificate has expired"
    case .refusedCertificate: "the client does not accept the certificate"
    case .unsupportedVersion: "the client does not speak TLS 1.2 or 1.3"
    case .nothingShared: "the client and the server share no cipher suite, curve or signature algorithm"
    case .noApplicationProtocol: "the client asks by ALPN for protocols that the server does not speak"
    case .notTLS: "the client does not speak TLS"
    case .clientCertificate: "the client's certificate was refused"
    case .timedOut: "the client did not finish the handshake within server.limits.tlsHandshake"
    case .closed: "the client closed the connection during the handshake"
    case .limitExceeded: "the client sent more than the limit allows"
    case .otherAlert: "the client ended it with an alert"
    case .protocolViolation: "the client broke the TLS protocol"
    case .outOfMemory: "there is no memory for it"
    case .internalError: "OpenSSL failed"
    }
  }

  /// Whether the server's operator can do something about it. The others are what any public port gets.
  public var isForOperator: Bool {
    switch self {
    case .untrustedCertificate, .expiredCertificate, .refusedCertificate, .clientCertificate, .outOfMemory,
      .internalError:
      true
    case .unsupportedVersion, .nothingShared, .noApplicationProtocol, .notTLS, .timedOut, .closed, .limitExceeded,
      .otherAlert, .protocolViolation:
      false
    }
  }
}

extension TLSFailure {
  /// What an error of OpenSSL's stands for; nil if nothing is known of it but its ``TLSError/Cause``.
  init?(_ code: UInt) {
    let number = ERR_GET_REASON(code)
    if number == ERR_R_MALLOC_FAILURE {
      self = .outOfMemory
      return
    }
    guard ERR_GET_LIB(code) == ERR_LIB_SSL, let failure = Self.alert(number) ?? Self.refusal(number) else { return nil }
    self = failure
  }

  /// A fatal alert from the peer, which has the number 1000 + that of RFC 8446 §6.
  private static func alert(_ number: Int32) -> TLSFailure? {
    switch number - SSL_AD_REASON_OFFSET {
    case SSL_AD_UNKNOWN_CA: .untrustedCertificate
    case SSL_AD_CERTIFICATE_EXPIRED: .expiredCertificate
    case SSL_AD_BAD_CERTIFICATE, SSL_AD_UNSUPPORTED_CERTIFICATE, SSL_AD_CERTIFICATE_REVOKED,
      SSL_AD_CERTIFICATE_UNKNOWN:
      .refusedCertificate
    case SSL_AD_PROTOCOL_VERSION: .unsupportedVersion
    case SSL_AD_HANDSHAKE_FAILURE, SSL_AD_INSUFFICIENT_SECURITY: .nothingShared
    case SSL_AD_NO_APPLICATION_PROTOCOL: .noApplicationProtocol
    default: nil
    }
  }

  /// What OpenSSL itself refuses.
  private static func refusal(_ number: Int32) -> TLSFailure? {
    switch number {
    case SSL_R_NO_SHARED_CIPHER, SSL_R_NO_SUITABLE_KEY_SHARE, SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM,
      SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS, SSL_R_NO_SHARED_GROUPS:
      .nothingShared
    case SSL_R_UNSUPPORTED_PROTOCOL, SSL_R_VERSION_TOO_LOW, SSL_R_UNSUPPORTED_SSL_VERSION,
      SSL_R_INAPPROPRIATE_FALLBACK, SSL_R_NO_PROTOCOLS_AVAILABLE:
      .unsupportedVersion
    case SSL_R_NO_APPLICATION_PROTOCOL: .noApplicationProtocol
    case SSL_R_HTTP_REQUEST, SSL_R_HTTPS_PROXY_REQUEST, SSL_R_WRONG_VERSION_NUMBER: .notTLS
    case SSL_R_CERTIFICATE_VERIFY_FAILED: .clientCertificate
    default: nil
    }
  }
}

extension TLSError.Cause {
  /// The kind of a failure of which no more is known.
  var failure: TLSFailure {
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

/// The error queue of this thread, which all sessions on it share.
enum ErrorQueue {
  /// Empties it, before a call whose failure is to be told from what other calls left behind: `SSL_get_error` takes any
  /// entry for the failure of the session at hand.
  static func clear() {
    // To look costs a fraction of emptying the sixteen entries, which are nearly always empty.
    if ERR_peek_error() != 0 { ERR_clear_error() }
  }

  /// Empties it, and says whether an allocation failed.
  static func takeMemoryFailure() -> Bool {
    var isFound = false
    var code = ERR_get_error()
    while code != 0 {
      if ERR_GET_REASON(code) == ERR_R_MALLOC_FAILURE { isFound = true }
      code = ERR_get_error()
    }
    return isFound
  }
}
