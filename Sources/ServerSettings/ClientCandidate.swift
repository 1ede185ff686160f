import Access
import Bytes
import HTTPMessages

/// The readable part of one element of `access.clients`, even if the rest is invalid. It suffices to compare the
/// element with other clients and to open its files, so that one error does not hide another.
struct ClientCandidate {
  var id: String?
  var digests: [APIKeyDigest] = []
  var names: [SubjectName] = []
  /// The origins that identify the client. Origins that only restrict another credential are not included.
  var knownOrigins: [OriginPattern] = []
  /// All valid origins of the client.
  var origins: [OriginPattern] = []
  /// The rules for the client's JWTs, if the parts that distinguish them from another client's are valid.
  var rules: JWTRules?
  /// The file with the key set of the client's identity provider.
  var keySetFile: String?
  /// Whether the server fetches the key set of the client's identity provider.
  var fetchesKeySet = false
  /// Where it fetches that key set, or the discovery document that says where.
  var provider: Origin?
  /// The file of the authorities for the provider. Nil for the system's.
  var caFile: String?
  /// The client. Nil if there is an error.
  var client: Client?
}

/// The members of a client.
extension ClientCandidate {
  static let id = Setting("id", .clientID, example: #""android""#, "Its name, in logs and metrics. Required.")
  static let origins = Setting(
    "origins", .elements(of: .originPattern, atMost: 1000), example: #"["https://app.example.com"]"#,
    "Its web origins, exact or with a star as the first label of the host. They identify the client, or restrict it "
      + "if it has a credential.")
  static let token = Setting("token", .bool, default: true, "Whether it gets tokens.")
  static let catalog = Setting("catalog", .bool, default: false, "Whether it gets Apple's catalog.")
  static let me = Setting("me", .bool, default: false, "Whether it may use `/v1/me/…`; needs `catalog.me`.")
  static let ttl = Setting(
    "ttl", .duration(seconds: 60...Settings.Token.cap), example: #""12h""#,
    "The lifetime of its tokens, and the longest that it may request. Default: `token.ttl` and `token.maxTTL`.")
  static let storefronts = Setting(
    "storefronts", .elements(of: .storefront, atMost: 300, ifEmpty: "name some, or leave it out for all"),
    example: #"["us", "gb"]"#, "The storefronts whose catalog it gets. Default: all.")
  static let share = Setting(
    "share", .share, example: "0.5",
    "The part of the [concurrent requests to Apple](catalog.md#shares) that it may have. Default: seven eighths.")
  static let rateLimit = Setting(
    "rateLimit", Rates.type, example: "{ perSecond: 5, burst: 20 }",
    "How often each of its callers may send requests; see [rates](#rates). Default: no limit.")

  static let known: [any SettingRow] =
    [id, apiKey, jwt, clientCertificate, origins, token, catalog, me, ttl, storefronts, share, rateLimit]

  init(_ reader: inout SettingsReader, within context: Settings.Access.ValidationContext) {
    reader.require(Self.id.path, remedy: "write a name such as \"android\"")
    id = reader.read(Self.id)
    let origins = readOrigins(&reader)
    // Invalid origins are already reported.
    let hasOrigins = origins.map { !$0.isEmpty } ?? reader.isSet(Self.origins.path)
    let credential = readCredential(&reader, hasOrigins: hasOrigins)
    let token = reader.read(Self.token)
    let catalog = reader.read(Self.catalog)
    let me = reader.read(Self.me)
    let ttl = reader.read(Self.ttl)
    if let ttl, let most = context.token?.maxTTL, ttl > most {
      reader.reject(
        Self.ttl.path, problem: "is more than token.maxTTL", remedy: "write at most that, or raise token.maxTTL")
    }
    let storefronts = reader.readList(Self.storefronts)
    let share = reader.read(Self.share)
    let rates = reader.readObject(Self.rateLimit) { Rates(&$0, within: context) }
    Self.checkWorth(&reader, token: token, catalog: catalog, me: me, within: context)
    Self.checkCertificate(&reader, credential, within: context)
    guard reader.errors.isEmpty, let id, let credential, let token, let catalog, let me else { return }
    client = Client(
      id: id, credential: credential, origins: .only(origins?.whole() ?? []), token: token, catalog: catalog, me: me,
      ttl: ttl.map { Int($0.components.seconds) }, storefronts: storefronts.map(Set.init), rate: rates?.each,
      totalRate: rates?.total, isStrict: rates?.isStrict ?? false, countsAddresses: rates?.unit == .address,
      share: share)
  }

  private mutating func readOrigins(_ reader: inout SettingsReader) -> [OriginPattern?]? {
    let origins = reader.readElements(Self.origins)
    self.origins = origins?.compactMap { $0 } ?? []
    if !Self.credentials.contains(where: reader.isSet) {
      knownOrigins = self.origins
    } else if origins?.isEmpty ?? false {
      // An empty list would remove the restriction to web origins.
      reader.reject(
        Self.origins.path, problem: "is empty", remedy: "name some, or leave it out for callers from any origin")
    }
    return origins
  }

  /// Reports permissions without effect, and clients without any permission.
  private static func checkWorth(
    _ reader: inout SettingsReader, token: Bool?, catalog: Bool?, me: Bool?,
    within context: Settings.Access.ValidationContext
  ) {
    guard let token, let catalog, let me else { return }
    if !token, !catalog, !me {
      reader.reject(
        "", problem: "is a client without any permission", remedy: "turn token, catalog or me on, or remove it")
    }
    if !context.isCatalogEnabled, catalog || me, !token {
      reader.reject(
        "", problem: "is a client without any permission, because catalog.enabled is false",
        remedy: "turn catalog.enabled or the client's token on")
    }
    if me, context.catalog?.me == false {
      reader.reject(
        Self.me.path, problem: "has no effect while catalog.me is false",
        remedy: "turn catalog.me on, or leave this out")
    }
  }

  private static func checkCertificate(
    _ reader: inout SettingsReader, _ credential: Client.Credential?, within context: Settings.Access.ValidationContext
  ) {
    guard case .certificate = credential, !context.requestsCertificates else { return }
    reader.reject(
      clientCertificate.path, problem: "has no effect, because the server requests no client certificate",
      remedy: "name the CAs that sign client certificates in server.tls.clientCAFile")
  }
}

extension SettingType where Value == String {
  /// The name of a client, which appears in logs and as a label of metrics.
  static let clientID: SettingType = {
    let remedy = "write 1 to 64 letters, digits, dots, dashes and underscores, such as \"android\""
    return string(remedy) { (text) throws(InvalidValue) in
      guard APIKeyForm(of: text) == .other, !holdsAPIKey(text) else {
        throw InvalidValue(
          problem: "is or contains an API key",
          remedy: "write a name, such as \"android\"; others may know this key now: make a new one with new-api-key")
      }
      guard (1...64).contains(text.utf8.count), text.utf8.allSatisfy(\.isOfName), text != "-" else {
        throw InvalidValue(problem: "\(quoted(text)) is not a valid client name", remedy: remedy)
      }
      guard text != Client.anonymousID, text != "other" else {
        throw InvalidValue(
          problem: "\(quoted(text)) has another meaning in logs and metrics", remedy: "write another name")
      }
      return text
    }
  }()
}

extension Client {
  /// Returns a warning for each limit of a permission that the callers do not have. The client is written at `path`.
  func vainLimits(at path: String) -> [String] {
    let limits = [
      ("ttl", "token", ttl != nil && !token), ("storefronts", "catalog", storefronts != nil && !catalog),
      ("share", "catalog", share != nil && !catalog && !me),
    ]
    return limits.filter(\.2).map { limit, permission, _ in
      "\(path).\(limit) has no effect without \(permission): true beside it. Write that, or remove it."
    }
  }
}

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

  /// Returns a warning for each oddity of a client that may be a slip: an origin without encryption, a limit of a
  /// permission that it does not have, and an issuer that differs from another client's only by its last slash.
  static func warnings(about clients: [ClientCandidate]) -> [String] {
    var issuers: [Substring: (index: Int, text: String)] = [:]
    return clients.enumerated().flatMap { index, client in
      var warnings = client.origins.filter(\.isPlain).map { origin in
        "\(Search.name(index)) has the origin \(shown("\(origin)")): without https, anyone on the way can change its pages "
          + "and take their tokens, and browsers play no protected music there. If its pages have https, write https."
      }
      if let client = client.client { warnings += client.vainLimits(at: Search.name(index)) }
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

  /// What identifies a client. Two clients with the same would match the same request.
  private enum Mark: Hashable {
    case id(String)
    case digest(APIKeyDigest)
    case name(SubjectName)
    case origin(OriginPattern)
  }

  private struct Search {
    var clashes: [ClientConflict] = []
    private var owners: [Mark: Int] = [:]
    private var issuers: [String: [(index: Int, rules: JWTRules)]] = [:]

    mutating func add(_ client: ClientCandidate, at index: Int) {
      let marks =
        [client.id.map(Mark.id)].compactMap { $0 } + client.digests.map(Mark.digest) + client.names.map(Mark.name)
        + client.knownOrigins.map(Mark.origin)
      for mark in marks {
        guard let first = owners[mark] else {
          owners[mark] = index
          continue
        }
        let (isTwice, owner) = (first == index, Self.name(first))
        switch mark {
        case .id(let id):
          add(
            ".id", of: index, "\(quoted(id)) is also the id of \(owner)", remedy: "write a different id for each client"
          )
        case .digest:
          // The error does not show the digest, because it represents a credential.
          add(
            ".apiKey", of: index, isTwice ? "has the same key twice" : "is also a key of \(owner)",
            remedy: isTwice ? "write it once" : "make a separate key for each client")
        case .name(let name): hold("\(name)", isTwice, owner, at: index, ".clientCertificate.san")
        case .origin(let origin): hold("\(origin)", isTwice, owner, at: index, ".origins")
        }
      }
      if let rules = client.rules { add(rules, at: index) }
    }

    private mutating func hold(_ text: String, _ isTwice: Bool, _ owner: String, at index: Int, _ place: String) {
      let repetition = isTwice ? " twice" : ", which \(owner) also has"
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
