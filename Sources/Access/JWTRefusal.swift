/// Why the bearer of a JWT is not believed.
public enum JWTRefusal: Error, Sendable, Hashable {
  /// What is wrong with a text that is to be a JWT.
  public enum Malformation: Sendable, Hashable, CaseIterable {
    /// Not three parts between dots; five are an encrypted one (RFC 7516).
    case parts
    /// A part that is not base64url without padding, in its only spelling (RFC 7515 §2).
    case encoding
    /// A header that is no JSON object.
    case header
    /// A payload that is no JSON object.
    case claims
    /// A member that occurs twice: readers differ in which one they take (RFC 7519 §4).
    case repeatedMember
    /// A `kid` that is no string, empty, or longer than 256 bytes.
    case keyID
  }

  /// The claims of RFC 7519 §4.1 that are read.
  public enum Claim: String, Sendable, CaseIterable {
    case issuer = "iss"
    case subject = "sub"
    case audience = "aud"
    case expiry = "exp"
    case notBefore = "nbf"
    case issuedAt = "iat"
  }

  /// Longer than ``JWT/limit``.
  case tooLong
  /// Not a JWT at all.
  case malformed(Malformation)
  /// The server does not support the algorithm: `none`, a symmetric algorithm, or another hash.
  case unsupportedAlgorithm
  /// An algorithm that the rules do not name.
  case algorithmNotAllowed
  /// A critical extension (RFC 7515 §4.1.11): none is understood.
  case criticalHeader
  /// A header that brings a key along or says where one is to be had.
  case keyInHeader
  /// A `typ` that is neither of an access token nor of an ID token.
  case wrongType
  /// Another `iss`, or none.
  case wrongIssuer
  /// None of our names in `aud`.
  case wrongAudience
  /// No `exp`.
  case noExpiry
  /// Past its `exp`, by so many seconds.
  case expired(seconds: Int)
  /// Before its `nbf`, by so many seconds.
  case notYetValid(seconds: Int)
  /// Before its `iat`, by so many seconds.
  case issuedInFuture(seconds: Int)
  /// A claim of another type or size than it has.
  case invalidClaim(Claim)
  /// The claim of this name, which the rules require, is not there or has none of the values.
  case requiredClaim(String)
  /// No key of the set has its `kid`; or it has none, and no key made its signature. A fresher set may have the key.
  case unknownKey
  /// The key that it names is not for its algorithm (RFC 8725 §2.1 and §3.1).
  case keyMismatch
  /// More keys may be meant than are tried.
  case ambiguousKey
  /// The key that it names did not make its signature.
  case badSignature
}

extension JWTRefusal {
  /// One word for the audit record and as a metric's label.
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

  /// All that ``reason`` can be.
  public static let reasons: [StaticString] = [
    tooLong, malformed(.parts), unsupportedAlgorithm, algorithmNotAllowed, criticalHeader, keyInHeader, wrongType,
    wrongIssuer, wrongAudience, noExpiry, expired(seconds: 0), notYetValid(seconds: 0), issuedInFuture(seconds: 0),
    invalidClaim(.issuer), requiredClaim(""), unknownKey, keyMismatch, ambiguousKey, badSignature,
  ].map(\.reason)
}

extension JWTRefusal {
  /// How near a token is that was refused so by the claims alone: of several clients that it might be for, the nearest says
  /// what is wrong.
  var nearness: Int {
    switch self {
    case .expired, .notYetValid, .issuedInFuture, .noExpiry: 4
    case .requiredClaim: 3
    case .invalidClaim: 2
    case .algorithmNotAllowed: 1
    default: 0
    }
  }

  /// Whether the token may be forged. A token that is too old or too young was valid, or will be.
  var isGuess: Bool {
    switch self {
    case .expired, .notYetValid, .issuedInFuture: false
    default: true
    }
  }
}

extension JWTRefusal: CustomStringConvertible {
  /// One sentence for the caller. Nothing of the token is quoted in it, nor what the operator expects.
  public var description: String {
    switch self {
    case .tooLong: "The JWT is longer than \(JWT.limit) bytes."
    case .malformed(let malformation): malformation.description
    case .unsupportedAlgorithm:
      "The JWT's alg is not one of \(JWTAlgorithm.allCases.map(\.rawValue).joined(separator: ", "))."
    case .algorithmNotAllowed: "The JWT's alg is not one that this client's tokens are signed with."
    case .criticalHeader: "The JWT's header has critical extensions (crit or b64), and none is understood here."
    case .keyInHeader: "The JWT's header brings a key (jwk, jku, x5c or x5u); keys come from the key set alone."
    case .wrongType: "The JWT's typ is not that of an access token or an ID token."
    case .wrongIssuer: "The JWT's iss is no issuer that is trusted here; it is compared byte by byte."
    case .wrongAudience: "The JWT is not meant for this server: its aud does not name it."
    case .noExpiry: "The JWT has no exp; only one that ends is taken."
    case .expired(let seconds): "The JWT expired \(seconds) seconds ago."
    case .notYetValid(let seconds): "The JWT is valid in \(seconds) seconds only (nbf)."
    case .issuedInFuture(let seconds): "The JWT's iat lies \(seconds) seconds in the future: a clock is wrong."
    case .invalidClaim(let claim): "The JWT's \(claim.rawValue) is not what RFC 7519 has there."
    case .requiredClaim: "A claim of the JWT does not say what this client's tokens must say."
    case .unknownKey: "No key of the JWT's issuer is known that could have signed it."
    case .keyMismatch: "The key that the JWT names is not for its alg."
    case .ambiguousKey: "The JWT does not say which of the issuer's keys signed it: it needs a kid of one key."
    case .badSignature: "The JWT's signature is not that of the key that it names."
    }
  }
}

extension JWTRefusal.Malformation {
  fileprivate var description: String {
    switch self {
    case .parts: "A JWT has three parts between dots; an encrypted one is not taken."
    case .encoding: "A part of the JWT is not base64url without padding."
    case .header: "The JWT's header is not a JSON object."
    case .claims: "The JWT's claims are not a JSON object."
    case .repeatedMember: "The JWT has a member twice in its header or its claims."
    case .keyID: "The JWT's kid is not a string of 1 to \(JWTHeader.keyIDLimit) bytes."
    }
  }
}
