public import HTTPMessages
import HTTPTypes

/// The reason why the server refuses a request: the response, and the words for the audit log and the metrics.
public struct Denial: Error, Sendable {
  /// The response. It contains no part of a credential.
  public var response: ErrorResponse
  /// A word for the audit log and the metrics, from a small fixed set; it never contains a part of the request.
  public var reason: StaticString
  /// A further sentence for a caller that requested a token.
  public var hint: String?
  /// The client that was refused; nil if the client is unknown.
  public var client: String?
  /// The refused origin, or `null`; nil if the reason is another, or the field held no origin.
  public var origin: String?
  /// Whether the credential may be a guess, and so counts as a failed attempt. A token that has just expired is not a
  /// guess: an app renews the token after a 401, but waits after a 429.
  public var isGuess = false
  /// The number of failed attempts that a guess counts as: one for each signature that the server verified in vain.
  public var attempts = 1

  /// Creates a denial from a response that another check has made.
  public init(_ response: ErrorResponse, _ reason: StaticString) {
    self.response = response
    self.reason = reason
  }

  /// Creates a denial. By default, invalid credentials count as a guess.
  ///
  /// - Parameters:
  ///   - detail: What happened, why, and what to do, for the caller.
  ///   - retryAfter: The seconds after which the caller may send the request again.
  ///   - endsConnection: Whether the server must end the connection.
  ///   - shortage: What the server lacks; nil if the caller can correct the cause.
  public init(
    _ code: ErrorCode, _ reason: StaticString, _ detail: String, retryAfter: Int? = nil, hint: String? = nil,
    client: String? = nil, origin: String? = nil, endsConnection: Bool = false, isGuess: Bool? = nil,
    shortage: Shortage? = nil
  ) {
    response = ErrorResponse(
      code, detail, fields: Self.challenge(code), retryAfter: retryAfter, end: endsConnection ? .connection : .nothing,
      shortage: shortage)
    self.reason = reason
    self.hint = hint
    self.client = client
    self.origin = origin
    self.isGuess = isGuess ?? (code == .invalidCredentials)
  }

  /// Returns the challenge of a 401 (RFC 9110 §11.6.1, RFC 6750 §3.1).
  private static func challenge(_ code: ErrorCode) -> HTTPFields {
    switch code {
    case .missingCredentials: [.wwwAuthenticate: "Bearer realm=\"musickit-token-server\""]
    case .invalidCredentials:
      [.wwwAuthenticate: "Bearer realm=\"musickit-token-server\", error=\"invalid_token\""]
    default: [:]
    }
  }
}
