public import DeveloperToken

/// A developer token as the server answers it and `mint --json` prints it.
public struct TokenDocument: Sendable {
  private let token: DeveloperToken
  private let now: Int

  /// The document of `token` at `now`, in seconds since 1970.
  public init(_ token: DeveloperToken, now: Int) {
    self.token = token
    self.now = now
  }

  /// The JSON object. `origin` is there only if the token is bound to one.
  public var json: String {
    let origins = token.origins.map { JSONText.string($0.description) }
    return JSONText.object([
      ("token", JSONText.string(token.string)), ("issuedAt", "\(token.issuedAt)"), ("expiresAt", "\(token.expiresAt)"),
      ("expiresIn", "\(token.expiresAt - now)"), ("refreshAfter", "\(max(token.refreshAfter, now))"),
      ("origin", origins.isEmpty ? nil : JSONText.array(origins)),
    ])
  }
}
