/// Why there is no response from the upstream.
public struct UpstreamError: Error, Sendable, Equatable, CustomStringConvertible {
  /// How far the request had come, which decides whether it may be sent again (RFC 9110 §9.2.2).
  public enum Progress: Sendable, Equatable {
    /// It provably did not reach the upstream's application: never sent, or refused unprocessed (RFC 9113 §8.7).
    case unprocessed
    /// It was sent, at least in part, and no response had begun.
    case unanswered
    /// The final response had begun.
    case answered
  }

  /// What failed. The raw value is the error type of `Proxy-Status` (RFC 9209 §2.3).
  public enum Cause: String, Sendable, CaseIterable {
    case dnsError = "dns_error"
    case dnsTimeout = "dns_timeout"
    case destinationUnavailable = "destination_unavailable"
    case destinationIPUnroutable = "destination_ip_unroutable"
    case connectionRefused = "connection_refused"
    case connectionTerminated = "connection_terminated"
    case connectionTimeout = "connection_timeout"
    case connectionReadTimeout = "connection_read_timeout"
    case connectionWriteTimeout = "connection_write_timeout"
    case connectionLimitReached = "connection_limit_reached"
    case tlsProtocolError = "tls_protocol_error"
    case tlsCertificateError = "tls_certificate_error"
    case tlsAlertReceived = "tls_alert_received"
    case responseIncomplete = "http_response_incomplete"
    case responseHeaderSectionSize = "http_response_header_section_size"
    case responseTimeout = "http_response_timeout"
    case protocolError = "http_protocol_error"
    case proxyInternalError = "proxy_internal_error"
    /// The request's task was cancelled, or the client was closed.
    case cancelled = "cancelled"
  }

  /// What failed.
  public let cause: Cause
  /// How far the request had come.
  public let progress: Progress
  /// One sentence for the operator: what happened, with whom, and what to do if that is known. No secret is in it.
  public let description: String
  /// The connection whose end failed this request together with all others on it; nil if the failure is the request's
  /// own. No two connections of the process have the same number.
  public let connection: UInt64?

  /// An error.
  public init(_ cause: Cause, _ progress: Progress, _ description: String, connection: UInt64? = nil) {
    self.cause = cause
    self.progress = progress
    self.description = description
    self.connection = connection
  }
}
