import DeveloperToken

extension AccessPolicy {
  /// What comes of the question who asks.
  public enum Identification: Sendable {
    /// This one.
    case known(Principal)
    /// Nobody who is known, or not so.
    case denied(Denial)
    /// It hangs on a key of an identity provider that may be there once its keys are fetched: ask again then.
    case keysWanted(KeySetSource)
  }

  /// Says who asks.
  ///
  /// A credential that does not hold is refused and never ignored, lest a caller with an old key be taken for anybody. A
  /// server that knows no credentials has no use for any: there, what looks like one is none of its business.
  ///
  /// - Parameters:
  ///   - now: Seconds since 1970.
  ///   - isLastTry: Whether there is no point in fetching keys: they have just been.
  ///   - keys: The keys of an identity provider, as far as they are there.
  public func identify(
    _ presented: Presented, now: Int, isLastTry: Bool = false, keys: (KeySetSource) -> JSONWebKeySet?
  ) -> Identification {
    do throws(Interruption) {
      guard let credential = presented.credential, knowsCredentials else {
        return .known(try callerWithoutCredential(presented.origin))
      }
      let (client, subject) = try holder(of: credential, now: now, keys: keys)
      return .known(try Self.caller(client, subject: subject, origin: presented.origin))
    } catch {
      switch error {
      case .denied(let denial): return .denied(denial)
      case .keysWanted(let source, let refusal):
        guard isLastTry else { return .keysWanted(source) }
        return .denied(refusal.map(Self.denial) ?? Self.providerUnavailable)
      }
    }
  }

  private enum Interruption: Error {
    case denied(Denial)
    /// The refusal stands if there are no other keys; without one there are no keys at all.
    case keysWanted(KeySetSource, JWTRefusal?)
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
      throw .denied(Self.unknownKey(key.span))
    case .bearer(let token):
      if let index = self.keys.client(presenting: token.span) { return (clients[index], nil) }
      guard token.count(where: { $0 == UInt8(ascii: ".") }) == 2 else { throw .denied(Self.unknownKey(token.span)) }
      return try holder(ofJWT: token, now: now, keys: keys)
    case .certificate(let names):
      guard let index = names.lazy.compactMap({ certificates[$0] }).first else {
        throw .denied(
          Denial(
            .invalidCredentials, "unknown_certificate",
            "No client of this server is known by any name of the TLS client certificate."))
      }
      return (clients[index], nil)
    case .malformed(let detail):
      throw .denied(Denial(.invalidCredentials, "malformed_credential", detail))
    }
  }

  private static func unknownKey(_ key: Span<UInt8>) -> Denial {
    switch APIKeyForm(of: key) {
    case .mistyped:
      Denial(.invalidCredentials, "mistyped_api_key", "The API key is cut off or mistyped: its checksum is wrong.")
    case .genuine, .other:
      Denial(
        .invalidCredentials, "unknown_api_key",
        "The API key is not one of this server's: it may have been replaced, or be another server's.")
    }
  }

  private func holder(
    ofJWT token: [UInt8], now: Int, keys: (KeySetSource) -> JSONWebKeySet?
  ) throws(Interruption) -> (Client, subject: String?) {
    let jwt: JWT
    do throws(JWTRefusal) { jwt = try JWT(compact: token.span) } catch { throw .denied(Self.denial(error)) }
    guard let candidates = jwt.issuer.flatMap({ issuers[$0] }) else {
      throw .denied(Self.unknownIssuer(jwt))
    }
    // Clients of one provider differ in audience or claims. What the last of them says is what the caller is told.
    var refusal: JWTRefusal?
    var wanted: KeySetSource?
    for index in candidates {
      guard case .jwt(let rules, let source) = clients[index].credential else { continue }
      do throws(JWTRefusal) {
        // What no key could mend is said without any.
        try jwt.check(rules, now: now)
        guard let keys = keys(source) else {
          wanted = source
          continue
        }
        return (clients[index], try jwt.verify(by: keys, rules: rules, now: now).subject)
      } catch {
        if error == .unknownKey { wanted = source }
        refusal = refusal ?? error
      }
    }
    if let wanted { throw .keysWanted(wanted, refusal) }
    throw .denied(refusal.map(Self.denial) ?? Self.unknownIssuer(jwt))
  }

  static func denial(_ refusal: JWTRefusal) -> Denial {
    Denial(.invalidCredentials, refusal.reason, "\(refusal)")
  }

  private static func unknownIssuer(_ jwt: JWT) -> Denial {
    // What Apple's own tokens look like: people send here what they would have sent to Apple.
    let hint =
      jwt.issuer.map { (try? TeamID($0)) != nil } ?? false
      ? " A developer token for Apple Music is none of this server's credentials: leave it out, this server adds its own."
      : ""
    return Denial(
      .invalidCredentials, "jwt_unknown_issuer", "No client of this server is known by tokens of this issuer.\(hint)")
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
    guard let anonymous else {
      switch origin {
      case .absent: throw .denied(missingCredentials)
      case .present(let origin): throw .denied(Self.notAllowed("\(origin)", nil))
      case .unusable(let text): throw .denied(Self.notAllowed(text, nil))
      }
    }
    switch origin {
    case .absent: return Principal(client: anonymous, subject: nil, origin: nil)
    case .present(let origin):
      guard anonymous.origins.allows(origin) else { throw .denied(Self.notAllowed("\(origin)", anonymous)) }
      return Principal(client: anonymous, subject: nil, origin: origin)
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

  private var missingCredentials: Denial {
    var detail = "The request says nothing of who asks."
    if keys.count > 0 { detail += " Send an API key as Authorization: Bearer KEY." }
    if keys.count == 0, !issuers.isEmpty { detail += " Send your identity provider's token as Authorization: Bearer." }
    if keys.count == 0, issuers.isEmpty, !certificates.isEmpty { detail += " Use a TLS client certificate." }
    return Denial(.missingCredentials, "no_credential", knowsOrigins ? "\(detail) \(Self.sameOrigin)" : detail)
  }

  /// For who sends no origin, and needs one.
  static let noOrigin = Denial(
    .missingCredentials, "no_origin",
    "This server is for the web origins that it lists, and the request names none. \(sameOrigin)",
    client: Client.anonymousID)

  /// The usual cause for a page.
  private static let sameOrigin =
    "Browsers send no Origin with a same-origin GET: a page on this server's own origin gets its token by POST /token."
}
