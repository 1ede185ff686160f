import Access
public import Cryptography
public import DeveloperToken
package import HTTPServer

/// All settings of a server: one immutable value, checked as a whole, replaced as a whole.
public struct Settings: Sendable {
  /// The signing key and the team.
  public var musickit: MusicKit
  /// The tokens' lifetimes.
  public var token: Token
  /// The public listener.
  public var server: Server
  /// The listener for operators; nil if it is turned off.
  public var admin: Admin?
  /// Apple Music behind this server; nil if it is turned off.
  public var catalog: Catalog?
  /// Which caller may have what.
  public var access: Access
  /// The audit log of what the server granted and refused.
  public var audit: Audit
  /// How the server logs.
  public var log: Log
  /// The file that some of them were read from.
  public var configurationFile: String?
}

extension Settings {
  /// Settings that a server can start with.
  public struct Loaded: Sendable {
    /// The settings.
    public let settings: Settings
    /// The files that the settings name, which the server has not read yet.
    package let files: NamedFiles
    /// What is odd but harmless, each a sentence.
    public let warnings: [String]
    /// `HTTPS_PROXY` and `NO_PROXY`, for connections that no setting names a proxy for.
    package let proxies: ProxyEnvironment
  }

  /// Every setting, in the order of the documents.
  static let known: [any SettingRow] =
    MusicKit.known + Token.known + Server.known + Admin.known + Catalog.known + Access.known + Audit.known
    + Log.known

  static let schema = SettingsSchema(known)

  /// Reads and checks every setting of `input`.
  ///
  /// It reads the configuration file and none of the files that the settings name.
  ///
  /// - Throws: ``InvalidSettings`` with all that is wrong.
  public static func load(_ input: SettingsInput) throws(InvalidSettings) -> Loaded {
    try SettingsDraft(input).complete()
  }

  /// The admin listener's settings alone, so that a health check does not need a key; nil if it is turned off.
  ///
  /// - Throws: ``InvalidSettings`` with what is wrong with these.
  public static func loadAdmin(_ input: SettingsInput) throws(InvalidSettings) -> Admin? {
    let layers = SettingsLayers(input, schema: schema)
    var reader = SettingsReader(layers)
    let admin = Admin(&reader)
    let errors = reader.errors.filter { $0.path.isEmpty || $0.path == "admin" || $0.path.hasPrefix("admin.") }
    guard errors.isEmpty else { throw InvalidSettings(errors: errors, warnings: []) }
    return admin
  }
}

/// Everything that settings are read from.
public struct SettingsInput: Sendable {
  /// A `path=value` from the command line.
  public struct Flag: Sendable, Equatable {
    /// The flag as the user wrote it, with its dashes, for errors.
    public let name: String
    /// The setting's path.
    public let path: String
    /// Its value as text: lists and objects as JSON5.
    public let value: String

    /// A flag that sets `path` to `value`.
    public init(name: String, path: String, value: String) {
      self.name = name
      self.path = path
      self.value = value
    }
  }

  /// The configuration file; nil to use the one that `MUSICKIT_CONFIG` names, or no file without that variable.
  public var file: String?
  /// The process's environment. A variable that is empty counts as unset, since that is how many tools unset one.
  public var environment: [String: String]
  /// `MUSICKIT_KEY`, taken out of the environment before anything else could read it there.
  public var environmentKey: SecretBytes?
  /// What the command line sets; the last of two for the same path counts.
  public var flags: [Flag]
  /// Whether `--unsafe-allow-anonymous` was given.
  public var allowsAnonymous: Bool
  /// Whether `--unsafe-plain-upstream` was given.
  public var allowsPlainUpstream: Bool
  /// What the machine offers.
  public var host: HostFacts

  /// The configuration file that counts, if there is one.
  package var configurationFile: String? { file ?? environment["MUSICKIT_CONFIG"] }

  /// Input from `file`, `environment` and `flags`.
  public init(
    file: String? = nil,
    environment: [String: String] = [:],
    environmentKey: SecretBytes? = nil,
    flags: [Flag] = [],
    allowsAnonymous: Bool = false,
    allowsPlainUpstream: Bool = false,
    host: HostFacts
  ) {
    self.file = file
    self.environment = environment.filter { !$0.value.isEmpty }
    self.environmentKey = environmentKey?.count == 0 ? nil : environmentKey
    self.flags = flags
    self.allowsAnonymous = allowsAnonymous
    self.allowsPlainUpstream = allowsPlainUpstream
    self.host = host
  }
}

