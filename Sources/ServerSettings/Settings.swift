import Access
public import Cryptography
package import HTTPServer

/// All settings of a server, validated and replaced as a whole. A section is nil if it is off.
public struct Settings: Sendable {
  package var musickit: MusicKit
  package var token: Token
  package var server: Server
  package var admin: Admin?
  package var catalog: Catalog?
  package var access: Access
  package var shared: Shared?
  package var audit: Audit
  package var log: Log
  package var spanExport: SpanExport?
  /// The path of the configuration file, if one was read.
  package var configurationFile: String?

  /// Settings that a server can start with.
  public struct Loaded: Sendable {
    package let settings: Settings
    /// That of the settings, without errors.
    package let draft: SettingsDraft
  }

  /// All settings, in the order of the documents.
  static let known: [any SettingRow] =
    MusicKit.known + Token.known + Server.known + Admin.known + Catalog.known + Access.known + Shared.known
    + Audit.known + Log.known + SpanExport.known

  static let schema = SettingsSchema(known)

  /// Reads and validates every setting, but not the files that the settings name. Throws all errors.
  public static func load(_ input: SettingsInput) throws(InvalidSettings) -> Loaded {
    try SettingsDraft(input).complete()
  }

  /// Reads only the admin listener's settings, so that a health check needs no key. Returns nil if it is disabled.
  package static func loadAdmin(_ input: SettingsInput) throws(InvalidSettings) -> Admin? {
    var reader = SettingsReader(SettingsLayers(input, schema: schema))
    let admin = Admin(&reader)
    let errors = reader.errors.filter { $0.path.isEmpty || $0.path == "admin" || $0.path.hasPrefix("admin.") }
    guard errors.isEmpty else { throw InvalidSettings(errors: errors, warnings: []) }
    return admin
  }
}

/// All sources of settings.
public struct SettingsInput: Sendable {
  /// A `path=value` from the command line, and the flag as the user wrote it. Lists and objects are JSON5.
  public typealias Flag = (name: String, path: String, value: String)

  /// The configuration file. If it is nil, `MUSICKIT_CONFIG` names the file. Without that variable there is no file.
  package var file: String?
  /// The process's environment. An empty variable counts as unset, because many tools unset variables that way.
  package var environment: [String: String]
  /// The value of `MUSICKIT_KEY`, removed from the environment before other code could read it.
  package var environmentKey: SecretBytes?
  /// The settings from the command line. For the same path, the last one counts.
  package var flags: [Flag]
  /// Whether `--unsafe-allow-anonymous` was given.
  package var allowsAnonymous: Bool
  /// Whether `--unsafe-plain-upstream` was given.
  package var allowsPlainUpstream: Bool
  package var host: HostFacts
  /// The time for the configuration and all files that it names.
  package var readingTime = ReadingTime()
  package var configurationFile: String? { file ?? environment["MUSICKIT_CONFIG"] }

  /// Creates the input from `file`, `environment` and `flags`.
  public init(
    file: String? = nil, environment: [String: String] = [:], environmentKey: SecretBytes? = nil, flags: [Flag] = [],
    allowsAnonymous: Bool = false, allowsPlainUpstream: Bool = false, host: HostFacts
  ) {
    self.environment = environment.filter { !$0.value.isEmpty }
    self.environmentKey = environmentKey?.count == 0 ? nil : environmentKey
    (self.file, self.flags, self.host) = (file, flags, host)
    (self.allowsAnonymous, self.allowsPlainUpstream) = (allowsAnonymous, allowsPlainUpstream)
  }
}

/// The host names for which a listener responds. A rebound DNS name can reach a listener on any address through a browser
/// on the same network. Such a page has no credentials, so only listeners that need none check the name by default.
extension Settings {
  /// Nil if all are allowed. Everybody gets the responses to health checks and the description of the API, which tell a
  /// page nothing.
  package var publicHosts: AllowedHosts? {
    let isGuarded = server.address.isTCP && access.anonymous?.mayHaveAnything ?? false
    return allowed(server.hosts, isGuarded: isGuarded, setting: "server.hosts")
  }

  /// Nil if all are allowed. With the page, the listener checks the name in any case: else a page with a rebound name
  /// could read audit records through an operator's browser.
  package var adminHosts: AllowedHosts? {
    guard let admin else { return nil }
    if admin.page { return AllowedHosts(names: admin.hosts, setting: "admin.hosts") }
    return allowed(admin.hosts, isGuarded: true, setting: "admin.hosts")
  }

  package var hostChecks: [String] {
    let checks = [
      (publicHosts, "public", "server.hosts", server.hosts), (adminHosts, "admin", "admin.hosts", admin?.hosts ?? []),
    ]
    return checks.compactMap { (check, listener, setting, names) in
      guard check != nil else { return nil }
      let listed =
        names.isEmpty ? "\(setting) lists no others" : "\(setting) lists \(list(names, atMost: 8, of: "names"))"
      return "The \(listener) listener serves hosts that are \(AllowedHosts.alwaysAllowed); \(listed). Requests for "
        + "other hosts get 421."
    }
  }

  private func allowed(_ hosts: [String], isGuarded: Bool, setting: String) -> AllowedHosts? {
    guard !access.servesEverybody, isGuarded || !hosts.isEmpty else { return nil }
    return AllowedHosts(names: hosts, setting: setting)
  }

  /// One line for each client with its permissions: `android (API key): tokens of 12h for any origin; 5/s, 20 at once`.
  /// To stay readable, the list has only the first clients. It always has the permissions of anonymous callers.
  package var grants: [String] {
    let anonymous = access.anonymous.map { [grant(to: $0)] } ?? []
    let most = 20 - anonymous.count
    let rest = access.clients.count - most
    return access.clients.prefix(most).map(grant(to:))
      + (rest > 0 ? ["and \(rest) more \(rest == 1 ? "client" : "clients")"] : []) + anonymous
  }

  private func grant(to client: Client) -> String {
    let ttl = client.ttl ?? Int(token.ttl.components.seconds)
    let storefronts = client.storefronts.map { " of \(list($0.sorted(), atMost: 8, of: "storefronts"))" } ?? ""
    let things = [
      client.token ? "tokens of \(durationText(ttl)) for \(client.origins.names)" : nil,
      catalog != nil && client.catalog ? "the catalog\(storefronts)" : nil,
      catalog?.me == true && client.me ? "/v1/me" : nil,
    ]
    return "\(client.id)\(client.knownBy): \(things.compactMap { $0 }.joined(separator: ", ")); \(client.rateText)"
  }
}

/// Returns the names if they are few, otherwise their number.
func list(_ names: [String], atMost most: Int, of things: String) -> String {
  names.count <= most ? names.joined(separator: ", ") : "\(names.count) \(things)"
}

extension Client {
  /// ` (API key)` or ` (JWT, and origin)`. Empty for anonymous callers.
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

  /// The parts that are set of `5/s, 20 at once, 200/s in all`.
  fileprivate var rateText: String {
    let each = rate.map { ["\(numberText($0.perSecond))/s, \($0.burst) at once"] } ?? []
    let total = totalRate.map { ["\(numberText($0.perSecond))/s in all"] } ?? []
    return each.isEmpty && total.isEmpty ? "no rate limit" : (each + total).joined(separator: ", ")
  }
}

extension AllowedOrigins {
  fileprivate var names: String {
    switch self {
    case .only(let patterns) where !patterns.isEmpty: list(patterns.map { shown("\($0)") }, atMost: 3, of: "origins")
    case .loopback: "origins of this machine"
    case .any, .only: "any origin"
    }
  }
}
