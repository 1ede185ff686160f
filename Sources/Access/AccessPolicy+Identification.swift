import Bytes
public import HTTPMessages

extension AccessPolicy {
  /// The result of identifying the caller.
  public enum Identification: Sendable {
    /// The caller is known.
    case known(Principal)
    /// The server does not know the caller, or refuses its credential.
    case denied(Denial)
    /// The result depends on keys that the server has to fetch from an identity provider first. Identify the caller
    /// again after that.
    case keysWanted([KeySetSource])
  }

  /// Identifies the caller.
  ///
  /// The server refuses an invalid credential, because otherwise it would treat a caller with an old key as an anonymous
  /// one. Only a server without any client ignores credentials (docs/decisions.md, 37).
  ///
  /// - Parameters:
  ///   - now: Seconds since 1970.
  ///   - isLastTry: Whether fetching keys is pointless, because the server has just fetched them.
  ///   - keys: Returns the keys of an identity provider; nil if the server does not have them.
  public func identify(
    _ presented: PresentedCredentials, now: Int, isLastTry: Bool = false, keys: (KeySetSource) -> JSONWebKeySet?
  ) -> Identification {
    do throws(Interruption) {
      guard let credential = presented.credential, !clients.isEmpty else {
        return .known(try callerWithoutCredential(presented.origin))
      }
      let (client, subject) = try holder(of: credential, now: now, keys: keys)
      return .known(try Self.caller(client, subject: subject, origin: presented.origin))
    } catch {
      switch error {
      case .denied(let denial): return .denied(denial)
      case .keysWanted(let sources, let refusal):
        guard isLastTry else { return .keysWanted(sources) }
        return .denied(refusal.map(Self.denial) ?? Self.providerUnavailable)
      }
    }
  }

  /// Identifies the caller of a request that has a valid credential of a client, if the client needs one.
  ///
  /// - Throws: The denial.
  public func identify(
    holderOf client: Client, _ origin: PresentedCredentials.RequestOrigin
  ) throws(Denial) -> Principal {
    do throws(Interruption) {
      switch client.credential {
      case .apiKeys, .jwt, .certificate: return try Self.caller(client, subject: nil, origin: origin)
      case .origin, .anonymous: return try callerWithoutCredential(origin)
      }
    } catch {
      switch error {
      case .denied(let denial): throw denial
      case .keysWanted: throw Self.providerUnavailable
      }
    }
  }

  /// The reason why identification stopped.
  enum Interruption: Error {
    case denied(Denial)
    /// The refusal is for the case that a fetch brings no new keys. It is nil if the server has no keys at all.
    case keysWanted([KeySetSource], JWTRefusal?)
  }

  /// The denial while the keys of a provider are unavailable. The caller cannot fix the cause.
  public static let providerUnavailable = Denial(
    .overloaded, "jwt_no_keys",
    "The server cannot verify the token, because it has no keys of the identity provider at present. Send the request "
      + "again in 5 s.", retryAfter: 5, shortage: .providerKeys)

  // MARK: With a credential

  private func holder(
    of credential: PresentedCredentials.Credential, now: Int, keys: (KeySetSource) -> JSONWebKeySet?
  ) throws(Interruption) -> (Client, subject: ByteString?) {
    switch credential {
    case .apiKey(let key):
      if let index = self.keys.client(presenting: key.span) { return (clients[index], nil) }
      throw .denied(unknownKey(key, isBearer: false))
    case .bearer(let token):
      if let index = self.keys.client(presenting: token.span) { return (clients[index], nil) }
      guard !issuers.isEmpty, Self.looksLikeJWT(token) else { throw .denied(unknownKey(token, isBearer: true)) }
      return try holder(ofJWT: token, now: now, keys: keys)
    case .certificate(let names):
      return (try holder(ofCertificateFor: names), nil)
    case .outdatedCertificate:
      throw .denied(
        Denial(
          .invalidCredentials, "outdated_certificate",
          "Since the connection began, the TLS client certificate expired, or the server stopped trusting its CA.",
          endsConnection: true, isGuess: false))
    case .malformed(let detail):
      throw .denied(Denial(.invalidCredentials, "malformed_credential", detail))
    }
  }

  private func holder(ofCertificateFor names: [SubjectName]) throws(Interruption) -> Client {
    let holders = Set(names.compactMap { certificates[$0] })
    guard let holder = holders.first else {
      throw .denied(
        Denial(
          .invalidCredentials, "unknown_certificate",
          "The TLS client certificate has no name that belongs to a client of this server."))
    }
    guard holders.count < 2 else {
      throw .denied(
        Denial(
          .invalidCredentials, "ambiguous_certificate",
          "The TLS client certificate has names of several clients of this server. It must belong to one client."))
    }
    return clients[holder]
  }

