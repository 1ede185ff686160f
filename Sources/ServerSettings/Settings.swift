import Access
import Cryptography
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
