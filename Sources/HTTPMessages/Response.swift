public import HTTP1
public import HTTPTypes

/// A response to one request. The server adds `Date`, `Content-Length`, `Connection` and `X-Request-ID`.
public struct Response: Sendable {
  /// The status.
  public var status: HTTPResponse.Status
  /// The header fields that this response shares with many other responses, encoded once.
  public var prepared: FieldSection
  /// The header fields of this response alone that are encoded already.
  public var encoded: FieldSection
  /// The other header fields.
  public var fields: HTTPFields
  /// The content. The server omits it on the wire for `HEAD` and for statuses without content.
  public var body: [UInt8]
  /// A reader of content that replaces `body`. The server cancels the reader if it does not send the content to its
  /// end. If the content breaks off, it closes the connection, so that the client does not treat it as complete.
  public var stream: (any ContentReader)?
  /// The length of `stream` in bytes, or nil if it is not known beforehand.
  public var streamLength: Int?
  /// What ends with this response, even if the client wants to keep the connection.
  public var end = MessageEnd.nothing
  /// What the server lacked for another response; nil if nothing. Only metrics use it.
  public var shortage: Shortage?
  /// What the upstream said in the response that this one replaces; nil if it replaces none. Only the log uses it.
  public var replaced: ReplacedResponse?
  /// The client that access control has admitted, by its id in the settings; nil without one. Only metrics use it.
  public var client: String?

  /// Creates a response with the given content.
  public init(
    _ status: HTTPResponse.Status, prepared: FieldSection = .empty, encoded: FieldSection = .empty,
    fields: HTTPFields = HTTPFields(), body: [UInt8] = []
  ) {
    (self.status, self.prepared, self.encoded) = (status, prepared, encoded)
    (self.fields, self.body) = (fields, body)
  }
}

/// An error response of the server itself, in Apple's error format, so that a client parses one format.
public struct ErrorResponse: Error, Sendable, Equatable {
  /// The kind of error.
  public var code: ErrorCode
  /// The status, by default that of `code`.
  public var status: HTTPResponse.Status
  /// What happened, why, and what to do: one or two sentences for the caller.
  public var detail: String
  /// Additional header fields, such as `Allow`.
  public var fields: HTTPFields
  /// What ends with this response.
  public var end: MessageEnd
  /// What the server lacks to serve the request; nil if the request itself is the reason.
  public var shortage: Shortage?
  /// What the upstream said in the response that this one replaces; nil if it replaces none.
  public var replaced: ReplacedResponse?

  /// Creates an error that by default leaves the connection open. `retryAfter` is the value of `Retry-After` in seconds.
  public init(
    _ code: ErrorCode, _ detail: String, fields: HTTPFields = [:], retryAfter: Int? = nil,
    end: MessageEnd = .nothing, shortage: Shortage? = nil
  ) {
    (self.code, status, self.detail, self.fields) = (code, code.status, detail, fields)
    if let retryAfter { self.fields[.retryAfter] = "\(retryAfter)" }
    (self.end, self.shortage) = (end, shortage)
  }
}

/// The reason why the server refuses a request: the `code` of its error objects.
public enum ErrorCode: String, Sendable, CaseIterable {
  case malformedRequest = "malformed_request"
  case invalidParameter = "invalid_parameter"
  case missingCredentials = "missing_credentials"
  case invalidCredentials = "invalid_credentials"
  case originNotAllowed = "origin_not_allowed"
  case notPermitted = "not_permitted"
  case notFound = "not_found"
  case methodNotAllowed = "method_not_allowed"
  case requestTimeout = "request_timeout"
  case contentTooLarge = "content_too_large"
  case uriTooLong = "uri_too_long"
  case expectationFailed = "expectation_failed"
  case headerFieldsTooLarge = "header_fields_too_large"
  case rateLimited = "rate_limited"
  case internalError = "internal_error"
  case notImplemented = "not_implemented"
  case misdirectedRequest = "misdirected_request"
  case upstreamError = "upstream_error"
  case developerTokenRejected = "developer_token_rejected"
  case upstreamRateLimited = "upstream_rate_limited"
  case upstreamTimeout = "upstream_timeout"
  case overloaded = "overloaded"
  case draining = "draining"
  case noSigningKey = "no_signing_key"
  case auditUnavailable = "audit_unavailable"
  case httpVersionNotSupported = "http_version_not_supported"

