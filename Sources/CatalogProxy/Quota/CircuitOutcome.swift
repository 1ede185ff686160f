public import HTTPMessages
public import HTTPTypes

/// What an attempt says about the upstream's health.
public enum CircuitOutcome: Sendable, Equatable {
  /// It answers: everything below 500, 429 and 401 included.
  case success
  /// It failed: 5xx, too late, or out of reach.
  case failure
  /// The connection broke under the request. A hundred others may have been on it, and are no further evidence.
  case broken
  /// Nothing: the attempt was given up here.
  case neutral

  /// Of a response.
  public init(_ status: HTTPResponse.Status) {
    self = status.code < 500 ? .success : .failure
  }

  /// Of an exchange that failed.
  public init(_ error: UpstreamError) {
    switch error.cause {
    case .cancelled, .connectionLimitReached, .proxyInternalError: self = .neutral
    case .connectionTerminated, .protocolError, .tlsProtocolError, .tlsAlertReceived, .responseIncomplete:
      self = .broken
    case .dnsError, .dnsTimeout, .destinationUnavailable, .destinationIPUnroutable, .connectionRefused,
      .connectionTimeout, .connectionReadTimeout, .connectionWriteTimeout, .tlsCertificateError, .responseTimeout,
      .responseHeaderSectionSize:
      self = .failure
    }
  }
}
