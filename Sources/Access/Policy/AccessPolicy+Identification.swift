import DeveloperToken

extension AccessPolicy {
  /// What comes of the question who asks.
  public enum Identification: Sendable {
    /// This one.
    case known(Principal)
    /// Nobody who is known, or not so.
    case denied(Denial)
    /// It hangs on a key of an identity provider that may be there once its keys are fetched: ask again then.
    case keysWanted([KeySetSource])
  }

  /// Says who asks.
  ///
  /// A credential that does not hold is refused and never ignored, lest a caller with an old key be taken for anybody.
  /// Only a server without any client has no use for credentials: there, what looks like one is none of its business.
  ///
  /// - Parameters:
  ///   - now: Seconds since 1970.
  ///   - isLastTry: Whether there is no point in fetching keys: they have just been.
  ///   - keys: The keys of an identity provider, as far as they are there.
  public func identify(
    _ presented: Presented, now: Int, isLastTry: Bool = false, keys: (KeySetSource) -> JSONWebKeySet?
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

  private enum Interruption: Error {
    case denied(Denial)
    /// The refusal stands if there are no other keys; without one there are no keys at all.
    case keysWanted([KeySetSource], JWTRefusal?)
  }

  /// Nothing of what the caller can mend.
  public static let providerUnavailable = Denial(
    .unavailable(retryAfter: 5), "jwt_no_keys",
    "The keys of the identity provider cannot be had at present, so that its tokens cannot be verified.")

  // MARK: With a credential

  private func holder(
    of credential: Presented.Credential, now: Int, keys: (KeySetSource) -> JSONWebKeySet?
  ) throws(Interruption) -> (Client, subject: String?) {
    switch credential {
    case .apiKey(let key):
      if let index = self.keys.client(presenting: key.span) { return (clients[index], nil) }
      throw .denied(unknownKey(key, isBearer: false))
    case .bearer(let token):
      if let index = self.keys.client(presenting: token.span) { return (clients[index], nil) }
      guard !issuers.isEmpty, Self.looksLikeJWT(token) else { throw .denied(unknownKey(token, isBearer: true)) }
      return try holder(ofJWT: token, now: now, keys: keys)
    case .certificate(let names):
      guard let index = names.lazy.compactMap({ certificates[$0] }).first else {
        throw .denied(
          Denial(
            .invalidCredentials, "unknown_certificate",
            "No client of this server is known by any name of the TLS client certificate."))
      }
      return (clients[index], nil)
    case .outdatedCertificate:
      throw .denied(
        Denial(
          .invalidCredentials, "outdated_certificate",
          "The TLS client certificate has expired, or its CA is not trusted any more, since the connection began.",
          endsConnection: true, isGuess: false))
    case .malformed(let detail):
      throw .denied(Denial(.invalidCredentials, "malformed_credential", detail))
    }
  }

  // MARK: With a JWT

  private func holder(
    ofJWT token: ArraySlice<UInt8>, now: Int, keys: (KeySetSource) -> JSONWebKeySet?
  ) throws(Interruption) -> (Client, subject: String?) {
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

  private typealias Candidate = (client: Int, source: KeySetSource, subject: String?)

  /// The clients that a token is for by what it says, its signature aside. What no key could mend is said without any.
  private func candidates(for jwt: JWT, now: Int) throws(Interruption) -> [Candidate] {
    guard let indices = jwt.issuer.flatMap({ issuers[$0] }) else { throw .denied(Self.unknownIssuer(jwt)) }
    var candidates: [Candidate] = []
    var refusal: JWTRefusal?
    for index in indices {
      guard case .jwt(let rules, let source) = clients[index].credential else { continue }
      do throws(JWTRefusal) {
        candidates.append((index, source, try jwt.check(rules, now: now).subject))
      } catch {
        // Of clients with one provider, the one that the token comes nearest to says what is wrong with it.
        if error.nearness > refusal?.nearness ?? -1 { refusal = error }
      }
    }
    guard !candidates.isEmpty else { throw .denied(Self.denial(refusal ?? .wrongIssuer)) }
    return candidates
  }

  /// A signature, verified once for each set of keys, however many clients share it.
  private struct SignatureCheck {
    private let jwt: JWT
    private var known: [KeySetSource: Bool] = [:]
    /// The sets that may have the key once they are fetched.
    private(set) var wanted: [KeySetSource] = []
    /// Whether there is a set of which nothing has come yet.
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

  /// More than one client is meant, and they may have different rights.
  private static let ambiguousClient = Denial(
    .invalidCredentials, "jwt_ambiguous_client",
    "The JWT is for several clients of this server, by its aud or its other claims; it must be for one.")

  private static func denial(_ refusal: JWTRefusal) -> Denial {
    Denial(.invalidCredentials, refusal.reason, "\(refusal)", isGuess: refusal.isGuess)
  }

  private static func unknownIssuer(_ jwt: JWT) -> Denial {
    let issuer = jwt.issuer.map { Printable.quote($0, limit: 120) } ?? "nobody"
    // What Apple's own tokens look like: people send here what they would have sent to Apple.
    let hint =
      jwt.issuer.map { (try? TeamID($0)) != nil } ?? false
      ? " A developer token for Apple Music is none of this server's credentials: leave it out, this server adds its own."
      : ""
    return Denial(
      .invalidCredentials, "jwt_unknown_issuer",
      "No client of this server is known by tokens of the issuer \(issuer).\(hint)")
  }

  private static func caller(
    _ client: Client, subject: String?, origin: Presented.RequestOrigin
  ) throws(Interruption) -> Principal {
    guard client.origins.isRestricted else { return Principal(client: client, subject: subject, origin: nil) }
    switch origin {
    case .absent:
      throw .denied(
        Denial(
          .missingCredentials, "no_origin",
          "Client \(client.id) is known by its credential and one of its web origins together, and the request has no "
            + "Origin.", client: client.id))
    case .present(let origin):
      guard client.origins.allows(origin) else { throw .denied(notAllowed("\(origin)", client)) }
      return Principal(client: client, subject: subject, origin: origin)
    case .unusable(let text): throw .denied(notAllowed(text, client))
    }
  }

  // MARK: Without

  private func callerWithoutCredential(_ origin: Presented.RequestOrigin) throws(Interruption) -> Principal {
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
      throw .denied(missingCredential(of: origin) ?? Self.notAllowed("\(origin)", anonymous))
    case .unusable(let text): throw .denied(Self.notAllowed(text, anonymous))
    }
  }

  /// A refusal of an origin.
  static func notAllowed(_ origin: String, _ client: Client?) -> Denial {
    let whose =
      client.map { $0.credential == .anonymous ? nil : $0.id }?.map { "of client \($0)" } ?? "that this server is for"
    return Denial(
      .originNotAllowed, "origin_not_allowed", "\(origin) is not one of the origins \(whose).", client: client?.id)
  }

  /// The origin is that of a client who needs a credential beside it.
  private func missingCredential(of origin: Origin) -> Denial? {
    guard let client = clients.first(where: { $0.origins.isRestricted && $0.origins.allows(origin) }) else {
      return nil
    }
    return Denial(
      .missingCredentials, "no_credential",
      "Client \(client.id) is known by its credential and one of its web origins together, and the request has no "
        + "credential.", client: client.id)
  }
}
