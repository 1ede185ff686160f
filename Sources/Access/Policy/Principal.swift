public import Bytes
public import DeveloperToken

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
    for origin in named where !client.origins.allows(origin) { throw AccessPolicy.notAllowed("\(origin)", client) }
    if let origin, isBoundToPage, let other = named.first(where: { $0 != origin }) {
      throw Denial(
        .originNotAllowed, "origin_not_own",
        "A page of \(origin) gets no token bound to \(other), only to its own origin.", client: client.id)
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

  /// Judges the wish for an answer of Apple's catalog.
  ///
  /// - Parameter storefront: The one whose catalog it is, as in the path; nil if it is of none.
  /// - Throws: Why not.
  public func mayHaveCatalog(storefront: (some StringProtocol)?) throws(Denial) {
    guard client.catalog else { throw notPermitted("no_catalog", "gets no answers of the catalog", "catalog") }
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
