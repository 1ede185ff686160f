import Testing

@testable import Access

/// Shared by the tests: an issuer's keys, a set with these keys, rules, and valid claims.
enum JWTSamples {
  static let now = 1_795_000_000
  static let issuer = "https://id.example.com/"
  static let rules = JWTRules(issuer: issuer, audiences: ["music", "radio"])
  static let claims =
    #"{"iss":"https://id.example.com/","aud":"music","sub":"user-1","iat":1794999990,"exp":1795000300}"#

  /// One key of each kind, with its kind as the name.
  struct Keys: Sendable {
    let ec = Result { try TestKey(.p256) }
    let rsa = Result { try TestKey(.rsa(2048)) }
    let ed = Result { try TestKey(.ed25519) }

    func set() throws -> JSONWebKeySet {
      try keySet([ec.get().jwk("ec"), rsa.get().jwk("rsa"), ed.get().jwk("ed")])
    }
  }

  static let keys = Keys()

  /// The key and its `kid` for an algorithm.
  static func key(_ algorithm: String) throws -> (key: TestKey, keyID: String) {
    switch algorithm {
    case "ES256": (try keys.ec.get(), "ec")
    case "EdDSA": (try keys.ed.get(), "ed")
    default: (try keys.rsa.get(), "rsa")
    }
  }

  /// A token that is valid except for the arguments.
  static func token(_ algorithm: String = "ES256", claims: String = claims) throws -> String {
    let (key, keyID) = try key(algorithm)
    let header = "{\"alg\":\"\(algorithm)\",\"kid\":\"\(keyID)\",\"typ\":\"JWT\"}"
    return key.token(header: header, claims: claims, algorithm)
  }
}

/// A set of these JWKs.
func keySet(_ keys: [String]) throws(JSONWebKeySetError) -> JSONWebKeySet {
  try JSONWebKeySet(Array("{\"keys\":[\(keys.joined(separator: ","))]}".utf8))
}

/// The verdict on a token, by default with the shared rules and keys.
func verdict(
  on token: String, by keys: JSONWebKeySet? = nil, _ rules: JWTRules = JWTSamples.rules, now: Int = JWTSamples.now
) throws -> Result<VerifiedJWT, JWTRefusal> {
  let keys = try keys ?? JWTSamples.keys.set()
  return Result { () throws(JWTRefusal) in
    try JWT(compact: Array(token.utf8).span).verify(by: keys, rules: rules, now: now)
  }
}

extension Result where Success == VerifiedJWT, Failure == JWTRefusal {
  /// The refusal; nil if the token was accepted.
  var refusal: JWTRefusal? {
    if case .failure(let refusal) = self { refusal } else { nil }
  }
}
