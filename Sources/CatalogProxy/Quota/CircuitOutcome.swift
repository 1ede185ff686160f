public import HTTPMessages
public import HTTPTypes

/// What an attempt says about the upstream's health.
public enum CircuitOutcome: Sendable, Equatable {
  /// It answers: everything below 500, 429 and 401 included.
  case success
  /// It failed: 502, 503, 504, too late, or out of reach.
  case failure
  /// It failed in its own way: 500 and every other 5xx. That says nothing about other resources.
  case resourceFailure
  /// The connection broke under the request. A hundred others may have been on it, and are no further evidence.
  case broken
  /// Nothing: the attempt was given up here.
  case neutral

  /// Of a response.
  public init(_ status: HTTPResponse.Status) {
    self =
      switch status.code {
      case ..<500: .success
      case 502, 503, 504: .failure
      default: .resourceFailure
      }
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
