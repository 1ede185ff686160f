public import Bytes
public import HTTP1
public import HTTPTypes

/// A server that receives this server's requests, for one event loop, which alone calls it.
public protocol Upstream: Sendable {
  /// Prepares a request. It is sent once, by ``UpstreamCall/start(_:)``.
  func call(_ request: UpstreamRequest, limits: UpstreamTimeouts) -> any UpstreamCall
  /// Waits for a duration. Throws if the task is cancelled first.
  func pause(for duration: Duration) async throws(CancellationError)
  /// Calls `ring` on the loop after a duration, unless the alarm is cancelled before or the loop stops.
  func alarm(after duration: Duration, _ ring: @escaping @Sendable () -> Void) -> any CancellableWork
}

/// Work that any thread may cancel.
public protocol CancellableWork: Sendable {
  func cancel()
}

extension Task: CancellableWork where Success == Void, Failure == Never {}

/// A request to an upstream, from its start to the header section of the final response. `cancel`, which is allowed
/// before ``start(_:)`` too, resets an HTTP/2 stream, and closes an HTTP/1.1 connection.
public protocol UpstreamCall: AnyObject, CancellableWork {
  /// Sends the request. `receiver` gets the result once: later, not within this call.
  func start(_ receiver: any UpstreamReceiver)
  /// Ends the exchange unless the request has been sent: then the receiver gets its result. On any thread.
  func cancelUnlessSent()
}

/// The receiver of the result of an ``UpstreamCall``.
public protocol UpstreamReceiver: AnyObject, Sendable {
  /// Takes the response, whose content may still have to arrive, or the error.
  func received(_ result: Result<UpstreamResponse, UpstreamError>)
}

extension Upstream {
  /// Sends one request, once, and returns the head of the final response. Cancelling the task cancels the call.
  public func send(
    _ request: UpstreamRequest, limits: UpstreamTimeouts
  ) async throws(UpstreamError) -> UpstreamResponse {
    try await call(request, limits: limits).result().get()
  }
}

extension UpstreamCall {
  /// Sends the request, and returns the result. Cancelling the task cancels the call.
  public func result() async -> Result<UpstreamResponse, UpstreamError> {
    await withTaskCancellationHandler {
      await unsafe withUnsafeContinuation { task in start(unsafe WaitingTask(task)) }
    } onCancel: {
      cancel()
    }
  }
}

/// A task that waits for a response.
// Safe: a call passes one result.
@safe private final class WaitingTask: UpstreamReceiver, Sendable {
  private let continuation: UnsafeContinuation<Result<UpstreamResponse, UpstreamError>, Never>

  init(_ continuation: UnsafeContinuation<Result<UpstreamResponse, UpstreamError>, Never>) {
    unsafe self.continuation = unsafe continuation
  }

  func received(_ result: Result<UpstreamResponse, UpstreamError>) { unsafe continuation.resume(returning: result) }
}

/// The maximum durations of one exchange with an upstream.
public struct UpstreamTimeouts: Sendable, Equatable {
  /// Until the connection is ready: name resolution, connecting to its addresses, TLS.
  public var connect: Duration
  /// From the sent request to the header section of the response.
  public var firstByte: Duration
  /// From the start of the call to the last byte of the response.
  public var whole: Duration

  /// Creates the bounds for one exchange.
  public init(connect: Duration, firstByte: Duration, whole: Duration) {
    (self.connect, self.firstByte, self.whole) = (connect, firstByte, whole)
  }
}

/// A request to an upstream server, which determines scheme and authority. An object that passes through many hands.
public final class UpstreamRequest: Sendable {
  /// The method.
  public let method: HTTPRequest.Method
  /// The path with its query, in origin form (RFC 9112 §3.2.1), sent unchanged.
  public let target: ByteString
  /// The end-to-end header fields. The HTTP client adds Host, connection and framing fields.
  public let fields: FieldLines
  /// The credential's field, which the HTTP client sends after the others. All requests with this credential share it.
  public let credential: FieldLines
  /// The content, or nil for a request without content.
  public let content: (any ContentReader)?
  /// The length of the content in bytes, or nil if it is not known beforehand.
  public let contentLength: Int?

  /// Creates a request, by default without content.
  public init(
    _ method: HTTPRequest.Method, _ target: ByteString, fields: FieldLines = FieldLines(),
    credential: FieldLines = FieldLines(), content: (any ContentReader)? = nil, contentLength: Int? = nil
  ) {
    (self.method, self.target, self.fields, self.credential) = (method, target, fields, credential)
    (self.content, self.contentLength) = (content, contentLength)
  }
}

/// An upstream's final response, whose content the caller must read or cancel. An object, shared by what waits for it.
public final class UpstreamResponse: Sendable {
  /// The status.
  public let status: HTTPResponse.Status
  /// The end-to-end header fields, valid (RFC 9110 §5.5), without the fields of the connection.
  public let fields: FieldLines
  /// The HTTP version of the response, in the form for `Via`: `2` or `1.1`.
  public let version: StaticString
  /// The content. If the response has no content, the first read returns nil.
  public let content: any ContentReader
  /// The length of the content in bytes, or nil if the upstream did not send it.
  public let contentLength: Int?

  /// Creates a response.
  public init(
    status: HTTPResponse.Status, fields: FieldLines, version: StaticString = "1.1", content: any ContentReader,
    contentLength: Int? = nil
  ) {
    (self.status, self.fields, self.version) = (status, fields, version)
    (self.content, self.contentLength) = (content, contentLength)
  }

  /// Returns the same response with another reader of its content.
  public func read(by content: any ContentReader) -> UpstreamResponse {
    UpstreamResponse(status: status, fields: fields, version: version, content: content, contentLength: contentLength)
  }
}

