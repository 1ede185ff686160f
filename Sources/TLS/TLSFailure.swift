import COpenSSL

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
