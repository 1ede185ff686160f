public import Bytes
public import HTTPMessages

/// A client as the operator configured it: how the server identifies it, and what it may have. An immutable class,
/// because every request copies its client several times, which then costs only a reference count.
public final class Client: Sendable {
  /// How the server identifies a client.
  public enum Credential: Sendable, Equatable {
    /// API keys, of which the server knows only the SHA-256.
    case apiKeys([APIKeyDigest])
    /// A JSON Web Token of an identity provider.
    case jwt(JWTRules, KeySetSource)
    /// A certificate that has one of these names.
    case certificate([SubjectName])
    /// The `Origin` alone: it restricts browsers, but does not authenticate the caller.
    case origin
    /// No credential: the client of all callers without one.
    case anonymous
  }

  /// The name of the client, with its hash for each request.
  public let hashedID: HashedText
  /// The name of the client in logs and metrics.
  public var id: String { hashedID.text }
  /// How the server identifies the client.
  public let credential: Credential
  /// The web origins of the client. A list of origins with another credential means that a request needs both.
  public let origins: AllowedOrigins
  /// Whether the client may have developer tokens.
  public let token: Bool
  /// Whether the client may have responses of Apple's catalog.
  public let catalog: Bool
  /// Whether the client may use `/v1/me/` with music user tokens.
  public let me: Bool
  /// The default and maximum lifetime of the client's tokens, in seconds; nil for the server's own.
  public let ttl: Int?
  /// The storefronts whose catalog the client may have, in lower case; nil for all.
  public let storefronts: Set<String>?
  /// The rate limit of each caller; nil for no limit.
  public let rate: Rate?
  /// The rate limit of all callers together; nil for no limit.
  public let totalRate: Rate?
  /// Both limits, compiled.
  public let rates: ClientRates
  /// Whether rates count addresses even with a JWT, for a `sub` that names an app, as in Firebase App Check.
  public let countsAddresses: Bool
  /// The share of the upstream quota that the client may use at a time, above 0 and at most 1; nil for the default.
  public let share: Double?

  /// Creates a client that by default may have tokens and nothing else.
  public init(
    id: String, credential: Credential, origins: AllowedOrigins = .none, token: Bool = true, catalog: Bool = false,
    me: Bool = false, ttl: Int? = nil, storefronts: Set<String>? = nil, rate: Rate? = nil, totalRate: Rate? = nil,
    isStrict: Bool = false, countsAddresses: Bool = false, share: Double? = nil
  ) {
    hashedID = HashedText(id)
    (self.credential, self.origins) = (credential, origins)
    (self.token, self.catalog, self.me) = (token, catalog, me)
    (self.ttl, self.storefronts) = (ttl, storefronts)
    (self.rate, self.totalRate) = (rate, totalRate)
    rates = ClientRates(client: id, perCaller: rate, total: totalRate, isStrict: isStrict)
    (self.countsAddresses, self.share) = (countsAddresses, share)
  }

  /// The ID of the client of all callers without a credential.
  public static let anonymousID = "anonymous"

  /// Whether the client has any right.
  public var mayHaveAnything: Bool { token || catalog || me }
}

extension Client: Equatable {
  /// Returns whether all settings are the same.
  public static func == (left: Client, right: Client) -> Bool {
    left.id == right.id && left.credential == right.credential && left.origins == right.origins
      && left.token == right.token && left.catalog == right.catalog && left.me == right.me && left.ttl == right.ttl
      && left.storefronts == right.storefronts && left.rates == right.rates
      && left.countsAddresses == right.countsAddresses && left.share == right.share
  }
}

/// A name in a certificate: one of its subject alternative names (RFC 5280 §4.2.1.6).
public enum SubjectName: Sendable, Hashable, CustomStringConvertible {
  /// A URI, byte for byte: `spiffe://example.com/partner`.
  case uri(String)
  /// A DNS name, in lower case.
  case dns(String)
  /// An e-mail address, byte for byte.
  case email(String)

  /// Parses the name that an operator writes for a client. Returns nil if no certificate should have it.
  public init?(_ text: String) {
    guard text.utf8.count <= 1024, let name = SubjectName(ofCertificate: text) else { return nil }
    self = name
    // A star in a certificate would stand for every host below that domain.
    if case .dns = self, !text.utf8.allSatisfy(\.isOfName) { return nil }
  }

  /// Creates the name that a certificate has as `text`: a URI with `://`, an e-mail address with `@`, otherwise a DNS
  /// name. Returns nil if it is empty, or not all of it is visible ASCII.
  public init?(ofCertificate text: String) {
    guard !text.isEmpty, text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else { return nil }
    if text.contains("://") || text.hasPrefix("urn:") {
      self = .uri(text)
    } else if text.contains("@") {
      self = .email(text)
    } else {
      self = .dns(text.lowercased())
    }
  }

  /// The name as the operator writes it.
  public var description: String {
    switch self {
    case .uri(let name), .dns(let name), .email(let name): name
    }
  }
}

/// The web origins of a client.
public enum AllowedOrigins: Sendable, Equatable {
  /// Any `http` or `https` origin.
  case any
  /// Origins of this machine, `localhost` and loopback addresses, on any port.
  case loopback
  case only([OriginPattern])

  /// No origin.
  public static let none = AllowedOrigins.only([])

