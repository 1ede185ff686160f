/// The reason why the server refuses a JWT.
public enum JWTRefusal: Error, Sendable, Hashable {
  /// The reason why a text is not a JWT.
  public enum Malformation: Sendable, Hashable, CaseIterable {
    /// There are not three parts between dots. Five parts are an encrypted JWT (RFC 7516).
    case parts
    /// A part is not base64url without padding, in its canonical form (RFC 7515 §2).
    case encoding
    case header
    case claims
    /// A member occurs twice: parsers differ in which value they take (RFC 7519 §4).
    case repeatedMember
    case keyID
  }

  /// The claims of RFC 7519 §4.1 that the server reads.
  public enum Claim: String, Sendable, CaseIterable {
    case issuer = "iss"
    case subject = "sub"
    case audience = "aud"
    case expiry = "exp"
    case notBefore = "nbf"
    case issuedAt = "iat"
  }

  case tooLong
  case malformed(Malformation)
  /// The server does not support the algorithm: `none`, a symmetric algorithm, or another hash.
  case unsupportedAlgorithm
  case algorithmNotAllowed
  /// The header has a critical extension (RFC 7515 §4.1.11). The server supports none.
  case criticalHeader
  case keyInHeader
  case wrongType
  case wrongIssuer
  case wrongAudience
  case noExpiry
  case expired(seconds: Int)
  case notYetValid(seconds: Int)
  case issuedInFuture(seconds: Int)
  case invalidClaim(Claim)
  /// The claim of this name, which the rules require, is missing or has none of the accepted values.
  case requiredClaim(String)
  /// No key of the set has the `kid` of the token, or the token has no `kid` and no key made its signature.
  case unknownKey
  /// The named key is not for the algorithm of the token (RFC 8725 §2.1 and §3.1).
  case keyMismatch
  case ambiguousKey
  case badSignature
}

extension JWTRefusal {
  /// One word for the audit log and for the metric's label.
  public var reason: StaticString {
    switch self {
    case .tooLong: "jwt_too_long"
    case .malformed: "jwt_malformed"
    case .unsupportedAlgorithm: "jwt_unsupported_algorithm"
    case .algorithmNotAllowed: "jwt_algorithm_not_allowed"
    case .criticalHeader: "jwt_critical_header"
    case .keyInHeader: "jwt_key_in_header"
    case .wrongType: "jwt_wrong_type"
    case .wrongIssuer: "jwt_wrong_issuer"
    case .wrongAudience: "jwt_wrong_audience"
    case .noExpiry: "jwt_no_expiry"
    case .expired: "jwt_expired"
    case .notYetValid: "jwt_not_yet_valid"
    case .issuedInFuture: "jwt_issued_in_future"
    case .invalidClaim: "jwt_invalid_claim"
    case .requiredClaim: "jwt_required_claim"
    case .unknownKey: "jwt_unknown_key"
    case .keyMismatch: "jwt_key_mismatch"
    case .ambiguousKey: "jwt_ambiguous_key"
    case .badSignature: "jwt_bad_signature"
    }
  }

  /// How closely a refused token matches a client. Of several clients with one issuer, the highest value is reported.
  var nearness: Int {
    switch self {
    case .expired, .notYetValid, .issuedInFuture, .noExpiry: 4
    case .requiredClaim: 3
    case .invalidClaim: 2
    case .algorithmNotAllowed: 1
    default: 0
    }
  }

  /// Whether a newer set may have the key: some providers replace a key, also by another kind, and keep its `kid`.
  var mayBeOfNewerKey: Bool {
    switch self {
    case .unknownKey, .badSignature, .keyMismatch, .ambiguousKey: true
    default: false
    }
  }

  /// Whether the token may be forged. An expired token was valid once, and one from the future may become valid.
  var isGuess: Bool {
    switch self {
    case .expired, .notYetValid, .issuedInFuture: false
    default: true
    }
  }
}

extension JWTRefusal: CustomStringConvertible {
  /// One sentence for the caller. It quotes neither the token nor what the operator expects.
  public var description: String {
    switch self {
    case .tooLong: "The JWT is longer than \(JWT.limit) bytes."
    case .malformed(let malformation): malformation.description
    case .unsupportedAlgorithm:
      "The JWT's alg is not one of \(JWTAlgorithm.allCases.map(\.rawValue).joined(separator: ", "))."
    case .algorithmNotAllowed: "The JWT's alg is not one of this client's algorithms."
    case .criticalHeader: "The JWT's header has critical extensions (crit or b64), and this server supports none."
    case .keyInHeader:
      "The JWT's header has a key (jwk, jku, x5c or x5u); this server takes keys only from the key set."
    case .wrongType: "The JWT's typ is not that of an access token or an ID token."
    case .wrongIssuer: "This server does not trust the JWT's iss, which it compares byte by byte."
    case .wrongAudience: "The JWT is not for this server: its aud does not name the server."
    case .noExpiry: "The JWT has no exp, which this server requires."
    case .expired(let seconds): "The JWT expired \(seconds) seconds ago."
    case .notYetValid(let seconds): "The JWT is not valid for another \(seconds) seconds (nbf)."
    case .issuedInFuture(let seconds): "The JWT's iat is \(seconds) seconds in the future: a clock is wrong."
    case .invalidClaim(let claim): "The JWT's \(claim.rawValue) does not have the type that RFC 7519 requires."
    case .requiredClaim: "A claim of the JWT does not have a value that this client's tokens must have."
    case .unknownKey: "This server has no key of the JWT's issuer that can have signed the JWT."
    case .keyMismatch: "The key that the JWT names is not for its alg."
    case .ambiguousKey: "The JWT does not say which of the issuer's keys signed it: it needs the kid of one key."
    case .badSignature: "The key that the JWT names did not make the JWT's signature."
    }
  }
}

extension JWTRefusal.Malformation {
  fileprivate var description: String {
    switch self {
    case .parts: "The JWT does not have three parts between dots. This server does not accept encrypted JWTs."
    case .encoding: "A part of the JWT is not base64url without padding."
    case .header: "The JWT's header is not a JSON object."
    case .claims: "The JWT's claims are not a JSON object."
    case .repeatedMember: "The JWT repeats a member in its header or its claims."
    case .keyID: "The JWT's kid is not a string of 1 to \(JWTHeader.keyIDLimit) bytes."
    }
  }
}
