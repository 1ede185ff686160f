public import Bytes
public import HTTPMessages

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
  /// Whether it may have responses of Apple's catalog.
  public let catalog: Bool
  /// Whether it may use `/v1/me/` with music user tokens.
  public let me: Bool
  /// The life of its tokens in seconds, and the most that it may ask for; nil for the server's own.
  public let ttl: Int?
  /// The storefronts whose catalog it may have, in lower case; nil for all.
  public let storefronts: Set<String>?
  /// How often each of its callers may send requests; nil for no limit.
  public let rate: Rate?
  /// How often all of its callers together may; nil for no limit.
  public let totalRate: Rate?
  /// Both, compiled.
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
    (self.rate, self.totalRate) = (rate, totalRate)
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

/// A name that a certificate is for: one of its subject alternative names (RFC 5280 §4.2.1.6).
///
/// The server ignores the subject's common name, because its meaning was never defined (RFC 9525 §2).
public enum SubjectName: Sendable, Hashable, CustomStringConvertible {
  /// A URI, byte for byte: `spiffe://example.com/partner`.
  case uri(String)
  /// A DNS name, in lower case.
  case dns(String)
  /// An e-mail address, byte for byte.
  case email(String)

  /// The name that an operator writes: what has `://` is a URI, what has `@` an e-mail address, all else a DNS name. Nil
  /// if it can be none of these.
  public init?(_ text: String) {
    guard (1...1024).contains(text.utf8.count), text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else { return nil }
    if text.contains("://") || text.hasPrefix("urn:") {
      self = .uri(text)
    } else if text.contains("@") {
      self = .email(text)
    } else {
      let isName = text.utf8.allSatisfy {
        (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0) || $0 == 0x2D
          || $0 == 0x2E || $0 == 0x5F
      }
      // A star in a certificate would be anybody's below that domain.
      guard isName else { return nil }
      self = .dns(text.lowercased())
    }
  }

  /// As it is written.
  public var description: String {
    switch self {
    case .uri(let name), .dns(let name), .email(let name): name
    }
  }
}

/// A caller that the server has identified as a client's, and what that client's policy allows it.
public struct Principal: Sendable {
  /// The client.
  public let client: Client
  /// The `sub` of its JWT, if that is how it is known.
  public let subject: ByteString?
  /// The web origin that counts: nil if it sent none, or is known by something that origins do not bind.
  public let origin: Origin?

  /// A principal.
  init(client: Client, subject: ByteString?, origin: Origin?) {
    self.client = client
    self.subject = subject
    self.origin = origin
  }

  /// Identifies the caller among the callers of its client, for rates and shares: by its JWT's `sub`, or by its
  /// address.
  ///
  /// - Parameter address: Where it asks from.
  public func identity(at address: String) -> Caller {
    subject.flatMap { client.countsAddresses ? nil : Caller.subject($0) } ?? .address(address)
  }

  /// What a token for this caller is to be.
  public struct TokenGrant: Sendable, Equatable {
    /// Its life in seconds; nil for the usual.
    public var ttl: Int?
    /// The origins that it bears.
    public var origins: [Origin]
  }

  /// Judges the wish for a developer token, whatever it is to say.
  ///
  /// - Throws: Why not.
  public func mayHaveTokens() throws(Denial) {
    guard client.token else { throw notPermitted("no_token", "gets no developer tokens", "token") }
  }

  /// Judges the wish for a developer token.
  ///
  /// - Parameters:
  ///   - ttl: The life that is asked for, in seconds; nil for the usual.
  ///   - named: The origins that are asked for.
  /// - Throws: Why not.
  public func token(ttl: Int?, origins named: [Origin]) throws(Denial) -> TokenGrant {
    try mayHaveTokens()
    if let most = client.ttl, let ttl, ttl > most {
      throw Denial(
        .invalidParameter, "ttl_too_long", "\(subjectOfSentence) tokens of \(most) s at most, not of \(ttl) s.",
        client: client.id)
    }
    return TokenGrant(ttl: ttl ?? client.ttl, origins: try tokenOrigins(named))
  }

  /// A browser's token is bound to the page that asks. `Origin` restricts and does not authenticate: another program
  /// may send any.
  private func tokenOrigins(_ named: [Origin]) throws(Denial) -> [Origin] {
    for origin in named where !client.origins.allows(origin) { throw AccessPolicy.notAllowed(origin, client) }
    if let origin, isBoundToPage, let other = named.first(where: { $0 != origin }) {
      throw Denial(
        .originNotAllowed, "origin_not_own",
        "A page of \(origin) gets no token bound to \(other), only to its own origin.", client: client.id,
        origin: other.description)
    }
    guard named.isEmpty else { return named }
    try checkOrigin()
    return origin.map { [$0] } ?? []
  }

  /// Of callers without a credential, those count who name a listed origin, if there are any.
  private func checkOrigin() throws(Denial) {
    if client.credential == .anonymous, client.origins.isRestricted, origin == nil {
      throw AccessPolicy.noOrigin(client: client)
    }
  }

  /// Whether the client must not get a token for another origin than the page's own.
  private var isBoundToPage: Bool {
    switch client.credential {
    case .origin: true
    case .anonymous: client.origins.isRestricted
    case .apiKeys, .jwt, .certificate: false
    }
  }

  /// Judges the wish for a response of Apple's catalog.
  ///
  /// - Parameter storefront: The one whose catalog it is, as in the path; nil if it is of none.
  /// - Throws: Why not.
  public func mayHaveCatalog(storefront: (some StringProtocol)?) throws(Denial) {
    guard client.catalog else { throw notPermitted("no_catalog", "gets no responses of the catalog", "catalog") }
    try checkOrigin()
    guard let storefronts = client.storefronts, let storefront else { return }
    guard storefronts.contains(storefront.lowercased()) else {
      throw Denial(
        .notPermitted, "storefront_not_permitted",
        "\(subjectOfSentence) the catalog of \(storefronts.sorted().joined(separator: ", ")) only.", client: client.id)
    }
  }

  /// Judges the wish to use `/v1/me/`, or a user's music token elsewhere.
  ///
  /// - Throws: Why not.
  public func mayUseMe() throws(Denial) {
    guard client.me else { throw notPermitted("no_me", "does not get through to /v1/me", "me") }
    try checkOrigin()
  }

  private func notPermitted(_ reason: StaticString, _ verb: String, _ setting: String) -> Denial {
    let isAnonymous = client.credential == .anonymous
    let who = isAnonymous ? "A caller without credentials" : "Client \(client.id)"
    let path = isAnonymous ? "access.anonymous.\(setting)" : "\(setting) in access.clients"
    return Denial(.notPermitted, reason, "\(who) \(verb): the setting \(path) is off.", client: client.id)
  }

  private var subjectOfSentence: String {
    client.credential == .anonymous ? "Callers without credentials get" : "Client \(client.id) gets"
  }
}
