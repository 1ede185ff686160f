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
    /// Whether `--unsafe-allow-anonymous` was given.
    var servesEverybody = false
  }
}

extension Settings.Access {
  static let clients = Setting<JSON5Value>(
    "access.clients",
    .structure(
      { if case .array = $0 { true } else { false } },
      remedy: "write a list of objects such as [{ id: \"android\", … }]"),
    default: .array([]))
  static let token = Setting("access.anonymous.token", .bool, default: false)
  static let catalog = Setting("access.anonymous.catalog", .bool, default: false)
  static let me = Setting("access.anonymous.me", .bool, default: false)
  static let origins = Setting<[OriginPattern]>(
    "access.anonymous.origins",
    .list(of: .originPattern, remedy: "write a list such as [\"https://app.example.com\"]"))
  static let ttl = Setting("access.anonymous.ttl", .duration(seconds: 60...Settings.Token.cap))
  static let storefronts = Setting<[String]>(
    "access.anonymous.storefronts", .list(of: .storefront, remedy: "write a list such as [\"us\", \"gb\"]"))
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
  struct ValidationContext {
    let token: Settings.Token?
    /// Nil if it is off.
    let catalog: Settings.Catalog?
    let server: Settings.Server?
    let allowsAnonymous: Bool
  }

  /// - Parameter clients: What ``readClients(_:within:)`` made of them.
  init?(_ reader: inout SettingsReader, clients read: ReadClients, within surroundings: ValidationContext) {
    let clients = read.whole
    var rates = read.rates
    let anonymous = Self.readAnonymous(&reader, noting: &rates, within: surroundings)
    if surroundings.allowsAnonymous {
      let everything = Client(
        id: Client.anonymousID, credential: .anonymous, origins: .any, catalog: true, me: true)
      guard let clients else { return nil }
      self.init(clients: clients, anonymous: everything, rates: read.rates, servesEverybody: true)
    } else {
      if !reader.isSet(Self.anonymousPath), clients?.isEmpty ?? false {
        reader.missing(
          "access", problem: "no client may have anything",
          remedy: "write access: { clients: [{ id: \"web\", origins: [\"https://app.example.com\"] }] }, with apiKey "
            + "instead of origins for callers that are no web pages (new-api-key makes one), "
            + "ACCESS_ANONYMOUS='{ token: true }' for programs that need none, or start with --unsafe-allow-anonymous to serve everybody"
        )
        return nil
      }
      guard let clients else { return nil }
      self.init(clients: clients, anonymous: anonymous, rates: rates)
    }
  }
}

extension SettingType where Value == Double {
  /// A part of the whole.
  static let share = number(0.01...1, remedy: "write a number from 0.01 to 1, such as 0.25 for a quarter")
}