/// The reason why there is no complete response from the upstream.
public struct UpstreamError: Error, Sendable, Equatable, CustomStringConvertible {
  /// The progress of the request, which decides whether the server may send it again (RFC 9110 §9.2.2).
  public enum Progress: Sendable, Equatable {
    /// The request provably did not reach the upstream: never sent, or refused unprocessed (RFC 9113 §8.7).
    case unprocessed
    /// The request was sent, at least in part, and no response had begun.
    case unanswered
    case answered
  }

  /// The failure. The raw value is the error type of `Proxy-Status` (RFC 9209 §2.3).
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

  /// The stages of opening a connection, in their order.
  public enum Stage: Sendable, CaseIterable {
    /// The resolution of the name of the upstream, or of the proxy in front of it.
    case name
    /// The TCP connection to it.
    case transport
    /// The tunnel through the proxy.
    case tunnel
    case security
  }

  /// The failure, as an error type of `Proxy-Status`.
  public let cause: Cause
  /// The progress of the request before the failure.
  public let progress: Progress
  /// One sentence for the operator: what happened, with which peer, and what to do if that is known; without secrets.
  public let description: String
  /// The number, unique in the process, of the connection that failed all its requests; nil if only this one failed.
  public let connection: UInt64?
  /// The stage at which the connection failed to open, or nil if a connection was open or none was attempted.
  public var stage: Stage?
  /// The status with which the proxy refused a tunnel, or nil if it refused none.
  public var proxyStatus: Int?

  /// Creates an error.
  public init(_ cause: Cause, _ progress: Progress, _ description: String, connection: UInt64? = nil) {
    (self.cause, self.progress) = (cause, progress)
    (self.description, self.connection) = (description, connection)
  }
}

/// The value of `Proxy-Status` (RFC 9209): the failure on the way to the upstream, and the proxy that reports it.
package struct ProxyStatus: Sendable, Equatable {
  /// The error type (RFC 9209 §2.3); nil if the upstream's response itself is the problem.
  package var error: String?
  package var receivedStatus: Int?
  package var nextHop: String?

  package init(error: String? = nil, receivedStatus: Int? = nil, nextHop: String? = nil) {
    (self.error, self.receivedStatus, self.nextHop) = (error, receivedStatus, nextHop)
  }

  /// The field value: a list of one item with parameters (RFC 9651 §3.3).
  package var fieldValue: String {
    var value = "musickit-token-server"
    if let error { value += "; error=\(error)" }
    if let receivedStatus { value += "; received-status=\(receivedStatus)" }
    if let nextHop { value += "; next-hop=\(Self.string(nextHop))" }
    return value
  }

  /// Returns a structured string (RFC 9651 §3.3.3): printable ASCII with escaped quotes and backslashes.
  private static func string(_ text: String) -> String {
    var value = "\""
    for scalar in text.unicodeScalars where (" "..."~").contains(scalar) {
      if scalar == "\"" || scalar == "\\" { value += "\\" }
      value.unicodeScalars.append(scalar)
    }
    return value + "\""
  }
}

/// A reader of message content that arrives in parts (RFC 9110 §6.4): of a request that the server receives, or of an
/// upstream's response. The reader sets the pace: the transport receives at most its own window ahead of the reader.
/// Confined to its event loop, and read by one task at a time.
public protocol ContentReader: AnyObject, Sendable {
  /// Returns the next part, never empty, or nil from the end on. Throws if the content breaks off, and is not complete.
  func read() async throws(ContentError) -> [UInt8]?
  /// Returns what can be read without a wait. Throws like ``read()``.
  func readAtOnce() throws(ContentError) -> AvailableContent

  /// Lets up to `limit` bytes of content arrive before they are read, so that a slow reader does not hold up the
  /// sender. Calls `ended` once, on the loop, when no more will arrive. `holder` is the address charged; nil is the
  /// server.
  func arriveAhead(
    upTo limit: Int, chargedTo holder: UInt128?, then ended: @escaping @Sendable (Result<Void, ContentError>) -> Void)

  /// Stops reading, and releases the stream or connection below. Does nothing after the end, or when called again.
  func cancel()
}

/// What a reader has without a wait.
public enum AvailableContent: Sendable {
  case part([UInt8])
  case end, nothing
}

extension ContentReader {
  /// A reader that cannot know has nothing.
  public func readAtOnce() throws(ContentError) -> AvailableContent { .nothing }

  /// A reader that does not receive the content itself lets nothing arrive ahead, and never calls `ended`.
  public func arriveAhead(
    upTo limit: Int, chargedTo holder: UInt128?, then ended: @escaping @Sendable (Result<Void, ContentError>) -> Void
  ) {}

  /// Returns the whole content. Throws beyond `limit` bytes and leaves the rest, so that a handler can respond.
  public func whole(atMost limit: Int) async throws(ContentError) -> [UInt8] {
    var content: [UInt8] = []
    while let part = try await read() {
      guard content.count + part.count <= limit else { throw .tooLarge(limit: limit) }
      content += part
    }
    return content
  }
}

/// The reason why content ended before it was complete.
public enum ContentError: Error, Sendable, Equatable, CustomStringConvertible {
  /// The sender broke off or violated the protocol; the sentence says how.
  case broken(String)
  /// The next part did not arrive in time.
  case timedOut
  /// The reader or its task was cancelled.
  case cancelled
  /// The content is longer than the reader accepts, in bytes.
  case tooLarge(limit: Int)

  /// One sentence for the operator.
  public var description: String {
    switch self {
    case .broken(let sentence): sentence
    case .timedOut: "The rest did not arrive in time."
    case .cancelled: "The response was cancelled."
    case .tooLarge(let limit): "It is longer than \(limit) bytes."
    }
  }
}
