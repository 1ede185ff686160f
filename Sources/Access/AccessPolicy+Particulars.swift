import Bytes
import HTTPMessages

/// The facts behind a denial, for operators. The caller does not get them, because they tell what the settings expect.
extension AccessPolicy {
  /// The most clients, origins and keys that a sentence lists.
  private static let mostListed = 8

  /// Returns the facts at `now`, in seconds since 1970, a sentence each, without a credential: an unknown API key
  /// appears as the beginning of its digest. `keys` returns the keys of an identity provider; nil without any.
  public func particulars(
    of denial: Denial, _ presented: PresentedCredentials, now: Int, keys: (KeySetSource) -> JSONWebKeySet?
  ) -> [String] {
    switch denial.response.code {
    case .originNotAllowed: particulars(of: presented.origin, denial.client)
    case .invalidCredentials, .overloaded:
      switch presented.credential {
      case .bearer(let text): particulars(ofBearer: text, now: now, keys: keys)
      case .apiKey(let key): particulars(ofKey: key)
      case .certificate(let names): particulars(of: names)
      case .outdatedCertificate, .malformed, nil: []
      }
    default: []
    }
  }

  private func particulars(of origin: PresentedCredentials.RequestOrigin, _ id: String?) -> [String] {
    let everyClient = clients + [anonymous].compactMap { $0 }
    let owners = everyClient.filter { $0.origins.isRestricted && (id == nil || $0.id == id) }
    return [spelling(of: origin), resemblance(of: origin, to: owners)].compactMap { $0 }
      + owners.prefix(Self.mostListed).map { client in
        "Client \(client.id) has \(Self.list(client.origins.patterns.map(\.description), "origin"))."
      }
  }

  /// Returns how browsers write the origin of a text that is not an origin as they write it.
  private func spelling(of origin: PresentedCredentials.RequestOrigin) -> String? {
    guard case .unusable(let text) = origin, text.contains(":") else { return nil }
    do throws(OriginError) { return "Browsers write this origin as \(try Origin(text))." } catch { return "\(error)" }
  }

  private func resemblance(of origin: PresentedCredentials.RequestOrigin, to clients: [Client]) -> String? {
    guard case .present(let origin) = origin else { return nil }
    for client in clients {
      for case .exact(let other) in client.origins.patterns where other != origin && other.host == origin.host {
        return "It differs from \(other) of client \(client.id) in its scheme or port."
      }
    }
    return nil
  }

  private func particulars(ofKey key: ArraySlice<UInt8>) -> [String] {
    guard !key.isEmpty, keys.count > 0, let digest = try? APIKeyDigest(of: key.span) else { return [] }
    let isGenuine = APIKeyForm(of: key.span) == .genuine
    return (isGenuine ? ["The checksum of the key is right, so it is not mistyped."] : [])
      + ["Its SHA-256 begins with \(digest.hexadecimal.prefix(8)), and no client has a key with this beginning."]
  }

  private func particulars(of names: [SubjectName]) -> [String] {
    names.isEmpty
      ? ["The server uses no name of the certificate: it has none, too many, or one that is not all visible ASCII."]
      : ["The certificate has \(Self.list(names.map(\.description), "name"))."]
  }

  private func particulars(
    ofBearer text: ArraySlice<UInt8>, now: Int, keys: (KeySetSource) -> JSONWebKeySet?
  ) -> [String] {
    guard !issuers.isEmpty, Self.looksLikeJWT(text) else { return particulars(ofKey: text) }
    guard let jwt = try? JWT(compact: text.span) else { return [] }
    let trusting = jwt.issuer.flatMap { issuers[$0] } ?? []
    guard !trusting.isEmpty else {
      let known = issuers.keys.sorted().map(\.text)
      return [Self.claims(of: jwt), "The clients accept \(Self.list(known, "iss"))."] + resemblances(of: jwt.issuer)
    }
    return [Self.claims(of: jwt)]
      + trusting.prefix(Self.mostListed).compactMap { index in
        guard case .jwt(let rules, let source) = clients[index].credential else { return nil }
        return Self.particulars(of: jwt, to: clients[index], rules, now: now, keys(source))
      }
  }

