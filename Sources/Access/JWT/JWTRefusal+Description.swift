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
