public import Bytes
import Cryptography

extension JWT {
  /// Whether algorithm and claims are as the rules have them: which of several clients with one issuer it may be. Says
  /// nothing of the signature.
  ///
  /// Claims come first: an expired token is that, whether its key is still in the set or not, and only one that would
  /// be good may cause a fresher set to be fetched.
  /// - Parameter now: Seconds since 1970.
  /// - Returns: What it says, to be believed once its signature holds.
  /// - Throws: `JWTRefusal`.
  @discardableResult
  public func check(_ rules: JWTRules, now: Int) throws(JWTRefusal) -> VerifiedJWT {
    guard rules.algorithms.contains(algorithm) else { throw .algorithmNotAllowed }
    let (subject, expiresAt) = try claims.check(rules, now: now)
    return VerifiedJWT(subject: subject, expiresAt: expiresAt, keyID: keyID)
  }

  /// Whether a key of the set has signed it.
  ///
  /// - Throws: `JWTRefusal` if none has; `unknownKey` if a fresher set may help.
  public func verifySignature(by keys: JSONWebKeySet) throws(JWTRefusal) {
    let candidates = try keys.candidates(for: algorithm, keyID: keyID)
    guard candidates.contains(where: { $0.key.verifies(jws.signature.span, of: jws.signingInput.span, algorithm) })
    else { throw keyID == nil ? .unknownKey : .badSignature }
  }

  /// Believes it if its claims are as the rules have them and a key of the set has signed it.
  ///
  /// - Parameter now: Seconds since 1970.
  /// - Throws: `JWTRefusal`; `unknownKey` if a fresher set may help.
  public func verify(
    by keys: JSONWebKeySet, rules: JWTRules, now: Int
  ) throws(JWTRefusal) -> VerifiedJWT {
    let token = try check(rules, now: now)
    try verifySignature(by: keys)
    return token
  }
}

/// What a JWT says whose signature and claims are in order.
public struct VerifiedJWT: Sendable, Equatable {
  /// Its `sub` (RFC 7519 §4.1.2): whom it is about, 1 to 255 bytes; nil if it says nothing of it.
  public let subject: ByteString?
  /// Its `exp` in whole seconds since 1970. It is taken for a minute longer, as clocks differ.
  public let expiresAt: Int
  /// The `kid` of the key that signed it, if it named one.
  public let keyID: ByteString?
}

/// What a JWT must say for its bearer to be a client's.
public struct JWTRules: Sendable, Equatable {
  /// The `iss` (RFC 7519 §4.1.1), byte for byte.
  public var issuer: String
  /// The values of which `aud` (RFC 7519 §4.1.3) must have one; never empty.
  public var audiences: [String]
  /// Further claims that it must have.
  public var requiredClaims: [RequiredClaim]
  /// The signature algorithms that count; never empty.
  public var algorithms: Set<JWTAlgorithm>

  /// A claim that must have one of these values: as it is, or as an element if it is an array.
  public struct RequiredClaim: Sendable, Equatable {
    /// Its name.
    public var name: String
    /// The strings that will do; never empty.
    public var values: [String]

    /// A requirement.
    public init(name: String, values: [String]) {
      self.name = name
      self.values = values
    }
  }

  /// Rules as given; all algorithms unless told otherwise.
  public init(
    issuer: String, audiences: [String], requiredClaims: [RequiredClaim] = [],
    algorithms: Set<JWTAlgorithm> = Set(JWTAlgorithm.allCases)
  ) {
    self.issuer = issuer
    self.audiences = audiences
    self.requiredClaims = requiredClaims
    self.algorithms = algorithms
  }
}

/// A signature algorithm for JWTs (RFC 7518 §3.1, RFC 8037 §3.1). There are no others: no `none`, nothing symmetric.
public enum JWTAlgorithm: String, Sendable, CaseIterable {
  /// ECDSA with P-256 and SHA-256.
  case es256 = "ES256"
  /// RSASSA-PKCS1-v1_5 with SHA-256.
  case rs256 = "RS256"
  /// RSASSA-PSS with SHA-256.
  case ps256 = "PS256"
  /// Ed25519.
  case edDSA = "EdDSA"

  /// The algorithm of that name, byte for byte: a name comes from outside, and `init(rawValue:)` compares strings.
  init?(_ name: ByteString) {
    guard let algorithm = Self.allCases.first(where: { name == $0.rawValue }) else { return nil }
    self = algorithm
  }
}