  private static func caller(
    _ client: Client, subject: ByteString?, origin: PresentedCredentials.RequestOrigin
  ) throws(Interruption) -> Principal {
    guard client.origins.isRestricted else { return Principal(client: client, subject: subject, origin: nil) }
    switch origin {
    case .absent:
      throw .denied(
        Denial(
          .missingCredentials, "no_origin",
          "Client \(client.id) needs both its credential and one of its web origins, and the request has no Origin.",
          client: client.id))
    case .present(let origin):
      guard client.origins.allows(origin) else { throw .denied(notAllowed(origin, client)) }
      return Principal(client: client, subject: subject, origin: origin)
    case .unusable(let text): throw .denied(notAllowed(unusable: text, client))
    }
  }

  // MARK: Without a credential

  private func callerWithoutCredential(_ origin: PresentedCredentials.RequestOrigin) throws(Interruption) -> Principal {
    if case .present(let origin) = origin, let client = client(of: origin) {
      return Principal(client: client, subject: nil, origin: origin)
    }
    switch origin {
    case .absent:
      guard let anonymous else { throw .denied(missingCredentials) }
      return Principal(client: anonymous, subject: nil, origin: nil)
    case .present(let origin):
      if let anonymous, anonymous.origins.allows(origin) {
        return Principal(client: anonymous, subject: nil, origin: origin)
      }
      throw .denied(missingCredential(of: origin) ?? Self.notAllowed(origin, anonymous))
    case .unusable(let text): throw .denied(Self.notAllowed(unusable: text, anonymous))
    }
  }

  /// Returns the denial for an origin that is not allowed.
  static func notAllowed(_ origin: Origin, _ client: Client?) -> Denial {
    Denial(
      .originNotAllowed, "origin_not_allowed", "\(origin) is not one of the origins \(owner(client)).",
      client: client?.id, origin: origin.description)
  }

  /// Returns the denial for a field that does not hold a single origin.
  private static func notAllowed(unusable text: String, _ client: Client?) -> Denial {
    guard text == PresentedCredentials.RequestOrigin.opaque else {
      return Denial(
        .originNotAllowed, "origin_not_allowed", "\(text) is not one of the origins \(owner(client)).",
        client: client?.id)
    }
    return Denial(
      .originNotAllowed, "origin_not_allowed",
      """
      The Origin of the request is null, so it does not name a page. Browsers send null for pages from file:// and in \
      sandboxed frames. Serve the page over http or https, from one of the origins \(owner(client)).
      """, client: client?.id, origin: text)
  }

  private static func owner(_ client: Client?) -> String {
    client.map { $0.credential == .anonymous ? nil : $0.id }?.map { "of client \($0)" } ?? "that this server is for"
  }

  /// Returns the denial for an origin of a client that also needs a credential; nil if the origin is of no such client.
  private func missingCredential(of origin: Origin) -> Denial? {
    guard let client = clients.first(where: { $0.origins.isRestricted && $0.origins.allows(origin) }) else {
      return nil
    }
    return Denial(
      .missingCredentials, "no_credential",
      "Client \(client.id) needs both its credential and one of its web origins, and the request has no credential.",
      client: client.id)
  }
}

/// The identification of a caller by a JSON Web Token.
extension AccessPolicy {
  /// Returns the client that a JWT is for, and the `sub` of the JWT.
  func holder(
    ofJWT token: ArraySlice<UInt8>, now: Int, keys: (KeySetSource) -> JSONWebKeySet?
  ) throws(Interruption) -> (Client, subject: ByteString?) {
    let jwt: JWT
    do throws(JWTRefusal) { jwt = try JWT(compact: token.span) } catch { throw .denied(Self.denial(error)) }
    let candidates = try candidates(for: jwt, now: now)
    var signature = SignatureCheck(jwt)
    let holders = candidates.filter { signature.holds(by: $0.source, keys: keys) }
    guard holders.count < 2 else { throw .denied(Self.ambiguousClient) }
    if let holder = holders.first { return (clients[holder.client], holder.subject) }
    guard signature.wanted.isEmpty else {
      throw .keysWanted(signature.wanted, signature.lacksKeys ? nil : signature.refusal)
    }
    throw .denied(Self.denial(signature.refusal ?? .badSignature))
  }

  private typealias Candidate = (client: Int, source: KeySetSource, subject: ByteString?)

