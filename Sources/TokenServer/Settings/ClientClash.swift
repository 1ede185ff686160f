import Access
import DeveloperToken

/// Two clients that one request could mean.
struct ClientClash: Equatable {
  /// Where it shows, within the list: `[3].id`.
  let place: String
  let problem: String
  let remedy: String

  /// Every such pair, at the second of its clients. Nils are clients that could not be read.
  static func all(in clients: [Client?]) -> [ClientClash] {
    var search = Search()
    for (index, client) in clients.enumerated() {
      if let client { search.add(client, at: index) }
    }
    return search.clashes
  }

  private struct Search {
    var clashes: [ClientClash] = []
    private var ids: [String: Int] = [:]
    private var digests: [APIKeyDigest: Int] = [:]
    private var origins: [OriginPattern: Int] = [:]
    private var names: [SubjectName: Int] = [:]
    private var issuers: [String: [(index: Int, rules: JWTRules)]] = [:]

    mutating func add(_ client: Client, at index: Int) {
      note(client.id, in: \.ids, at: index, ".id", "is the id of", "give each client its own")
      switch client.credential {
      case .apiKeys(let list):
        for digest in list { note(digest, in: \.digests, at: index, ".apiKey", "is a key of", "make a key for each") }
      case .certificate(let list):
        for name in list {
          note(name, in: \.names, at: index, ".clientCertificate.san", "is a name of", "name it once")
        }
      case .origin:
        guard case .only(let list) = client.origins else { return }
        for origin in list {
          note(origin, in: \.origins, at: index, ".origins", "holds an origin that is known as", "name it once")
        }
      case .jwt(let rules, _): add(rules, at: index)
      case .anonymous: break
      }
    }

    private mutating func note<Key: Hashable>(
      _ key: Key, in table: WritableKeyPath<Search, [Key: Int]>, at index: Int, _ place: String, _ verb: String,
      _ remedy: String
    ) {
      guard let first = self[keyPath: table][key] else {
        self[keyPath: table][key] = index
        return
      }
      let whose = first == index ? "the same client, twice" : "access.clients[\(first)], too"
      clashes.append(ClientClash(place: "[\(index)]\(place)", problem: "\(verb) \(whose)", remedy: remedy))
    }

    /// Tokens of one provider tell clients apart by audience or by a claim that both require.
    private mutating func add(_ rules: JWTRules, at index: Int) {
      for other in issuers[rules.issuer, default: []] where Self.canMeanBoth(rules, other.rules) {
        clashes.append(
          ClientClash(
            place: "[\(index)].jwt", problem: "takes tokens that access.clients[\(other.index)] takes, too",
            remedy: "let them differ in audience, or in the values of a claim in requiredClaims"))
        break
      }
      issuers[rules.issuer, default: []].append((index, rules))
    }

    private static func canMeanBoth(_ one: JWTRules, _ other: JWTRules) -> Bool {
      guard !Set(one.audiences).isDisjoint(with: other.audiences) else { return false }
      return !one.requiredClaims.contains { claim in
        other.requiredClaims.contains { $0.name == claim.name && Set($0.values).isDisjoint(with: claim.values) }
      }
    }
  }
}
