import Access
import DeveloperToken

/// How a client of `access.clients` is known.
extension Settings.Access {
  /// What a client may be known by; by its origins, if it has none of these.
  static let credentials = ["apiKey", "jwt", "clientCertificate"]

  /// Reads what a client is known by; nil if that is faulty.
  static func readCredential(
    _ object: inout ObjectReader, noting candidate: inout ClientCandidate, hasOrigins: Bool
  ) -> Client.Credential? {
    let present = credentials.filter(object.has)
    let keys = object.objects("apiKey", remedy: "write { sha256: \"…\" }", atMost: 100) { key in
      if !key.has("sha256") {
        key.fault("sha256", problem: "is not set", remedy: "write what new-api-key prints as SHA-256")
      }
      let digests = key.readElements("sha256", of: .apiKeyDigest, atMost: 100)
      candidate.digests += digests?.compactMap { $0 } ?? []
      return digests?.whole()
    }
    let jwt = object.object("jwt", remedy: "write { issuer: …, audience: …, jwksURL: … }") {
      readJWT(&$0, noting: &candidate)
    }
    let names = object.object("clientCertificate", remedy: "write { san: \"spiffe://example.com/partner\" }") { names in
      if !names.has("san") {
        names.fault("san", problem: "is not set", remedy: "write a subject alternative name of its certificate")
      }
      let read = names.readElements("san", of: .subjectName, atMost: 100)
      candidate.names = read?.compactMap { $0 } ?? []
      return read?.whole()
    }
    guard present.count < 2 else {
      object.fault(
        present[1], problem: "is a second kind of credential beside \(present[0])",
        remedy: "write a client for each, with an id of its own")
      return nil
    }
    if let keys {
      let digests = keys.flatMap { $0 }
      if digests.isEmpty { object.fault("apiKey", problem: "has no key", remedy: "write { sha256: \"…\" }") }
      return .apiKeys(digests)
    }
    if let jwt { return .jwt(jwt.rules, jwt.source) }
    if let names {
      if names.isEmpty { object.fault("clientCertificate.san", problem: "is empty", remedy: "name one") }
      return .certificate(names)
    }
    guard present.isEmpty else { return nil }
    if !hasOrigins {
      object.fault(
        "", problem: "is a client that nothing is known by",
        remedy: "write apiKey, jwt, clientCertificate, or origins for web pages")
      return nil
    }
    return .origin
  }

  private static func readJWT(
    _ object: inout ObjectReader, noting candidate: inout ClientCandidate
  ) -> (rules: JWTRules, source: KeySetSource)? {
    let text = "a text of at most 1024 characters"
    for name in ["issuer", "audience"] where !object.has(name) {
      object.fault(name, problem: "is not set", remedy: "write the token's \(name == "issuer" ? "iss" : "aud")")
    }
    let issuer = object.read("issuer", .label(atMost: 1024, "write the token's iss, \(text)"))
    let audiences = object.readList("audience", of: .label(atMost: 1024, "write the token's aud, \(text)"), atMost: 100)
    if audiences?.isEmpty ?? false { object.fault("audience", problem: "is empty", remedy: "name one") }
    let algorithms = object.readList("algorithms", of: SettingType<JWTAlgorithm>.word, atMost: 10)
    if algorithms?.isEmpty ?? false { object.fault("algorithms", problem: "is empty", remedy: "leave it out for all") }
    let claims = object.object("requiredClaims", remedy: "write { scope: \"music\" }") { claims in
      claims.takeNames().compactMap { name in
        let values = claims.readList(name, of: .label(atMost: 1024, "write \(text)"), atMost: 100)
        if values?.isEmpty ?? false {
          claims.fault(name, problem: "is empty", remedy: "write \(text), or leave it out")
        }
        return values.map { JWTRules.RequiredClaim(name: name, values: $0) }
      }
    }
    let source = readKeySource(&object, noting: &candidate)
    guard let issuer, let audiences, claims != nil || !object.has("requiredClaims") else { return nil }
    let rules = JWTRules(
      issuer: issuer, audiences: audiences, requiredClaims: claims ?? [],
      algorithms: algorithms.map(Set.init) ?? Set(JWTAlgorithm.allCases))
    candidate.rules = rules
    return source.map { (rules, $0) }
  }

  private static func readKeySource(
    _ object: inout ObjectReader, noting candidate: inout ClientCandidate
  ) -> KeySetSource? {
    let file = object.read("jwksFile", .path)
    let url = object.read("jwksURL", .secureURL)
    let caFile = object.read("caFile", .path)
    (candidate.keySetFile, candidate.caFile) = (file, caFile)
    candidate.fetchesKeySet = object.has("jwksURL")
    switch (object.has("jwksFile"), object.has("jwksURL")) {
    case (true, true):
      object.fault("jwksURL", problem: "is set, and so is jwksFile", remedy: "keep one of the two")
      return nil
    case (false, false):
      object.fault(
        "jwksURL", problem: "is not set",
        remedy: "write where the provider publishes its keys, an https URL, or jwksFile for a copy of them")
      return nil
    case (true, false):
      if object.has("caFile") {
        object.fault("caFile", problem: "has no effect beside jwksFile", remedy: "leave it out")
      }
      return file.map(KeySetSource.file)
    case (false, true):
      return url.map { .url($0, caFile: caFile) }
    }
  }
}
