import Access

/// Parses the input as a JWK Set, and verifies a JWT of each algorithm with the result. Then
/// parses it as a discovery document.
func fuzzKeySet(_ bytes: [UInt8]) {
  do throws(JSONWebKeySetError) {
    let keys = try JSONWebKeySet(bytes)
    precondition((1...JSONWebKeySet.maximumKeys).contains(keys.count))
    precondition(keys.findings.allSatisfy(isHarmless))
    for token in tokens { precondition(!verifies(token, keys), "nobody has signed it") }
  } catch {
    precondition(isHarmless(error.description))
  }
  do throws(ProviderMetadataError) {
    let metadata = try ProviderMetadata(bytes, issuer: "https://id.example.com")
    precondition(metadata.keySetURL.count < bytes.count)
  } catch {
    precondition(isHarmless(error.description))
  }
}

private func isHarmless(_ sentence: String) -> Bool {
  !sentence.utf8.contains { $0 < 0x20 || $0 == 0x7F }
}

/// Tokens of each algorithm, with and without `kid`. Their signatures are as long as those of the most common keys.
private let tokens: [[UInt8]] = [
  // {"alg":"ES256"}, {"alg":"EdDSA"}, {"alg":"RS256"}, {"alg":"PS256"}, {"alg":"ES256","kid":"1"}
  ("eyJhbGciOiJFUzI1NiJ9", 86), ("eyJhbGciOiJFZERTQSJ9", 86), ("eyJhbGciOiJSUzI1NiJ9", 342),
  ("eyJhbGciOiJQUzI1NiJ9", 342), ("eyJhbGciOiJFUzI1NiIsImtpZCI6IjEifQ", 86),
].map { header, length in
  // {"iss":"a","aud":"b","exp":1795000000}
  let claims = "eyJpc3MiOiJhIiwiYXVkIjoiYiIsImV4cCI6MTc5NTAwMDAwMH0"
  return Array("\(header).\(claims).\(String(repeating: "A", count: length))".utf8)
}

private func verifies(_ token: [UInt8], _ keys: JSONWebKeySet) -> Bool {
  let rules = JWTRules(issuer: "a", audiences: ["b"])
  do throws(JWTRefusal) {
    _ = try JWT(compact: token.span).verify(by: keys, rules: rules, now: 1_795_000_000)
    return true
  } catch {
    let fitting: Set<JWTRefusal> = [.unknownKey, .keyMismatch, .ambiguousKey, .badSignature]
    precondition(fitting.contains(error), "\(error)")
    return false
  }
}
