public import Access
import DeveloperToken

extension Settings {
  /// Who may have what.
  public struct Access: Sendable, Equatable {
    /// Those who are known by something.
    public var clients: [Client]
    /// What callers without credentials may have; nil for nothing.
    public var anonymous: Client?
    /// How often they may ask, by their ids, as it was written.
    var rates: [String: Rates] = [:]
  }
}

extension Settings.Access {
  static let clients = Setting<JSON5Value>(
    "access.clients",
    .structure(
      { if case .array = $0 { true } else { false } },
      remedy: "write a list of objects such as [{ id: \"android\", … }]"),
    default: .array([]))
  static let token = Setting("access.anonymous.token", .bool, default: true)
  static let catalog = Setting("access.anonymous.catalog", .bool, default: false)
  static let me = Setting("access.anonymous.me", .bool, default: false)
  static let origins = Setting<[OriginPattern]>(
    "access.anonymous.origins",
    .list(of: .originPattern, remedy: "write a list such as [\"https://app.example.com\"]"), default: [])
  static let ttl = Setting("access.anonymous.ttl", .duration(seconds: 60...Settings.Token.cap))
  static let storefronts = Setting<[String]>(
    "access.anonymous.storefronts", .list(of: .storefront, remedy: "write a list such as [\"us\", \"gb\"]"), default: []
  )
  static let rateLimit = Setting<JSON5Value>(
    "access.anonymous.rateLimit",
    .structure(
      { if case .object = $0 { true } else { false } }, remedy: "write an object such as { perSecond: 5, burst: 20 }"))
  static let share = Setting("access.anonymous.share", .share)

  static var known: [KnownSetting] {
    [
      KnownSetting(clients), KnownSetting(token), KnownSetting(catalog), KnownSetting(me), KnownSetting(origins),
      KnownSetting(ttl), KnownSetting(storefronts), KnownSetting(rateLimit), KnownSetting(share),
    ]
  }

  /// What of the other settings bears on who may have what.
  struct Surroundings {
    let token: Settings.Token?
    /// Nil if it is off.
    let catalog: Settings.Catalog?
    let server: Settings.Server?
    let allowsAnonymous: Bool
  }

  /// - Parameter clients: What ``readClients(_:within:)`` made of them.
  init?(_ reader: inout SettingsReader, clients read: ReadClients, within surroundings: Surroundings) {
    let clients = read.whole
    var rates = read.rates
    let anonymous = Self.readAnonymous(&reader, noting: &rates, within: surroundings)
    if surroundings.allowsAnonymous {
      let everything = Client(
        id: Client.anonymousID, credential: .anonymous, origins: .any, catalog: true, me: true)
      guard let clients else { return nil }
      self.init(clients: clients, anonymous: everything, rates: read.rates)
    } else {
      if !reader.isSet("access.anonymous"), clients?.isEmpty ?? false {
        reader.missing(
          "access", problem: "nobody may have anything",
          remedy: "write access: { clients: [{ id: \"web\", origins: [\"https://app.example.com\"] }] }, with apiKey "
            + "instead of origins for callers that are no web pages (new-api-key makes one), ACCESS_ANONYMOUS='{}' for "
            + "programs that need none, or start with --unsafe-allow-anonymous to serve everybody")
        return nil
      }
      guard let clients else { return nil }
      self.init(clients: clients, anonymous: anonymous, rates: rates)
    }
  }

  private static func readAnonymous(
    _ reader: inout SettingsReader, noting allRates: inout [String: Rates], within surroundings: Surroundings
  ) -> Client? {
    let isPresent = reader.isSet("access.anonymous")
    let origins = reader.read(origins)
    let ttl = reader.read(ttl)
    if let ttl, let token = surroundings.token, ttl > token.maxTTL {
      reader.fault(Self.ttl.path, problem: "is more than token.maxTTL", remedy: "write as much at most")
    }
    let storefronts = reader.read(storefronts)
    let token = reader.read(token)
    let catalog = reader.read(catalog)
    let me = reader.read(me)
    let share = reader.read(share)
    let rates = reader.read(rateLimit).flatMap { value in
      reader.readObject(value, at: rateLimit.path) { Rates(&$0) }
    }
    guard isPresent, let token, let catalog, let me, let origins else { return nil }
    allRates[Client.anonymousID] = rates
    return Client(
      id: Client.anonymousID, credential: .anonymous, origins: .only(origins), token: token, catalog: catalog, me: me,
      ttl: ttl.map { Int($0.components.seconds) }, storefronts: storefronts.flatMap { $0.isEmpty ? nil : Set($0) },
      rate: rates?.each, totalRate: rates?.total, share: share)
  }
}

extension SettingType where Value == Double {
  /// A part of the whole.
  static let share = number(0.01...1, remedy: "write a number from 0.01 to 1, such as 0.25 for a quarter")
}
