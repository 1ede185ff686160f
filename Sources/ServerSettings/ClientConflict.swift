import Access

/// A conflict: one request could match two clients.
struct ClientConflict: Equatable {
  /// The place of the conflict within the list: `[3].id`.
  let place: String
  let problem: String
  let remedy: String

  /// Returns every conflict, at the second of its clients.
  static func all(in clients: [ClientCandidate]) -> [ClientConflict] {
    var search = Search()
    for (index, client) in clients.enumerated() { search.add(client, at: index) }
    return search.clashes
  }

  /// Returns a warning for each oddity of a client that may be a slip: an origin without encryption, and an issuer that
  /// differs from another client's only by its last slash.
  static func warnings(about clients: [ClientCandidate]) -> [String] {
    var issuers: [Substring: (index: Int, text: String)] = [:]
    return clients.enumerated().flatMap { index, client in
      var warnings = client.origins.filter(\.isPlain).map { origin in
        "\(Search.name(index)) has the origin \(shown("\(origin)")): without https, anyone on the way can change its pages "
          + "and take their tokens, and browsers play no protected music there. If its pages have https, write https."
      }
      guard let issuer = client.rules?.issuer else { return warnings }
      let stem = issuer[..<(issuer.hasSuffix("/") ? issuer.index(before: issuer.endIndex) : issuer.endIndex)]
      if let other = issuers[stem], other.text != issuer {
        warnings.append(
          "\(Search.name(index)).jwt.issuer differs from that of \(Search.name(other.index)) only by the slash at its end. "
            + "The iss of a token is compared byte for byte: write both as the provider does.")
      }
      issuers[stem] = (index, issuer)
      return warnings
    }
  }

  private struct Search {
    var clashes: [ClientConflict] = []
    private var ids: [String: Int] = [:]
    private var digests: [APIKeyDigest: Int] = [:]
    private var origins: [OriginPattern: Int] = [:]
    private var names: [SubjectName: Int] = [:]
    private var issuers: [String: [(index: Int, rules: JWTRules)]] = [:]

    mutating func add(_ client: ClientCandidate, at index: Int) {
      if let id = client.id, let first = note(id, in: \.ids, at: index) {
        let problem = "\(quoted(id)) is also the id of \(Self.name(first))"
        add(".id", of: index, problem, remedy: "write a different id for each client")
      }
      for digest in client.digests {
        guard let first = note(digest, in: \.digests, at: index) else { continue }
        // The error does not show the digest, because it represents a credential.
        let problem = first == index ? "has the same key twice" : "is also a key of \(Self.name(first))"
        add(
          ".apiKey", of: index, problem,
          remedy: first == index ? "write it once" : "make a separate key for each client")
      }
      for name in client.names {
        hold("\(name)", first: note(name, in: \.names, at: index), at: index, ".clientCertificate.san")
      }
      for origin in client.knownOrigins {
        hold("\(origin)", first: note(origin, in: \.origins, at: index), at: index, ".origins")
      }
      if let rules = client.rules { add(rules, at: index) }
    }

    /// Returns the client that already has the key. If the key is new, records it for this client and returns nil.
    private mutating func note<Key: Hashable>(
      _ key: Key, in table: WritableKeyPath<Search, [Key: Int]>, at index: Int
    ) -> Int? {
      if let first = self[keyPath: table][key] { return first }
      self[keyPath: table][key] = index
      return nil
    }

    private mutating func hold(_ text: String, first: Int?, at index: Int, _ place: String) {
      guard let first else { return }
      let repetition = first == index ? " twice" : ", which \(Self.name(first)) also has"
      add(place, of: index, "has \(shown(text))\(repetition)", remedy: "write it once")
    }

    private mutating func add(_ place: String, of index: Int, _ problem: String, remedy: String) {
      clashes.append(ClientConflict(place: "[\(index)]\(place)", problem: problem, remedy: remedy))
    }

    static func name(_ index: Int) -> String { "\(Settings.Access.clients.path)[\(index)]" }

    /// For the same provider, clients must differ in audience, or in a claim that both require. A client without an
    /// audience takes any.
    private mutating func add(_ rules: JWTRules, at index: Int) {
      for other in issuers[rules.issuer, default: []] where Self.canMeanBoth(rules, other.rules) {
        add(
          ".jwt", of: index, "matches tokens that \(Self.name(other.index)) also matches",
          remedy: "write different audiences, or different values of a claim in requiredClaims")
        break
      }
      issuers[rules.issuer, default: []].append((index, rules))
    }

    private static func canMeanBoth(_ one: JWTRules, _ other: JWTRules) -> Bool {
      if let ours = one.audiences, let theirs = other.audiences, Set(ours).isDisjoint(with: theirs) { return false }
      return !one.requiredClaims.contains { claim in
        other.requiredClaims.contains { $0.name == claim.name && Set($0.values).isDisjoint(with: claim.values) }
      }
    }
  }
}
