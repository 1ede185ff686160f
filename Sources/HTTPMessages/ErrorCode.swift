public import HTTPTypes

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