  /// Returns the clients whose rules the claims of the token meet; the signature is not checked yet. Throws a refusal
  /// that does not depend on any key.
  private func candidates(for jwt: JWT, now: Int) throws(Interruption) -> [Candidate] {
    guard let indices = jwt.issuer.flatMap({ issuers[$0] }) else { throw .denied(unknownIssuer(jwt)) }
    var candidates: [Candidate] = []
    var refusal: JWTRefusal?
    for index in indices {
      guard case .jwt(let rules, let source) = clients[index].credential else { continue }
      do throws(JWTRefusal) {
        candidates.append((index, source, try jwt.check(rules, now: now).subject))
      } catch {
        // If several clients share a provider, report the refusal of the client that the token matches best.
        if error.nearness > refusal?.nearness ?? -1 { refusal = error }
      }
    }
    guard !candidates.isEmpty else { throw .denied(Self.denial(refusal ?? .wrongIssuer)) }
    return candidates
  }

  /// A signature, verified once for each set of keys, even if several clients share the set.
  private struct SignatureCheck {
    private let jwt: JWT
    private var known: [KeySetSource: Bool] = [:]
    /// The key sets that may contain the key after a fetch.
    private(set) var wanted: [KeySetSource] = []
    /// Whether the server has no keys at all from one of the sets.
    private(set) var lacksKeys = false
    private(set) var refusal: JWTRefusal?

    init(_ jwt: JWT) {
      self.jwt = jwt
    }

    mutating func holds(by source: KeySetSource, keys: (KeySetSource) -> JSONWebKeySet?) -> Bool {
      if let known = known[source] { return known }
      let holds = verify(by: source, keys(source))
      known[source] = holds
      return holds
    }

    private mutating func verify(by source: KeySetSource, _ keys: JSONWebKeySet?) -> Bool {
      guard let keys else {
        wanted.append(source)
        lacksKeys = true
        return false
      }
      do throws(JWTRefusal) {
        try jwt.verifySignature(by: keys)
        return true
      } catch {
        if error == .unknownKey { wanted.append(source) }
        refusal = error
        return false
      }
    }
  }

  /// The denial of a token that matches several clients, which may have different rights.
  private static let ambiguousClient = Denial(
    .invalidCredentials, "jwt_ambiguous_client",
    "The aud or other claims of the JWT match several clients of this server. They must match one client.")

  /// Returns the denial for a refused JWT.
  static func denial(_ refusal: JWTRefusal) -> Denial {
    Denial(.invalidCredentials, refusal.reason, "\(refusal)", isGuess: refusal.isGuess)
  }

  private func unknownIssuer(_ jwt: JWT) -> Denial {
    let issuer = jwt.issuer.map { "of the issuer \(Printable.quote($0, limit: 120))" } ?? "without iss"
    return Denial(
      .invalidCredentials, "jwt_unknown_issuer",
      advice(onDeveloperToken: jwt) ?? "No client of this server uses tokens \(issuer).")
  }
}

/// The credential and the origin that a request presents.
public struct PresentedCredentials: Sendable {
  /// A credential as the request presents it, not verified.
  public enum Credential: Sendable {
    /// The token of `Authorization: Bearer` (RFC 6750 §2.1): an API key or a JWT.
    case bearer(ArraySlice<UInt8>)
    /// The value of `X-API-Key`.
    case apiKey(ArraySlice<UInt8>)
    /// The names of a TLS client certificate that the server has verified.
    case certificate([SubjectName])
    /// A certificate that was valid when the connection began, but is not valid now.
    case outdatedCertificate
    /// A value that is not a single credential; the sentence says why.
    case malformed(String)
  }

  /// The `Origin` field (RFC 6454 §7).
  public enum RequestOrigin: Sendable, Equatable {
    /// The request has no `Origin`.
    case absent
    /// A single valid origin.
    case present(Origin)
    /// The `Origin` is `null`, has several values, or is not an origin. The text is safe to quote.
    case unusable(String)

    /// The value that browsers send for a page without an origin (RFC 6454 §7.1).
    public static let opaque = "null"

    /// The origin or `null`, safe for a log; nil if the field is absent or holds anything else.
    public var name: String? {
      switch self {
      case .present(let origin): origin.description
      case .unusable(Self.opaque): Self.opaque
      case .absent, .unusable: nil
      }
    }
  }

  /// The only credential; nil if the request has none.
  public var credential: Credential?
  /// The origin of the requesting page.
  public var origin: RequestOrigin

  /// Creates the credentials of a request, by default without any.
  public init(credential: Credential? = nil, origin: RequestOrigin = .absent) {
    self.credential = credential
    self.origin = origin
  }

  /// Returns a copy in its own memory, to hold while the request waits: a slice of a request's head keeps the whole
  /// head.
  public func copied() -> PresentedCredentials {
    var copy = self
    switch credential {
    case .bearer(let token): copy.credential = .bearer(Array(token)[...])
    case .apiKey(let key): copy.credential = .apiKey(Array(key)[...])
    case .certificate, .outdatedCertificate, .malformed, nil: break
    }
    return copy
  }
}
