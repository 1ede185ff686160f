package import Access

extension Settings {
  package struct Access: Sendable, Equatable {
    package var clients: [Client]
    /// The permissions of callers without credentials. Nil if they have none.
    package var anonymous: Client?
    /// Whether `--unsafe-allow-anonymous` was given.
    var servesEverybody = false
  }
}

extension Settings.Access {
  /// At most 1000, because each client costs a few hundred bytes, and labels in the metrics.
  static let clients = Setting(
    "access.clients",
    .elements(
      of: .object(of: ClientCandidate.known, remedy: "write an object"), atMost: 1000,
      remedy: "write a list of objects such as [{ id: \"android\", … }]"), default: SettingElements(),
    example: #"[{ id: "web", origins: ["https://app.example.com"] }]"#, "[Which client may have what](access.md).")
  static let token = Setting(
    "access.anonymous.token", .bool, default: false,
    "Whether callers without credentials get tokens; `true` if the whole object is empty. At least one of "
      + "`token`, `catalog` and `me` has to be on.")
  static let catalog = Setting("access.anonymous.catalog", .bool, default: false, "Whether they get Apple's catalog.")
  static let me = Setting(
    "access.anonymous.me", .bool, default: false, "Whether they may use `/v1/me/…` if `catalog.me` is on.")
  static let origins = Setting<[OriginPattern]>(
    "access.anonymous.origins",
    .list(
      of: .originPattern, remedy: "write a list such as [\"https://app.example.com\"]",
      ifEmpty: "name some, or leave it out for all"), example: #"["https://app.example.com"]"#,
    "The web origins that may have tokens: with a list, they get tokens for a listed origin only. An empty list "
      + "is an error.")
  static let ttl = Setting(
    "access.anonymous.ttl", .duration(seconds: 60...Settings.Token.cap), example: #""1h""#,
    "The lifetime of their tokens, and the longest that they may request. Default: `token.ttl` and `token.maxTTL`.")
  static let storefronts = Setting<[String]>(
    "access.anonymous.storefronts",
    .list(
      of: .storefront, remedy: "write a list such as [\"us\", \"gb\"]", ifEmpty: "name some, or leave it out for all"),
    example: #"["us", "gb"]"#, "The storefronts whose catalog they get. Default: all.")
  static let rateLimit = Setting(
    "access.anonymous.rateLimit", Rates.type,
    example: "{ perSecond: 5, burst: 20, total: { perSecond: 100, burst: 500 } }",
    "`{ perSecond, burst, total: { perSecond, burst } }` for each address and for all together. Default: no limit.")
  static let share = Setting(
    "access.anonymous.share", .share, example: "0.25",
    "The part of the concurrent requests to Apple that they may have.")

  static let known: [any SettingRow] = [clients, token, catalog, me, origins, ttl, storefronts, rateLimit, share]

  struct ValidationContext {
    let token: Settings.Token?
    /// The catalog's settings. Nil if it is disabled, or if they are invalid.
    let catalog: Settings.Catalog?
    let isCatalogEnabled: Bool
    let requestsCertificates: Bool
    let allowsAnonymous: Bool
    let isShared: Bool
  }

  static func readClients(_ reader: inout SettingsReader, within context: ValidationContext) -> [ClientCandidate]? {
    let candidates = reader.readObjects(clients) { ClientCandidate(&$0, within: context) }?.map { $0 ?? .init() }
    ClientConflict.rejectAll(in: candidates ?? [], &reader)
    return candidates
  }

  /// The problem of settings that give access to no caller.
  static let missing = "no client has access"

  init?(_ reader: inout SettingsReader, clients candidates: [ClientCandidate]?, within context: ValidationContext) {
    let anonymous = Self.readAnonymous(&reader, within: context)
    if !context.allowsAnonymous, !reader.isSet(Self.anonymousPath), candidates?.isEmpty ?? false,
      // A list that cannot be read may have clients.
      !reader.isInvalid(Self.clients.path)
    {
      reader.missing(
        "access", Self.missing,
        remedy: "write access: { clients: [{ id: \"web\", origins: [\"https://app.example.com\"] }] }, with apiKey "
          + "instead of origins for callers that are not web pages (new-api-key creates a key), "
          + "ACCESS_ANONYMOUS='{ token: true }' for callers without a credential, or start with "
          + "--unsafe-allow-anonymous to serve all callers")
      return nil
    }
    guard let clients = candidates?.map(\.client).whole() else { return nil }
    let everything = Client(id: Client.anonymousID, credential: .anonymous, origins: .any, catalog: true, me: true)
    self.init(
      clients: clients, anonymous: context.allowsAnonymous ? everything : anonymous,
      servesEverybody: context.allowsAnonymous)
  }

  /// The `access.anonymous` policy: the permissions of callers without credentials.
  ///
  /// Nothing grants access by accident. The policy exists only if its object is written: in the file, as
  /// `ACCESS_ANONYMOUS`, or with a flag. The variable of a single setting changes that policy but never creates it. So
  /// `ACCESS_ANONYMOUS_CATALOG` alone, with any value, must not give a caller access.
  static let anonymousPath = "access.anonymous"

  static func warningsAboutAnonymous(_ reader: SettingsReader) -> [String] {
    guard reader.isEmptyObject(anonymousPath) == true, !reader.isSet(token.path) else { return [] }
    return [
      "access.anonymous is an empty object: every caller who reaches this server gets developer tokens without a "
        + "credential. Write access.anonymous: { token: true } if this is what you want."
    ]
  }

  static func readAnonymous(_ reader: inout SettingsReader, within context: ValidationContext) -> Client? {
    guard let isEmpty = reader.isEmptyObject(anonymousPath) else {
      for setting in known where setting.path.hasPrefix(anonymousPath + ".") && reader.isSet(setting.path) {
        reader.reject(
          setting.path, "changes the anonymous policy, which does not exist",
          remedy: "write access.anonymous in the file, or a whole object such as ACCESS_ANONYMOUS='{ catalog: true }'")
      }
      return nil
    }
    let origins = reader.read(origins)
    let ttl = reader.read(ttl)
    if let ttl, let token = context.token, ttl > token.maxTTL {
      reader.reject(Self.ttl.path, "is more than token.maxTTL", remedy: "write as much at most")
    }
    let storefronts = reader.read(storefronts)
    // An empty object means tokens. Any other object must set `token` to grant them.
    let token = reader.isSet(token.path) ? reader.read(token) : isEmpty
    let catalog = reader.read(catalog)
    let me = reader.read(me)
    let share = reader.read(share)
    let rates = reader.readObject(rateLimit) { Rates(&$0, within: context) }
    guard let token, let catalog, let me else { return nil }
    refuseWorthless(&reader, token: token, catalog: catalog, me: me, within: context)
    return Client(
      id: Client.anonymousID, credential: .anonymous, origins: .only(origins ?? []), token: token, catalog: catalog,
      me: me, ttl: ttl.map { Int($0.components.seconds) }, storefronts: storefronts.map(Set.init), rate: rates?.each,
      totalRate: rates?.total, isStrict: rates?.isStrict ?? false, share: share)
  }

  /// Refuses a policy that grants nothing, because the operator must have intended something else.
  private static func refuseWorthless(
    _ reader: inout SettingsReader, token: Bool, catalog: Bool, me: Bool, within context: ValidationContext
  ) {
    let isOn = context.isCatalogEnabled
    guard !token, !(catalog && isOn), !(me && isOn && context.catalog?.me != false) else { return }
    let cause = !catalog && !me ? "" : ", because \(isOn ? "catalog.me" : "catalog.enabled") is false"
    reader.reject(
      anonymousPath, "grants nothing\(cause)", remedy: "write token: true, catalog: true or me: true, or remove it")
  }
}

/// The `rateLimit` of a client or of anonymous callers: the rate at which callers may send requests.
struct Rates: Sendable, Equatable {
  /// The caller that `perSecond` and `burst` apply to.
  enum Unit: String, Sendable, CaseIterable {
    case address
    /// Each `sub` of a JWT, or the address of a caller without one.
    case sub
  }

  var each: Rate?
  var total: Rate?
  var unit: Unit
  /// Whether the store of the replicas decides about each request.
  var isStrict = false
}

extension Rates {
  static let perSecond = Setting(
    "perSecond", .number(Rate.perSecondRange, remedy: "write requests per second, from 0.01 to 1000000"), example: "5",
    "Requests per second.")
  static let burst = Setting(
    "burst", .integer(Rate.burstRange), example: "20",
    "Requests at once, after a pause. Default: `perSecond`, rounded up.")
  static let total = Setting(
    "total", .object(of: [perSecond, burst], remedy: "write { perSecond: 50, burst: 200 }"),
    example: "{ perSecond: 200, burst: 1000 }", "The same for all callers of the client together.")
  static let unit = Setting<Unit>(
    "per", .word, default: .sub,
    "What counts as one caller of a client with `jwt`: each user, by `sub`, or each address.")
  static let strict = Setting(
    "strict", .bool, default: false,
    "Whether the server asks the [store of the replicas](scaling.md#rates) before each request, up to `shared.timeout`, so that "
      + "they never grant more together. Needs `shared.url`.")

  static let type = SettingType.object(
    of: [perSecond, burst, unit, total, strict], remedy: "write { perSecond: 5, burst: 20 }")

  init?(_ reader: inout SettingsReader, within context: Settings.Access.ValidationContext) {
    let isEach = reader.isSet(Self.perSecond.path) || reader.isSet(Self.burst.path)
    let each = isEach || !reader.isSet(Self.total.path) ? Self.rate(&reader) : nil
    let total = reader.readObject(Self.total) { Self.rate(&$0) }
    let isStrict = reader.read(Self.strict)
    if isStrict == true, !context.isShared {
      reader.reject(
        Self.strict.path, "has no effect without shared.url, because one process alone is always strict",
        remedy: "leave it out, or name the store of the replicas in shared.url")
    }
    guard let unit = reader.read(Self.unit), let isStrict else { return nil }
    self.init(each: each, total: total, unit: unit, isStrict: isStrict)
  }

  private static func rate(_ reader: inout SettingsReader) -> Rate? {
    reader.require(perSecond.path, remedy: "write how many requests a second, such as 5")
    let perSecond = reader.read(perSecond)
    let burst = reader.read(burst)
    return perSecond.map { Rate(perSecond: $0, burst: burst ?? max(1, Int($0.rounded(.up)))) }
  }
}

extension SettingType where Value == OriginPattern {
  static let originPattern = originText(
    "write an origin such as \"https://app.example.com\" or \"https://*.preview.example.com\""
  ) { try OriginPattern($0) }
}

extension SettingType where Value == String {
  /// An ISO 3166-1 alpha-2 country code, which Apple uses as the name of a storefront.
  static let storefront = text("a storefront", remedy: "write a storefront of two letters such as \"us\"") { text in
    text.utf8.count == 2 && text.allSatisfy { $0.isASCII && $0.isLetter } ? text.lowercased() : nil
  }
}

extension SettingType where Value == Double {
  static let share = number(0.01...1, remedy: "write a number from 0.01 to 1, such as 0.25 for a quarter")
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
