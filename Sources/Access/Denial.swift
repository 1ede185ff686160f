/// Why the server refuses a request.
public struct Denial: Error, Sendable {
  /// The kind of denial, which decides the response.
  public enum Kind: Sendable, Equatable {
    /// The request needs a credential and has none.
    case missingCredentials
    /// The credential is invalid, or the request has several.
    case invalidCredentials
    /// The web origin is not one of the client's.
    case originNotAllowed
    /// The client may not have the requested resource.
    case notPermitted
    /// The client may have the resource, but not with these parameters.
    case invalidParameter
    /// The caller sends too many requests; it may come back after this many seconds.
    case rateLimited(retryAfter: Int)
    /// The server cannot decide at present; the caller may come back after this many seconds.
    case unavailable(retryAfter: Int)
  }

  /// The kind.
  public var kind: Kind
  /// A word for the audit log and metrics: one of a small set, never a part of the request.
  public var reason: StaticString
  /// What happened, why, and what to do, for the caller. It contains no part of a credential.
  public var detail: String
  /// A further sentence for a caller that requested a token.
  public var hint: String?
  /// The client that was refused; nil if the client is unknown.
  public var client: String?
  /// The origin that was refused, or `null`; nil if the reason is another, or the field held no origin.
  public var origin: String?
  /// Whether the server must end the connection.
  public var endsConnection: Bool
  /// Whether the credential may be a guess, and so counts as a failed attempt. A token that has just expired is not a
  /// guess: an app renews the token after a 401, but waits after a 429.
  public var isGuess: Bool

  /// A denial; one of invalid credentials is a guess unless told otherwise.
  public init(
    _ kind: Kind, _ reason: StaticString, _ detail: String, hint: String? = nil, client: String? = nil,
    origin: String? = nil, endsConnection: Bool = false, isGuess: Bool? = nil
  ) {
    self.kind = kind
    self.reason = reason
    self.detail = detail
    self.hint = hint
    self.client = client
    self.origin = origin
    self.endsConnection = endsConnection
    self.isGuess = isGuess ?? (kind == .invalidCredentials)
  }
}
