public import HTTPTypes

/// A server that requests are sent to, as one event loop sees it. Called from tasks of that loop only.
public protocol Upstream: Sendable {
  /// Sends one request, once, and returns when the head of the final response has come.
  ///
  /// A cancelled task ends the exchange: an HTTP/2 stream is reset, an HTTP/1.1 connection closed.
  ///
  /// - Parameter limits: How long it may take.
  func send(_ request: UpstreamRequest, limits: UpstreamTimeouts) async throws(UpstreamError) -> UpstreamResponse

  /// Lets time pass. Throws when the task is cancelled first.
  func pause(for duration: Duration) async throws(CancellationError)
}

/// How long one exchange with an upstream may take.
public struct UpstreamTimeouts: Sendable, Equatable {
  /// For a connection to be there: name, addresses, TLS.
  public var connect: Duration
  /// From the request being sent to the head of the response.
  public var firstByte: Duration
  /// From `send` to the last byte of the response.
  public var whole: Duration

  /// Bounds for one exchange.
  public init(connect: Duration, firstByte: Duration, whole: Duration) {
    self.connect = connect
    self.firstByte = firstByte
    self.whole = whole
  }
}

/// A request to an upstream server. Scheme and authority are the upstream's own.
public struct UpstreamRequest: Sendable {
  /// The method.
  public var method: HTTPRequest.Method
  /// The path with its query, in origin form (RFC 9112 §3.2.1): sent byte for byte.
  public var target: String
  /// End-to-end header fields. Host, connection and framing fields are the client's to add.
  public var fields: HTTPFields
  /// Its content; nil for none.
  public var content: (any ContentReader)?
  /// The length of the content in bytes, if it is known beforehand.
  public var contentLength: Int?

  /// A request, without content unless given.
  public init(
    _ method: HTTPRequest.Method, _ target: String, fields: HTTPFields = [:], content: (any ContentReader)? = nil,
    contentLength: Int? = nil
  ) {
    self.method = method
    self.target = target
    self.fields = fields
    self.content = content
    self.contentLength = contentLength
  }
}

/// An upstream's final response, whose content is still to be read, or cancelled.
public struct UpstreamResponse: Sendable {
  /// The status.
  public var status: HTTPResponse.Status
  /// Its end-to-end header fields, valid (RFC 9110 §5.5); those of the connection are gone.
  public var fields: HTTPFields
  /// The version of HTTP that it came in, as `Via` has it: `2` or `1.1`.
  public var version: StaticString
  /// The content. If the response has no content, the first read returns nil.
  public var content: any ContentReader
  /// The length of the content in bytes, if the upstream has said it.
  public var contentLength: Int?

  /// A response.
  public init(
    status: HTTPResponse.Status, fields: HTTPFields, version: StaticString = "1.1", content: any ContentReader,
    contentLength: Int? = nil
  ) {
    self.status = status
    self.fields = fields
    self.version = version
    self.content = content
    self.contentLength = contentLength
  }
}

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
