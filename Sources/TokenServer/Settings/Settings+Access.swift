import DeveloperToken

extension Settings {
  /// Who may have what.
  public struct Access: Sendable, Equatable {
    /// What callers without credentials may have.
    public struct Anonymous: Sendable, Equatable {
      /// Whether they may have tokens.
      public var token: Bool
      /// The origins that their tokens may name, and whose pages may read the answers.
      public var origins: AllowedOrigins
      /// Whether they may have answers of Apple's catalog.
      public var catalog: Bool
      /// Whether they may use `/v1/me/` with their own music user token, if ``Settings/Catalog/me`` lets anybody.
      public var me: Bool
      /// The longest life of their tokens, if shorter than ``Settings/Token/maxTTL``.
      public var ttl: Duration?

      /// A policy as given.
      public init(
        token: Bool = true, catalog: Bool = false, me: Bool = false, origins: AllowedOrigins = .only([]),
        ttl: Duration? = nil
      ) {
        self.token = token
        self.catalog = catalog
        self.me = me
        self.origins = origins
        self.ttl = ttl
      }
    }

    /// What callers without credentials may have.
    public var anonymous: Anonymous
  }
}

extension Settings.Access {
  static let token = Setting("access.anonymous.token", .bool, default: true)
  static let catalog = Setting("access.anonymous.catalog", .bool, default: false)
  static let me = Setting("access.anonymous.me", .bool, default: false)
  static let origins = Setting<[Origin]>(
    "access.anonymous.origins", .list(of: .origin, remedy: "write a list such as [\"https://app.example.com\"]"),
    default: [])
  static let ttl = Setting("access.anonymous.ttl", .duration(seconds: 60...Settings.Token.cap))

  static var known: [KnownSetting] {
    [KnownSetting(token), KnownSetting(catalog), KnownSetting(me), KnownSetting(origins), KnownSetting(ttl)]
  }

  init?(_ reader: inout SettingsReader, token settings: Settings.Token?, allowsAnonymous: Bool) {
    let isPresent = reader.isSet("access.anonymous")
    let origins = reader.read(Self.origins)
    let ttl = reader.read(Self.ttl)
    if let ttl, let settings, ttl > settings.maxTTL {
      reader.fault(Self.ttl.path, problem: "is more than token.maxTTL", remedy: "write as much at most")
    }
    if allowsAnonymous {
      self.init(anonymous: Anonymous(catalog: true, me: true, origins: .any))
    } else if isPresent {
      let token = reader.read(Self.token)
      let catalog = reader.read(Self.catalog)
      guard let me = reader.read(Self.me), let token, let catalog, let origins else { return nil }
      self.init(
        anonymous: Anonymous(token: token, catalog: catalog, me: me, origins: .only(origins), ttl: ttl))
    } else {
      reader.missing(
        "access", problem: "nobody may have a token",
        remedy: "write access: { anonymous: { origins: [\"https://app.example.com\"] } } (or ACCESS_ANONYMOUS='{}' for "
          + "callers that are no web pages), or start with --unsafe-allow-anonymous to serve everybody")
      return nil
    }
  }
}
