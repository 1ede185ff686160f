/// One of those who may ask, as the operator wrote it down: how it is known, and what it may have.
public struct Client: Sendable, Equatable {
  /// How a client is known.
  public enum Credential: Sendable, Equatable {
    /// By one of several API keys, of which only the SHA-256 is known.
    case apiKeys([APIKeyDigest])
    /// By a JSON Web Token of an identity provider.
    case jwt(JWTRules, KeySetSource)
    /// By a certificate that has one of these names.
    case certificate([SubjectName])
    /// By the `Origin` alone: it restricts browsers, and authenticates nobody.
    case origin
    /// It is everybody who sends no credential.
    case anonymous
  }

  /// Its name, in logs and metrics.
  public var id: String
  /// How it is known.
  public var credential: Credential
  /// Its web origins. With a credential that is not the origin itself, a list of them means that both are needed.
  public var origins: AllowedOrigins
  /// Whether it may have developer tokens.
  public var token: Bool
  /// Whether it may have answers of Apple's catalog.
  public var catalog: Bool
  /// Whether it may use `/v1/me/` with music user tokens.
  public var me: Bool
  /// The life of its tokens in seconds, and the most that it may ask for; nil for the server's own.
  public var ttl: Int?
  /// The storefronts whose catalog it may have, in lower case; nil for all.
  public var storefronts: Set<String>?
  /// How often each of its callers may ask, an address or the `sub` of a JWT, and how often all of them together.
  public var rates: ClientRates
  /// How much of the upstream quota it may have at a time, above 0 and at most 1; nil for the usual.
  public var share: Double?

  /// A client that may have tokens and nothing else, unless told otherwise.
  public init(
    id: String, credential: Credential, origins: AllowedOrigins = .none, token: Bool = true, catalog: Bool = false,
    me: Bool = false, ttl: Int? = nil, storefronts: Set<String>? = nil, rate: Rate? = nil, totalRate: Rate? = nil,
    share: Double? = nil
  ) {
    self.id = id
    self.credential = credential
    self.origins = origins
    self.token = token
    self.catalog = catalog
    self.me = me
    self.ttl = ttl
    self.storefronts = storefronts
    rates = ClientRates(client: id, perCaller: rate, total: totalRate)
    self.share = share
  }

  /// The ID of those without a credential.
  public static let anonymousID = "anonymous"

  /// Whether it may have anything at all.
  public var mayHaveAnything: Bool { token || catalog || me }
}
