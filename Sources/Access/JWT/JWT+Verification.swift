import DeveloperToken

extension JWT {
  /// Whether algorithm and claims are as the rules have them: which of several clients with one issuer it may be. Says
  /// nothing of the signature.
  ///
  /// - Parameter now: Seconds since 1970.
  /// - Throws: `JWTRefusal`.
  public func check(_ rules: JWTRules, now: Int) throws(JWTRefusal) {
    guard rules.algorithms.contains(algorithm) else { throw .algorithmNotAllowed }
    _ = try claims.check(rules, now: now)
  }

  /// Believes it if its claims are as the rules have them and a key of the set has signed it.
  ///
  /// Claims come first: an expired token is that, whether its key is still in the set or not, and only one that would
  /// be good may cause a fresher set to be fetched.
  /// - Parameter now: Seconds since 1970.
  /// - Throws: `JWTRefusal`; `unknownKey` if a fresher set may help.
  public func verify(
    by keys: JSONWebKeySet, rules: JWTRules, now: Int
  ) throws(JWTRefusal) -> VerifiedJWT {
    guard rules.algorithms.contains(algorithm) else { throw .algorithmNotAllowed }
    let (subject, expiresAt) = try claims.check(rules, now: now)
    let candidates = try keys.candidates(for: algorithm, keyID: keyID)
    guard candidates.contains(where: { $0.key.verifies(jws.signature.span, of: jws.signingInput.span, algorithm) })
    else { throw keyID == nil ? .unknownKey : .badSignature }
    return VerifiedJWT(subject: subject, expiresAt: expiresAt, keyID: keyID)
  }
}
