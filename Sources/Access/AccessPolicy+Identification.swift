import Bytes
public import HTTPMessages

extension AccessPolicy {
  /// The result of identifying the caller.
  public enum Identification: Sendable {
    case known(Principal)
    case denied(Denial)
    /// Fetch keys from an identity provider and identify the caller again, or deny the request if that is not possible.
    case keysWanted(WantedKeys)
  }

  /// Identifies the caller.
  ///
  /// An invalid credential is refused, because a caller with an old key is not an anonymous one. Only a server without
  /// any client ignores credentials (docs/decisions.md, 37).
  ///
  /// - Parameters:
  ///   - now: Seconds since 1970.
  ///   - wanted: The result of the first try, if the server has just fetched keys. No key is tried twice.
  ///   - postpones: Returns the denial of a JWT on which the server must spend no time now; nil for one that it may judge.
  ///   - keys: Returns the keys of an identity provider; nil if the server has none.
  public func identify(
    _ presented: PresentedCredentials, now: Int, after wanted: WantedKeys? = nil,
    postpones: (_ token: ArraySlice<UInt8>) -> Denial? = { _ in nil }, keys: (KeySetSource) -> JSONWebKeySet?
  ) -> Identification {
    var missing: WantedKeys?
    do throws(Denial) {
      guard let credential = presented.credential, !clients.isEmpty
      else { return .known(try callerWithoutCredential(presented.origin)) }
      let (client, subject) = try holder(of: credential) { (token) throws(Denial) in
        if let denial = postpones(token) { throw denial }
        return try holder(ofJWT: token, now: now, after: wanted, missing: &missing, keys: keys)
      }
      return .known(try Self.caller(client, subject: subject, origin: presented.origin))
    } catch {
      guard let missing, wanted == nil else { return .denied(error) }
      return .keysWanted(missing)
    }
  }

  /// Identifies the caller of a request that has a valid credential of a client, if the client needs one.
  public func identify(
    holderOf client: Client, _ origin: PresentedCredentials.RequestOrigin
  ) throws(Denial) -> Principal {
    switch client.credential {
    case .apiKeys, .jwt, .certificate: try Self.caller(client, subject: nil, origin: origin)
    case .origin, .anonymous: try callerWithoutCredential(origin)
    }
  }

  /// The denial while the keys of a provider are unavailable. The caller cannot fix the cause.
  static let providerUnavailable = Denial(
    .overloaded, "jwt_no_keys",
    "The server cannot verify the token, because it has no keys of the identity provider at present. Send the request "
      + "again in 5 s.", retryAfter: 5, shortage: .providerKeys)

  private func holder(
    of credential: PresentedCredentials.Credential,
    jwt judge: (ArraySlice<UInt8>) throws(Denial) -> (Client, subject: ByteString?)
  ) throws(Denial) -> (Client, subject: ByteString?) {
    switch credential {
    case .apiKey(let key):
      if let index = self.keys.client(presenting: key.span) { return (clients[index], nil) }
      throw unknownKey(key, isBearer: false)
    case .bearer(let token):
      if let index = self.keys.client(presenting: token.span) { return (clients[index], nil) }
      guard !issuers.isEmpty, Self.looksLikeJWT(token) else { throw unknownKey(token, isBearer: true) }
      return try judge(token)
    case .certificate(let names): return (try holder(ofCertificateFor: names), nil)
    case .outdatedCertificate:
      throw Denial(
        .invalidCredentials, "outdated_certificate",
        "Since the connection began, the TLS client certificate expired, or the server stopped trusting its CA.",
        endsConnection: true, isGuess: false)
    case .malformed(let detail): throw Denial(.invalidCredentials, "malformed_credential", detail)
    }
  }

  private func holder(ofCertificateFor names: [SubjectName]) throws(Denial) -> Client {
    let holders = Set(names.compactMap { certificates[$0] })
    guard let holder = holders.first else {
      throw Denial(
        .invalidCredentials, "unknown_certificate",
        "The TLS client certificate has no name that belongs to a client of this server.")
    }
    guard holders.count < 2 else {
      throw Denial(
        .invalidCredentials, "ambiguous_certificate",
        "The TLS client certificate has names of several clients of this server. It must belong to one client.")
    }
    return clients[holder]
  }

  private static func caller(
    _ client: Client, subject: ByteString?, origin: PresentedCredentials.RequestOrigin
  ) throws(Denial) -> Principal {
    guard client.origins.isRestricted else { return Principal(client: client, subject: subject, origin: nil) }
    switch origin {
    case .absent:
      throw Denial(
        .missingCredentials, "no_origin",
        "Client \(client.id) needs both its credential and one of its web origins, and the request has no Origin.",
        client: client.id)
    case .present(let origin):
      guard client.origins.allows(origin) else { throw notAllowed(origin, client) }
      return Principal(client: client, subject: subject, origin: origin)
    case .unusable(let text): throw notAllowed(unusable: text, client)
    }
  }

  private func callerWithoutCredential(_ origin: PresentedCredentials.RequestOrigin) throws(Denial) -> Principal {
    switch origin {
    case .absent:
      guard let anonymous else { throw missingCredentials }
      return Principal(client: anonymous, subject: nil, origin: nil)
    case .present(let origin):
      if let client = client(of: origin) { return Principal(client: client, subject: nil, origin: origin) }
      if let anonymous, anonymous.origins.allows(origin) {
        return Principal(client: anonymous, subject: nil, origin: origin)
      }
      throw missingCredential(of: origin) ?? Self.notAllowed(origin, anonymous)
    case .unusable(let text): throw Self.notAllowed(unusable: text, anonymous)
    }
  }

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

  /// Only a caller with a credential learns its client's name: any program can send an `Origin`.
  private static func owner(_ client: Client?) -> String {
    guard let client, client.credential != .anonymous, client.credential != .origin else {
      return "that this server is for"
    }
    return "of client \(client.id)"
  }

  /// Returns the denial for an origin of a client that also needs a credential; nil if the origin is of no such client.
  /// The caller has shown only what any program can send, so it does not learn the name of the client.
  private func missingCredential(of origin: Origin) -> Denial? {
    clients.first { $0.origins.isRestricted && $0.origins.allows(origin) }.map {
      Denial(
        .missingCredentials, "no_credential",
        "Pages of \(origin) need a credential beside their origin, and the request has none.", client: $0.id)
    }
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
    case absent
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

  /// Nil if the request has none.
  public var credential: Credential?
  /// The origin of the requesting page.
  public var origin: RequestOrigin

  /// Creates the credentials of a request, by default without any.
  public init(credential: Credential? = nil, origin: RequestOrigin = .absent) {
    (self.credential, self.origin) = (credential, origin)
  }

  /// Returns a copy in its own memory for a request that waits: a slice of a request's head keeps the whole head.
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
