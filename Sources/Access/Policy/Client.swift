/// A client as the operator configured it: how the server identifies it, and what it may have.
///
/// An object that never changes, since every request hands its client on a few times: that costs a reference count.
public final class Client: Sendable {
  /// How the server identifies a client.
  public enum Credential: Sendable, Equatable {
    /// By one of several API keys, of which only the SHA-256 is known.
    case apiKeys([APIKeyDigest])
    /// By a JSON Web Token of an identity provider.
    case jwt(JWTRules, KeySetSource)
    /// By a certificate that has one of these names.
    case certificate([SubjectName])
    /// By the `Origin` alone: it restricts browsers, but does not authenticate the caller.
    case origin
    /// All callers without a credential.
    case anonymous
  }

  /// Its name, in logs and metrics.
  public let id: String
  /// How it is known.
  public let credential: Credential
  /// Its web origins. With a credential that is not the origin itself, a list of them means that both are needed.
  public let origins: AllowedOrigins
  /// Whether it may have developer tokens.
  public let token: Bool
  /// Whether it may have answers of Apple's catalog.
  public let catalog: Bool
  /// Whether it may use `/v1/me/` with music user tokens.
  public let me: Bool
  /// The life of its tokens in seconds, and the most that it may ask for; nil for the server's own.
  public let ttl: Int?
  /// The storefronts whose catalog it may have, in lower case; nil for all.
  public let storefronts: Set<String>?
  /// How often each of its callers may ask, and how often all of them together.
  public let rates: ClientRates
  /// Whether callers are told apart by their addresses even if they are known by a JWT: where its `sub` is no person, but
  /// an app, as in Firebase App Check.
  public let countsAddresses: Bool
  /// How much of the upstream quota it may have at a time, above 0 and at most 1; nil for the usual.
  public let share: Double?

  /// A client that may have tokens and nothing else, unless told otherwise.
  public init(
    id: String, credential: Credential, origins: AllowedOrigins = .none, token: Bool = true, catalog: Bool = false,
    me: Bool = false, ttl: Int? = nil, storefronts: Set<String>? = nil, rate: Rate? = nil, totalRate: Rate? = nil,
    countsAddresses: Bool = false, share: Double? = nil
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
    self.countsAddresses = countsAddresses
    self.share = share
  }

  /// The ID of those without a credential.
  public static let anonymousID = "anonymous"

  /// Whether it may have anything at all.
  public var mayHaveAnything: Bool { token || catalog || me }
}

extension Client: Equatable {
  /// Whether all that is written down is the same.
  public static func == (left: Client, right: Client) -> Bool {
    left.id == right.id && left.credential == right.credential && left.origins == right.origins
      && left.token == right.token && left.catalog == right.catalog && left.me == right.me && left.ttl == right.ttl
      && left.storefronts == right.storefronts && left.rates == right.rates
      && left.countsAddresses == right.countsAddresses && left.share == right.share
  }
}