  /// Returns whether a page of `origin` is allowed.
  public func allows(_ origin: Origin) -> Bool {
    switch self {
    case .any: true
    case .loopback: origin.isLoopback
    case .only(let patterns):
      patterns.contains(.exact(origin))
        || OriginPattern.pattern(of: origin).map { patterns.contains(.anyLabel($0)) } ?? false
    }
  }

  /// The number of listed patterns.
  public var count: Int { patterns.count }
  /// Empty if there is no list.
  var patterns: [OriginPattern] { if case .only(let patterns) = self { patterns } else { [] } }
  /// Whether there is a list, which may be empty.
  var isList: Bool { if case .only = self { true } else { false } }
  /// Whether origins are listed. If so, a token without an origin would allow more than any origin on the list.
  public var isRestricted: Bool { !patterns.isEmpty }
}

/// A caller for which a rate counts, among the callers of one client.
public enum Caller: Sendable, Hashable {
  /// An address: an IPv4 address, an IPv6 network of /64, or `unix`.
  case address(String)
  /// The `sub` of a JWT (RFC 7519 §4.1.2), from any address.
  case subject(ByteString)

  /// The address or the subject as bytes, for the shares of a quota.
  public var bytes: ByteString {
    switch self {
    case .address(let text): ByteString(text)
    case .subject(let bytes): bytes
    }
  }
}

/// A caller that the server has identified, with the rights of its client.
public struct Principal: Sendable {
  /// The client of the caller.
  public let client: Client
  /// The `sub` of the caller's JWT; nil if a JWT did not identify the caller.
  public let subject: ByteString?
  /// The web origin of the request; nil without one, or if origins do not restrict the caller's credential.
  public let origin: Origin?

  init(client: Client, subject: ByteString?, origin: Origin?) {
    (self.client, self.subject, self.origin) = (client, subject, origin)
  }

  /// Returns the caller's identity within its client, for rates and shares: the `sub` of its JWT, or its address.
  public func identity(at address: String) -> Caller {
    subject.flatMap { client.countsAddresses ? nil : Caller.subject($0) } ?? .address(address)
  }

  /// The properties of a token for this caller.
  public struct TokenGrant: Sendable, Equatable {
    /// The lifetime in seconds; nil for the default.
    public var ttl: Int?
    /// The origins in the token.
    public var origins: [Origin]
  }

  /// Checks whether the caller may have any developer token.
  public func mayHaveTokens() throws(Denial) {
    guard client.token else { throw notPermitted("no_token", "gets no developer tokens", "token") }
  }

  /// Returns the properties of a token for the requested lifetime in seconds, nil for the default, and origins.
  public func token(ttl: Int?, origins named: [Origin]) throws(Denial) -> TokenGrant {
    try mayHaveTokens()
    if let most = client.ttl, let ttl, ttl > most {
      throw Denial(
        .invalidParameter, "ttl_too_long", "\(subjectOfSentence) tokens of \(most) s at most, not of \(ttl) s.",
        client: client.id)
    }
    return TokenGrant(ttl: ttl ?? client.ttl, origins: try tokenOrigins(named))
  }

  /// Returns the origins of a token. A browser's token is bound to the requesting page.
  private func tokenOrigins(_ named: [Origin]) throws(Denial) -> [Origin] {
    for origin in named where !client.origins.allows(origin) { throw AccessPolicy.notAllowed(origin, client) }
    if let origin, isBoundToPage, let other = named.first(where: { $0 != origin }) {
      throw Denial(
        .originNotAllowed, "origin_not_own",
        "A page of \(origin) gets no token bound to \(other), only to its own origin.", client: client.id,
        origin: other.description)
    }
    try checkOrigin()
    return named.isEmpty ? origin.map { [$0] } ?? [] : named
  }

  /// Requires a listed origin from a caller without a credential, if origins are listed.
  private func checkOrigin() throws(Denial) {
    if client.credential == .anonymous, client.origins.isRestricted, origin == nil {
      throw AccessPolicy.noOrigin(client: client)
    }
  }

  /// Whether the client must not get a token for another origin than that of the page.
  private var isBoundToPage: Bool {
    switch client.credential {
    case .origin: true
    case .anonymous: client.origins.isRestricted
    case .apiKeys, .jwt, .certificate: false
    }
  }

  /// Checks whether the caller may have a response of Apple's catalog, from the storefront in the path if there is one.
  public func mayHaveCatalog(storefront: @autoclosure () -> String?) throws(Denial) {
    guard client.catalog else { throw notPermitted("no_catalog", "cannot use the catalog", "catalog") }
    try checkOrigin()
    guard let storefronts = client.storefronts, let storefront = storefront() else { return }
    guard storefronts.contains(storefront.lowercased()) else {
      throw Denial(
        .notPermitted, "storefront_not_permitted",
        "\(subjectOfSentence) the catalog of \(storefronts.sorted().joined(separator: ", ")) only.", client: client.id)
    }
  }

  /// Checks whether the caller may use `/v1/me/`.
  public func mayUseMe() throws(Denial) {
    guard client.me else { throw notPermitted("no_me", "cannot use /v1/me", "me") }
    try checkOrigin()
  }

  /// Checks whether the caller may have something of a user's from the catalog, with a music user token.
  public func mayUseUserTokens() throws(Denial) {
    guard !client.me else { return }
    var denial = notPermitted("no_me", "cannot have anything of a user's", "me")
    denial.response.detail += " Leave Music-User-Token out to get what is the same for all users."
    throw denial
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
