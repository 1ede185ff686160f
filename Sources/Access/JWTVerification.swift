public import Bytes
import Cryptography

extension JWT {
  /// Checks the algorithm and the claims against the rules, to find the client among several with one issuer. Does not
  /// check the signature.
  ///
  /// This check comes first. So an expired token is reported as expired even if its key is no longer in the set, and
  /// only an otherwise valid token may cause a fetch of the keys.
  ///
  /// - Parameter now: Seconds since 1970.
  /// - Returns: The claims, which are not valid before the signature is verified.
  /// - Throws: `JWTRefusal` if the algorithm or a claim does not meet the rules.
  @discardableResult
  public func check(_ rules: JWTRules, now: Int) throws(JWTRefusal) -> VerifiedJWT {
    guard rules.algorithms.contains(algorithm) else { throw .algorithmNotAllowed }
    let (subject, expiresAt) = try claims.check(rules, now: now)
    return VerifiedJWT(subject: subject, expiresAt: expiresAt, keyID: keyID)
  }

  /// Verifies that a key of the set has signed the token.
  ///
  /// - Throws: `JWTRefusal` if none has; its `mayBeOfNewerKey` says whether a newer set may contain the key.
  public func verifySignature(by keys: JSONWebKeySet) throws(JWTRefusal) {
    let candidates = try keys.candidates(for: algorithm, keyID: keyID)
    guard candidates.contains(where: { isSigned(by: $0.key) }) else { throw refusalOfSignature }
  }

  func isSigned(by key: PublicKey) -> Bool {
    key.verifies(jws.signature.span, of: jws.signingInput.span, algorithm)
  }

  /// The refusal if no key made the signature.
  var refusalOfSignature: JWTRefusal { keyID == nil ? .unknownKey : .badSignature }

  /// Checks the claims against the rules and verifies the signature.
  ///
  /// - Parameter now: Seconds since 1970.
  /// - Throws: `JWTRefusal`; its `mayBeOfNewerKey` says whether a newer set may contain the key.
  public func verify(
    by keys: JSONWebKeySet, rules: JWTRules, now: Int
  ) throws(JWTRefusal) -> VerifiedJWT {
    let token = try check(rules, now: now)
    try verifySignature(by: keys)
    return token
  }
}

/// The content of a JWT with a verified signature and accepted claims.
public struct VerifiedJWT: Sendable, Equatable {
  /// The `sub` (RFC 7519 §4.1.2), which names the user, 1 to 255 bytes; nil if the token has none.
  public let subject: ByteString?
  /// The `exp` in whole seconds since 1970. The server accepts the token for a minute longer, because clocks differ.
  public let expiresAt: Int
  /// The `kid` of the signing key; nil if the token names none.
  public let keyID: ByteString?
}

/// The rules that a JWT must meet to identify a client.
public struct JWTRules: Sendable, Equatable {
  /// The required `iss` (RFC 7519 §4.1.1), compared byte for byte.
  public var issuer: String
  /// The accepted values, of which `aud` (RFC 7519 §4.1.3) must contain one; never empty. Nil if `aud` does not matter,
  /// because one of `requiredClaims` names the application.
  public var audiences: [String]?
  /// The further claims that the token must have.
  public var requiredClaims: [RequiredClaim]
  /// The accepted signature algorithms; never empty.
  public var algorithms: Set<JWTAlgorithm>

  /// A claim that must have one of some values: as a string, or as an element of an array.
  public struct RequiredClaim: Sendable, Equatable {
    /// The name of the claim.
    public var name: String
    /// The accepted strings; never empty.
    public var values: [String]

    /// The claims whose value is the application that the provider issued the token to: `client_id` (RFC 9068 §2.2),
    /// `azp` (OpenID Connect Core §2), and what Okta, Microsoft Entra, Keycloak and FusionAuth call it.
    public static let ofApplications = ["client_id", "azp", "cid", "appid", "clientId", "applicationId"]

    /// Whether the claim says which application the token was issued to.
    public var namesApplication: Bool { Self.ofApplications.contains(name) }

    /// Creates a requirement.
    public init(name: String, values: [String]) {
      self.name = name
      self.values = values
    }
  }

  /// Creates rules, by default with all algorithms.
  public init(
    issuer: String, audiences: [String]?, requiredClaims: [RequiredClaim] = [],
    algorithms: Set<JWTAlgorithm> = Set(JWTAlgorithm.allCases)
  ) {
    self.issuer = issuer
    self.audiences = audiences
    self.requiredClaims = requiredClaims
    self.algorithms = algorithms
  }
}

/// A signature algorithm for JWTs (RFC 7518 §3.1, RFC 8037 §3.1). `none` and symmetric algorithms are not supported.
public enum JWTAlgorithm: String, Sendable, CaseIterable {
  /// ECDSA with P-256 and SHA-256.
  case es256 = "ES256"
  /// RSASSA-PKCS1-v1_5 with SHA-256.
  case rs256 = "RS256"
  /// RSASSA-PSS with SHA-256.
  case ps256 = "PS256"
  /// Ed25519.
  case edDSA = "EdDSA"

  /// Finds the algorithm of that name, byte for byte, because the name comes from a request and `init(rawValue:)`
  /// compares strings by Unicode equivalence.
  init?(_ name: ByteString) {
    guard let algorithm = Self.allCases.first(where: { name == $0.rawValue }) else { return nil }
    self = algorithm
  }
}
