import Bytes
import HTTP1
public import HTTPTypes
public import Telemetry

/// A request that the server itself refuses, in Apple's error shape, so that a client parses one format.
public struct Refusal: Error, Sendable, Equatable {
  /// Which kind.
  public var code: ErrorCode
  /// The status, which is that of the kind unless something speaks against it.
  public var status: HTTPResponse.Status
  /// What happened, why, and what to do: one or two sentences for the caller.
  public var detail: String
  /// Fields that go with it, such as `Allow`.
  public var fields: HTTPFields
  /// Whether the connection closes behind it.
  public var closesConnection: Bool

  /// A refusal that leaves the connection open unless told otherwise.
  public init(_ code: ErrorCode, _ detail: String, fields: HTTPFields = [:], closesConnection: Bool = false) {
    self.code = code
    status = code.status
    self.detail = detail
    self.fields = fields
    self.closesConnection = closesConnection
  }

  /// The response, with an `errors` array of one object.
  ///
  /// - Parameter id: The request's ID.
  public func response(id: RequestID) -> Response {
    var fields = self.fields
    fields[.contentType] = "application/json"
    fields[.cacheControl] = "no-store"
    fields[.xContentTypeOptions] = "nosniff"
    var body: [UInt8] = []
    body.append(contentsOf: #"{"errors":[{"id":""#.utf8)
    body.append(id)
    body.append(contentsOf: #"","status":"\#(status.code)","code":"\#(code.rawValue)","title":"#.utf8)
    body.append(jsonString: code.title)
    body.append(contentsOf: #","detail":"#.utf8)
    body.append(jsonString: detail)
    body.append(contentsOf: "}]}\n".utf8)
    var response = Response(status, fields: fields, body: body)
    response.closesConnection = closesConnection
    return response
  }
}

/// What ends a connection, in words and codes: the one place where causes below the routes become responses.
extension Refusal {
  /// The codec refused a head or a chunked body. What follows on the connection has no meaning any more.
  init(_ error: RequestError) {
    self.init(ErrorCode(codecStatus: error.status), error.reason, closesConnection: true)
  }

  static let headTimeout = Refusal(
    .requestTimeout, "The header section did not arrive in time.", closesConnection: true)

  static let bodyTimeout = Refusal(
    .requestTimeout, "The content did not arrive in time.", closesConnection: true)

  static let workTimeout = Refusal(
    .upstreamTimeout, "The response took longer than this server waits for one.", closesConnection: true)

  static let draining = Refusal(
    .draining, "This server is shutting down; send the request again.", fields: [.retryAfter: "1"],
    closesConnection: true)

  static let overMemory = Refusal(
    .overloaded, "This server holds as much for its clients as it can; send the request again shortly.",
    fields: [.retryAfter: "1"], closesConnection: true)

  static let plaintextOnTLS = Refusal(
    .malformedRequest, "This port speaks HTTPS: use https:// instead of http://.", closesConnection: true)

  static func contentTooLarge(_ limit: Int) -> Refusal {
    Refusal(
      .contentTooLarge, "The content is longer than the \(limit) bytes that this path takes.", closesConnection: true)
  }
}

/// Why the server refuses a request: the `code` of its error objects.
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
  case httpVersionNotSupported = "http_version_not_supported"

  /// The status that goes with it.
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
    case .overloaded, .draining, .noSigningKey: .serviceUnavailable
    case .httpVersionNotSupported: .httpVersionNotSupported
    }
  }

  /// The `title`: the code in words.
  public var title: String {
    let words = rawValue.replacing("_", with: " ").replacing("uri", with: "URI").replacing("http", with: "HTTP")
    return words.prefix(1).uppercased() + words.dropFirst()
  }

  /// The code for a refusal of the HTTP/1.1 codec, which knows statuses only.
  init(codecStatus status: HTTPResponse.Status) {
    self =
      switch status {
      case .uriTooLong: .uriTooLong
      case .requestHeaderFieldsTooLarge: .headerFieldsTooLarge
      case .contentTooLarge: .contentTooLarge
      case .expectationFailed: .expectationFailed
      case .notImplemented: .notImplemented
      case .httpVersionNotSupported: .httpVersionNotSupported
      default: .malformedRequest
      }
  }
}