  /// The response status for this code, unless the response sets another one.
  public var status: HTTPResponse.Status {
    switch self {
    case .malformedRequest, .invalidParameter: .badRequest
    case .missingCredentials, .invalidCredentials: .unauthorized
    case .originNotAllowed, .notPermitted: .forbidden
    case .notFound: .notFound
    case .methodNotAllowed: .methodNotAllowed
    case .requestTimeout: .requestTimeout
    case .contentTooLarge: .contentTooLarge
    case .uriTooLong: .uriTooLong
    case .expectationFailed: .expectationFailed
    case .headerFieldsTooLarge: .requestHeaderFieldsTooLarge
    case .misdirectedRequest: .misdirectedRequest
    case .internalError: .internalServerError
    case .notImplemented: .notImplemented
    case .upstreamError, .developerTokenRejected: .badGateway
    case .rateLimited, .upstreamRateLimited: .tooManyRequests
    case .upstreamTimeout: .gatewayTimeout
    case .overloaded, .draining, .noSigningKey, .auditUnavailable: .serviceUnavailable
    case .httpVersionNotSupported: .httpVersionNotSupported
    }
  }

  /// The `title` of an error object: the code in words.
  public var title: String { Self.titles[self] ?? rawValue }

  /// Made once, because replacements in a string cost more than the rest of a refusal.
  private static let titles = Dictionary(
    uniqueKeysWithValues: allCases.map { code in
      let words = code.rawValue.replacing("_", with: " ").replacing("uri", with: "URI").replacing("http", with: "HTTP")
      return (code, words.prefix(1).uppercased() + words.dropFirst())
    })
}

/// What ends with a response. Over HTTP/1.1 the end of a message that was refused is not certain, so the bytes behind it
/// may have no meaning. Over HTTP/2 frames state where it ends, so it costs its stream only (RFC 9113 §8.1.1).
public enum MessageEnd: Sendable, Equatable {
  /// The client decides whether the connection goes on.
  case nothing
  /// The message: an HTTP/1.1 connection closes, and an HTTP/2 stream ends.
  case message
  /// The connection, in both versions.
  case connection
}

extension HTTPField.Name {
  /// Returns the field name of a literal in this program. Traps if the literal is not a token (RFC 9110 §5.6.2), so
  /// that the first test that uses the constant finds the mistake. A fallback name would write a wrong field.
  package static func literal(_ text: StaticString) -> HTTPField.Name {
    guard let name = HTTPField.Name("\(text)") else { preconditionFailure("'\(text)' is no field name.") }
    return name
  }
}

/// What the server lacks when it refuses a connection or a request that it would serve at another time.
public enum Shortage: String, Sendable, CaseIterable {
  /// Connections, by `server.limits.connections`.
  case connections
  /// Connections of one address, by `server.limits.connectionsPerAddress`.
  case connectionsOfAddress = "connections_per_address"
  /// Memory, by `server.limits.memory`.
  case memory
  /// Processor time: the server has more work than it can do.
  case processorTime = "processor_time"
  /// Room in the queue of requests for Apple.
  case queue
  /// Time: the request's turn at Apple did not come before its deadline.
  case queueTime = "queue_time"
  /// Connections to Apple.
  case upstreamConnections = "upstream_connections"
  /// Successful responses of Apple: the circuit is open.
  case circuit
  /// A developer token for the catalog.
  case developerToken = "developer_token"
  /// The keys of an identity provider.
  case providerKeys = "provider_keys"
  /// Time to serve the request before the end of the process.
  case draining
}

/// What an upstream said in a response that the server replaces by one of its own, for the caller and the access log:
/// Apple's support asks for it. An object, because nearly every response has none.
public final class ReplacedResponse: Sendable, Equatable {
  /// The status.
  public let status: Int
  /// The `code` of the first error object; nil without one.
  public let code: String?
  /// The `id` of the first error object.
  public let id: String?
  /// The `title` of the first error object.
  public let title: String?
  /// The value of `X-Apple-Jingle-Correlation-Key`.
  public let correlationKey: String?
  /// The value of `X-Apple-Request-UUID`.
  public let requestUUID: String?
  /// The value of `Retry-After`.
  public let retryAfter: String?

  /// The maximum length of each text in bytes.
  public static let longestText = 200

  /// Creates a record. The texts must be printable and at most ``longestText`` bytes long.
  public init(
    status: Int, code: String? = nil, id: String? = nil, title: String? = nil, correlationKey: String? = nil,
    requestUUID: String? = nil, retryAfter: String? = nil
  ) {
    (self.status, self.code, self.id, self.title) = (status, code, id, title)
    (self.correlationKey, self.requestUUID, self.retryAfter) = (correlationKey, requestUUID, retryAfter)
  }

  private var parts: [String?] { ["\(status)", code, id, title, correlationKey, requestUUID, retryAfter] }

  /// Returns whether two records are the same.
  public static func == (left: ReplacedResponse, right: ReplacedResponse) -> Bool { left.parts == right.parts }
}

extension Response {
  /// Adds what the upstream said in the response that this one replaces, and the fields that its support asks for.
  public mutating func note(_ replaced: ReplacedResponse) {
    self.replaced = replaced
    if let key = replaced.correlationKey { fields[.literal("X-Apple-Jingle-Correlation-Key")] = key }
    if let id = replaced.requestUUID { fields[.literal("X-Apple-Request-UUID")] = id }
  }
}
