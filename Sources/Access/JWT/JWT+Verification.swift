import DeveloperToken

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
