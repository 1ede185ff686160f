/// Why the server refuses a request.
public struct Denial: Error, Sendable {
  /// Which kind, as the caller is told.
  public enum Kind: Sendable, Equatable {
    /// There is no credential where one is needed.
    case missingCredentials
    /// There is one, and it does not hold; or there are several.
    case invalidCredentials
    /// The web origin is not one of the client's.
    case originNotAllowed
    /// The client may not have this.
    case notPermitted
    /// The client may have this, but not so.
    case invalidParameter
    /// Too much, too fast; when to come back, in seconds.
    case rateLimited(retryAfter: Int)
    /// It cannot be told at present; when to come back, in seconds.
    case unavailable(retryAfter: Int)
  }

  /// The kind.
  public var kind: Kind
  /// A word for it, for records and metrics: one of a small set, never anything of the request.
  public var reason: StaticString
  /// What happened, why, and what to do: for the caller. Nothing of a credential.
  public var detail: String
  /// A further sentence for who has asked for a token.
  public var hint: String?
  /// The client that was refused; nil if the client is unknown.
  public var client: String?
  /// Whether the server must end the connection.
  public var endsConnection: Bool
  /// Whether the credential may be a guess, and so counts as a failed attempt. A token that has just expired is not a
  /// guess: an app renews the token after a 401, but waits after a 429.
  public var isGuess: Bool

  /// A denial; one of invalid credentials is a guess unless told otherwise.
  public init(
    _ kind: Kind, _ reason: StaticString, _ detail: String, hint: String? = nil, client: String? = nil,
    endsConnection: Bool = false, isGuess: Bool? = nil
  ) {
    self.kind = kind
    self.reason = reason
    self.detail = detail
    self.hint = hint
    self.client = client
    self.endsConnection = endsConnection
    self.isGuess = isGuess ?? (kind == .invalidCredentials)
  }
}
