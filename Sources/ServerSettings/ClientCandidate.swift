import Access

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
  /// The file of the authorities for the provider. Nil for the system's.
  var caFile: String?
  /// The client. Nil if there is an error.
  var client: Client?
}

/// The members of a client.
extension ClientCandidate {
  static let id = Setting(
    "id", .clientID, example: #""android""#,
    "Its name, in logs and metrics. Required.")
  static let origins = Setting(
    "origins", .elements(of: .originPattern, atMost: 1000), example: #"["https://app.example.com"]"#,
    "Its web origins, exact or with a star as the first label of the host. They identify the client, or restrict it "
      + "if it has a credential.")
  static let token = Setting(
    "token", .bool, default: true,
    "Whether it gets tokens.")
  static let catalog = Setting(
    "catalog", .bool, default: false,
    "Whether it gets Apple's catalog.")
  static let me = Setting(
    "me", .bool, default: false,
    "Whether it may use `/v1/me/…`; needs `catalog.me`.")
  static let ttl = Setting(
    "ttl", .duration(seconds: 60...Settings.Token.cap), example: #""12h""#,
    "The lifetime of its tokens, and the longest that it may request. Default: `token.ttl` and `token.maxTTL`.")
  static let storefronts = Setting(
    "storefronts",
    .elements(of: .storefront, atMost: 300, ifEmpty: "name some, or leave it out for all"), example: #"["us", "gb"]"#,
    "The storefronts whose catalog it gets. Default: all.")
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
    guard let settings = context.catalog else {
      if catalog || me, !token {
        reader.reject(
          "", problem: "is a client without any permission, because catalog.enabled is false",
          remedy: "turn catalog.enabled or the client's token on")
      }
      return
    }
    if me, !settings.me {
      reader.reject(
        Self.me.path, problem: "has no effect while catalog.me is false",
        remedy: "turn catalog.me on, or leave this out")
    }
  }

  private static func checkCertificate(
    _ reader: inout SettingsReader, _ credential: Client.Credential?, within context: Settings.Access.ValidationContext
  ) {
    guard case .certificate = credential, let server = context.server, server.tls?.clientCAFile == nil else { return }
    reader.reject(
      clientCertificate.path, problem: "has no effect, because the server requests no client certificate",
      remedy: "name the CAs that sign client certificates in server.tls.clientCAFile")
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
    example: "{ perSecond: 200, burst: 1000 }",
    "The same for all callers of the client together.")
  static let unit = Setting<Unit>(
    "per", .word, default: .sub,
    "What counts as one caller of a client with `jwt`: each user, by `sub`, or each address.")
  static let strict = Setting(
    "strict", .bool, default: false,
    "Whether the server asks the [store of the replicas](scaling.md#rates) before each request, up to `shared.timeout`, so that "
      + "they never grant more together. Needs `shared.url`.")

  static let type = SettingType.object(
    of: [perSecond, burst, unit, total, strict], remedy: "write { perSecond: 5, burst: 20 }")

  /// Reads the rates. Returns nil if they are invalid.
  init?(_ reader: inout SettingsReader, within context: Settings.Access.ValidationContext) {
    let isEach = reader.isSet(Self.perSecond.path) || reader.isSet(Self.burst.path)
    let each = isEach || !reader.isSet(Self.total.path) ? Self.rate(&reader) : nil
    let total = reader.readObject(Self.total) { Self.rate(&$0) }
    let isStrict = reader.read(Self.strict)
    if isStrict == true, !context.isShared {
      reader.reject(
        Self.strict.path, problem: "has no effect without shared.url, because one process alone is always strict",
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
