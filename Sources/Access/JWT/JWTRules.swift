import Bytes

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