/// Which host names a listener answers for. A loopback listener is the one that a rebound DNS name can reach through a
/// browser of this machine; behind credentials such a page finds nothing, so only what needs none is guarded.
extension Settings {
  /// Those of the public listener; nil for any.
  package var publicHosts: AllowedHosts? {
    let isGuarded = server.address.isLoopback && access.anonymous?.mayHaveAnything ?? false
    return allowed(server.hosts, isGuarded: isGuarded, setting: Server.hosts.path)
  }

  /// Those of the admin listener; nil for any.
  package var adminHosts: AllowedHosts? {
    allowed(admin?.hosts ?? [], isGuarded: admin?.host.isLoopback ?? false, setting: Admin.hosts.path)
  }

  private func allowed(_ hosts: [String], isGuarded: Bool, setting: String) -> AllowedHosts? {
    guard !access.servesEverybody, isGuarded || !hosts.isEmpty else { return nil }
    return AllowedHosts(names: hosts, setting: setting)
  }
}

extension Settings.Server.Address {
  /// Whether only this machine can reach it by TCP.
  fileprivate var isLoopback: Bool {
    if case .tcp(let host, _) = self { host.isLoopback } else { false }
  }
}

extension Settings.Token {
  /// The policy that a minter takes.
  ///
  /// - Throws: `TokenPolicyError`, for times beyond Apple's, which settings that were loaded do not have.
  public func policy() throws(TokenPolicyError) -> TokenPolicy {
    try TokenPolicy(
      ttl: Int(ttl.components.seconds), maxTTL: Int(maxTTL.components.seconds),
      backdate: Int(backdate.components.seconds))
  }
}

extension Settings {
  /// What each client may have, one line each: `android (API key): tokens of 12h for any origin; 5/s, 20 at once`. The
  /// list contains only the first clients, so that it stays readable, and always what anonymous callers may have.
  package var grants: [String] {
    let anonymous = access.anonymous.map { [grant(to: $0)] } ?? []
    let most = 20 - anonymous.count
    let rest = access.clients.count - most
    return access.clients.prefix(most).map(grant(to:))
      + (rest > 0 ? ["and \(rest) more \(rest == 1 ? "client" : "clients")"] : []) + anonymous
  }

  private func grant(to client: Client) -> String {
    let things = [tokens(for: client), catalog(for: client), catalog?.me == true && client.me ? "/v1/me" : nil]
    return "\(client.id)\(client.knownBy): \(things.compactMap { $0 }.joined(separator: ", ")); \(client.rateText)"
  }

  private func tokens(for client: Client) -> String? {
    guard client.token else { return nil }
    let ttl = client.ttl.map { durationText($0) } ?? durationText(Int(token.ttl.components.seconds))
    return "tokens of \(ttl) for \(client.origins.names)"
  }

  private func catalog(for client: Client) -> String? {
    guard catalog != nil, client.catalog else { return nil }
    guard let storefronts = client.storefronts else { return "the catalog" }
    return "the catalog of \(list(storefronts.sorted(), atMost: 8, of: "storefronts"))"
  }
}

/// All of a few, else how many there are.
private func list(_ names: [String], atMost most: Int, of things: String) -> String {
  names.count <= most ? names.joined(separator: ", ") : "\(names.count) \(things)"
}

extension Client {
  /// ` (API key)`, ` (JWT, and origin)`; nothing for everybody.
  fileprivate var knownBy: String {
    let kind: String
    switch credential {
    case .apiKeys(let digests): kind = digests.count == 1 ? "API key" : "\(digests.count) API keys"
    case .jwt: kind = "JWT"
    case .certificate: kind = "client certificate"
    case .origin: return " (origin)"
    case .anonymous: return ""
    }
    return origins.isRestricted ? " (\(kind), and origin)" : " (\(kind))"
  }

  /// `5/s, 20 at once, 200/s in all`; the parts that are set.
  fileprivate var rateText: String {
    let each = rate.map { "\(numberText($0.perSecond))/s, \($0.burst) at once" }
    let total = totalRate.map { "\(numberText($0.perSecond))/s in all" }
    let parts = [each, total].compactMap { $0 }
    return parts.isEmpty ? "no rate limit" : parts.joined(separator: ", ")
  }
}

extension AllowedOrigins {
  /// The origins that its tokens may be for.
  fileprivate var names: String {
    switch self {
    case .only(let patterns) where !patterns.isEmpty:
      list(patterns.map { shown("\($0)") }, atMost: 3, of: "origins")
    case .loopback: "origins of this machine"
    case .any, .only: "any origin"
    }
  }
}
