import Bytes

/// The rules that a JWT must meet to identify a client.
public struct JWTRules: Sendable, Equatable {
  /// The required `iss` (RFC 7519 §4.1.1), compared byte for byte.
  public var issuer: String
  /// The accepted values of `aud` (RFC 7519 §4.1.3), never empty; nil if a required claim names the application.
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
    public init(name: String, values: [String]) { (self.name, self.values) = (name, values) }
  }

  /// Creates rules, by default with all algorithms.
  public init(
    issuer: String, audiences: [String]?, requiredClaims: [RequiredClaim] = [],
    algorithms: Set<JWTAlgorithm> = Set(JWTAlgorithm.allCases)
  ) {
    (self.issuer, self.audiences) = (issuer, audiences)
    (self.requiredClaims, self.algorithms) = (requiredClaims, algorithms)
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

  /// Finds the algorithm of that name, byte for byte: `init(rawValue:)` compares strings by Unicode equivalence.
  init?(_ name: ByteString) {
    guard let algorithm = Self.allCases.first(where: { name == $0.rawValue }) else { return nil }
    self = algorithm
  }
}
