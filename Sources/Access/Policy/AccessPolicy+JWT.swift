import Bytes
import DeveloperToken

/// Whose a JSON Web Token is.
extension AccessPolicy {
  /// The client that a JWT is for, and its `sub`.
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

  /// A refusal of a JWT.
  static func denial(_ refusal: JWTRefusal) -> Denial {
    Denial(.invalidCredentials, refusal.reason, "\(refusal)", isGuess: refusal.isGuess)
  }

  private static func unknownIssuer(_ jwt: JWT) -> Denial {
    let issuer = jwt.issuer.map { "of the issuer \(Printable.quote($0, limit: 120))" } ?? "without iss"
    // What Apple's own tokens look like: people send here what they would have sent to Apple.
    let hint =
      jwt.issuer.map { (try? TeamID($0.text)) != nil } ?? false
      ? " This is a developer token for Apple Music. Leave it out: this server adds its own."
      : ""
    return Denial(
      .invalidCredentials, "jwt_unknown_issuer",
      "No client of this server is known by tokens \(issuer).\(hint)")
  }
}
