/// What the audit log says of one decision about who may have what.
///
/// It has no place for a token or a credential, nor for the subject of a caller's JWT, which is a person.
public struct AuditRecord: Sendable {
  /// How it ended.
  public enum Outcome: Sendable, CaseIterable {
    /// The caller has access. The request may still fail for another reason.
    case granted
    /// The caller has no access, or is not known.
    case refused
    /// The caller has access, but sends too many requests.
    case limited

    /// As it stands in logs and metrics.
    public var name: StaticString {
      switch self {
      case .granted: "granted"
      case .refused: "refused"
      case .limited: "limited"
      }
    }
  }

  /// The developer token that was handed out.
  public struct Token: Sendable {
    /// The ID of the key that signed it.
    public var keyID: String
    /// The origins that it is bound to; empty if to none.
    public var origins: [String]
    /// Its `exp`, in seconds since 1970.
    public var expiry: Int
    /// What it can be recognised by.
    public var digest: TokenDigest

    /// A token with these properties.
    public init(keyID: String, origins: [String], expiry: Int, digest: TokenDigest) {
      self.keyID = keyID
      self.origins = origins
      self.expiry = expiry
      self.digest = digest
    }
  }

  /// The request's identifier.
  public var requestID: RequestID
  /// The client's id in the settings; `-` if the caller belongs to no client.
  public var client: String
  /// The caller's address, without the port.
  public var address: String
  /// The route's template, never the path as it was sent.
  public var route: StaticString
  /// How it ended.
  public var outcome: Outcome
  /// Why, in one word such as `origin_not_allowed`; nil if there is nothing to explain.
  public var reason: StaticString?
  /// The token that was handed out; nil if none was.
  public var token: Token?

  /// A record of one decision.
  public init(
    requestID: RequestID, client: String, address: String, route: StaticString, outcome: Outcome,
    reason: StaticString? = nil, token: Token? = nil
  ) {
    self.requestID = requestID
    self.client = client
    self.address = address
    self.route = route
    self.outcome = outcome
    self.reason = reason
    self.token = token
  }
}

extension AuditRecord {
  /// Appends the record as a line of `format` to `bytes`.
  func append(to bytes: inout [UInt8], format: LogFormat, time: WallTime) {
    format.begin(&bytes, time: time, level: "info", message: "audit")
    format.field(&bytes, literal: "request.id", requestID)
    format.field(&bytes, literal: "client.id", client)
    format.field(&bytes, literal: "client.address", address)
    format.field(&bytes, literal: "http.route", word: route)
    format.field(&bytes, literal: "audit.outcome", word: outcome.name)
    if let reason { format.field(&bytes, literal: "audit.reason", word: reason) }
    if let token { token.append(to: &bytes, format: format) }
    format.end(&bytes)
  }
}

extension AuditRecord.Token {
  fileprivate func append(to bytes: inout [UInt8], format: LogFormat) {
    format.field(&bytes, literal: "token.key_id", keyID)
    format.field(&bytes, "token.origins", origins)
    format.field(&bytes, literal: "token.expiry", expiry)
    format.field(&bytes, literal: "token.sha256", digest)
  }
}