  private func resemblances(of issuer: ByteString?) -> [String] {
    guard let issuer else { return [] }
    let similar = issuers.keys.sorted().lazy.compactMap { known in
      IdentifierDifference(issuer, known).map { "The iss differs from \(Printable.quote(known, limit: 120)) \($0)." }
    }
    return Array(similar.prefix(Self.mostListed))
  }

  /// Returns what the claims say, which the server has not verified.
  private static func claims(of jwt: JWT) -> String {
    let issuer = list(jwt.issuer.map { [$0.text] } ?? [], "iss")
    let audiences = list((jwt.claims.audiences ?? []).map(\.text), "aud")
    let keyID = list(jwt.keyID.map { [$0.text] } ?? [], "kid")
    let expiry = jwt.claims.expiry.map { "the exp \(CivilTime(secondsSinceEpoch: $0))" } ?? "no exp"
    return "The JWT has \(issuer), \(audiences), \(keyID), the alg \(jwt.algorithm.rawValue) and \(expiry)."
  }

  /// Returns how far the JWT is from a client's rules; nil if it meets them.
  private static func particulars(
    of jwt: JWT, to client: Client, _ rules: JWTRules, now: Int, _ keys: JSONWebKeySet?
  ) -> String? {
    let expected: String
    do throws(JWTRefusal) {
      try jwt.check(rules, now: now)
      guard let keys else { return "The server has no keys of the provider of client \(client.id)." }
      try jwt.verifySignature(by: keys)
      return nil
    } catch {
      switch error {
      case .wrongAudience: expected = " It accepts \(list(rules.audiences ?? [], "aud"))."
      case .algorithmNotAllowed: expected = " It accepts \(list(rules.algorithms.map(\.rawValue).sorted(), "alg"))."
      case .requiredClaim(let name):
        let values = rules.requiredClaims.first { $0.name == name }?.values ?? []
        expected = " It requires \(list(values, name))."
      case .unknownKey, .keyMismatch, .ambiguousKey:
        expected = " Its key set has \(list(keys?.keyIDs.map(\.text) ?? [], "kid"))."
      default: expected = ""
      }
      return "Client \(client.id): \(explanation(of: error, jwt, rules) ?? "\(error)")\(expected)"
    }
  }

  /// Returns `the name “a”` or `the names “a” and “b”` for the first values.
  private static func list(_ values: [String], _ name: String) -> String {
    let shown = values.prefix(mostListed).map { Printable.quote($0, limit: 120) }
    let rest = values.count > shown.count ? ["\(values.count - shown.count) more"] : []
    guard values.count > 1 else { return values.isEmpty ? "no \(name)" : "the \(name) \(shown[0])" }
    let all = shown + rest
    return "the \(name)s \(all.dropLast().joined(separator: ", ")) and \(all[all.count - 1])"
  }
}

extension Denial {
  /// What the operator can do about the denial; nil if the response says it.
  public var fix: String? {
    switch reason.description {
    case "mistyped_api_key": "Copy the whole key again."
    case "unknown_api_key":
      "Give the caller a key of a client in access.clients, or add the SHA-256 of this key to the client's apiKey."
    case "unknown_certificate":
      "Add a name of the certificate to the clientCertificate.san of a client, or issue a certificate with a listed name."
    case "jwt_expired": "Let the app renew its token before the token expires."
    case "jwt_not_yet_valid", "jwt_issued_in_future":
      "Compare the clocks of the identity provider and of the server's machine."
    case "jwt_unknown_issuer": "Compare the iss with the jwt.issuer of the clients, byte by byte."
    case "jwt_wrong_audience":
      "Let the app request a token for an accepted aud, or add this one to jwt.audience. If the provider's tokens have no "
        + "aud, leave jwt.audience out and name the application in jwt.requiredClaims."
    case "jwt_unknown_key", "jwt_key_mismatch", "jwt_ambiguous_key":
      "Let the app request a new token. If the server refuses that too, jwt.jwksURL or jwt.jwksFile has the keys of "
        + "another provider."
    case "jwt_bad_signature":
      "Copy the whole token again. If the server still refuses it, it was changed, or another provider signed it, or the "
        + "keys of the provider are out of date."
    case "jwt_no_keys": "Read in the log why the keys of the provider do not arrive."
    case "origin_not_allowed": "Add the origin to the origins of the client, as browsers write it."
    case "no_origin": "Send the request from a page of one of the client's origins."
    default: nil
    }
  }
}
