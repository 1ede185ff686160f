import Access
import Bytes
import HTTPMessages

/// The valid part of an element of `access.clients`, to compare it with the others, so that one error hides no other.
struct ClientCandidate {
  /// What identifies the client, without the origins that only restrict another credential.
  var marks: [ClientConflict.Mark] = []
  var origins: [OriginPattern] = []
  /// The rules for the client's JWTs, if the parts that distinguish them from another client's are valid.
  var rules: JWTRules?
  /// The file with the key set of the client's identity provider. Nil if the server fetches that.
  var keySetFile: String?
  /// Where it fetches that key set, or the discovery document that says where.
  var provider: Origin?
  /// The file of the authorities for the provider. Nil for the system's.
  var caFile: String?
  var client: Client?
}

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
    let id = reader.read(Self.id)
    marks = id.map { [.id($0)] } ?? []
    let origins = readOrigins(&reader)
    // Invalid origins are already reported.
    let hasOrigins = origins.map { !$0.isEmpty } ?? reader.isSet(Self.origins.path)
    let credential = readCredential(&reader, hasOrigins: hasOrigins)
    let token = reader.read(Self.token)
    let catalog = reader.read(Self.catalog)
    let me = reader.read(Self.me)
    let ttl = reader.read(Self.ttl)
    if let ttl, let most = context.token?.maxTTL, ttl > most {
      reader.reject(Self.ttl.path, "is more than token.maxTTL", remedy: "write at most that, or raise token.maxTTL")
    }
    let storefronts = reader.readList(Self.storefronts)
    let share = reader.read(Self.share)
    let rates = reader.readObject(Self.rateLimit) { Rates(&$0, within: context) }
    Self.checkWorth(&reader, token: token, catalog: catalog, me: me, within: context)
    if case .certificate = credential, !context.requestsCertificates {
      reader.reject(
        Self.clientCertificate.path, "has no effect, because the server requests no client certificate",
        remedy: "name the CAs that sign client certificates in server.tls.clientCAFile")
    }
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
      marks += self.origins.map { .origin($0) }
    } else if origins?.isEmpty ?? false {
      // An empty list would remove the restriction to web origins.
      reader.reject(Self.origins.path, "is empty", remedy: "name some, or leave it out for callers from any origin")
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
      reader.reject("", "is a client without any permission", remedy: "turn token, catalog or me on, or remove it")
    }
    if !context.isCatalogEnabled, catalog || me, !token {
      reader.reject(
        "", "is a client without any permission, because catalog.enabled is false",
        remedy: "turn catalog.enabled or the client's token on")
    }
    if me, context.catalog?.me == false {
      reader.reject(
        Self.me.path, "has no effect while catalog.me is false", remedy: "turn catalog.me on, or leave this out")
    }
  }
}

extension SettingType where Value == String {
  /// The name of a client, which appears in logs and as a label of metrics.
  static let clientID = string("write 1 to 64 letters, digits, dots, dashes and underscores, such as \"android\"") {
    (text, remedy) throws(InvalidValue) in
    guard APIKeyForm(of: text) == .other, !holdsAPIKey(text) else {
      throw InvalidValue(
        "is or contains an API key",
        remedy: "write a name, such as \"android\"; others may know this key now: make a new one with new-api-key")
    }
    guard (1...64).contains(text.utf8.count), text.utf8.allSatisfy(\.isOfName), text != "-" else {
      throw InvalidValue("\(quoted(text)) is not a valid client name", remedy: remedy)
    }
    guard text != Client.anonymousID, text != "other" else {
      throw InvalidValue("\(quoted(text)) has another meaning in logs and metrics", remedy: "write another name")
    }
    return text
  }
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

/// The conflicts of clients: one request could match two of them.
enum ClientConflict {
  /// What identifies a client.
  enum Mark: Hashable {
    case id(String)
    case digest(APIKeyDigest)
    case name(SubjectName)
    case origin(OriginPattern)
  }

  private static func name(_ index: Int) -> String { "\(Settings.Access.clients.path)[\(index)]" }

  /// Rejects every conflict. Of one provider, clients must differ in audience, or in a claim that both require.
  static func rejectAll(in clients: [ClientCandidate], _ reader: inout SettingsReader) {
    var owners: [Mark: Int] = [:]
    var issuers: [String: [(index: Int, rules: JWTRules)]] = [:]
    for (index, client) in clients.enumerated() {
      for mark in client.marks {
        if let first = owners[mark] {
          reject(mark, first, index, &reader)
        } else {
          owners[mark] = index
        }
      }
      guard let rules = client.rules else { continue }
      if let other = issuers[rules.issuer]?.first(where: { canMeanBoth(rules, $0.rules) }) {
        reader.reject(
          "\(name(index)).jwt", "matches tokens that \(name(other.index)) also matches",
          remedy: "write different audiences, or different values of a claim in requiredClaims")
      }
      issuers[rules.issuer, default: []].append((index, rules))
    }
  }

  /// Rejects a mark at the second client, which may be the first one again.
  private static func reject(_ mark: Mark, _ first: Int, _ second: Int, _ reader: inout SettingsReader) {
    let (isTwice, owner, place) = (first == second, name(first), name(second))
    let repetition = isTwice ? " twice" : ", which \(owner) also has"
    switch mark {
    case .id(let id):
      reader.reject(
        "\(place).id", "\(quoted(id)) is also the id of \(owner)", remedy: "write a different id for each client")
    case .digest:
      // The error does not show the digest, because it represents a credential.
      reader.reject(
        "\(place).apiKey", isTwice ? "has the same key twice" : "is also a key of \(owner)",
        remedy: isTwice ? "write it once" : "make a separate key for each client")
    case .name(let name):
      reader.reject(
        "\(place).clientCertificate.san", "has \(shown("\(name)"))\(repetition)", remedy: "write it once")
    case .origin(let origin):
      reader.reject("\(place).origins", "has \(shown("\(origin)"))\(repetition)", remedy: "write it once")
    }
  }

  /// A client without an audience takes any.
  private static func canMeanBoth(_ one: JWTRules, _ other: JWTRules) -> Bool {
    if let ours = one.audiences, let theirs = other.audiences, Set(ours).isDisjoint(with: theirs) { return false }
    return !one.requiredClaims.contains { claim in
      other.requiredClaims.contains { $0.name == claim.name && Set($0.values).isDisjoint(with: claim.values) }
    }
  }

  /// Returns a warning for each oddity of a client that may be a slip.
  static func warnings(about clients: [ClientCandidate]) -> [String] {
    var issuers: [Substring: (index: Int, text: String)] = [:]
    return clients.enumerated().flatMap { index, client in
      var warnings = client.origins.filter(\.isPlain).map { origin in
        "\(name(index)) has the origin \(shown("\(origin)")): without https, anyone on the way can change its pages and "
          + "take their tokens, and browsers play no protected music there. If its pages have https, write https."
      }
      warnings += client.client?.vainLimits(at: name(index)) ?? []
      guard let issuer = client.rules?.issuer else { return warnings }
      let stem = issuer.hasSuffix("/") ? issuer.dropLast() : issuer[...]
      if let other = issuers[stem], other.text != issuer {
        warnings.append(
          "\(name(index)).jwt.issuer differs from that of \(name(other.index)) only by the slash at its end. The iss of "
            + "a token is compared byte for byte: write both as the provider does.")
      }
      issuers[stem] = (index, issuer)
      return warnings
    }
  }
}
