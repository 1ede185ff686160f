import Access
import DeveloperToken
package import EventLoop
import HTTPServer
import Locks
import ServerSettings
import TLS

/// One generation of settings, key and certificate. It is built, checked and replaced as a whole, and one generation
/// routes, identifies and answers a request. What outlives it is the current one at each moment: the token for Apple,
/// Apple's CAs, the log's level.
struct RuntimeSnapshot: Sendable {
  let source: Source
  let settings: Settings
  /// Whether the next key of a rotation signs, instead of the active one.
  let signsWithNextKey: Bool
  let minter: TokenMinter
  let policy: AccessPolicy
  let ownTokens: OwnDeveloperTokens
  let keys: KeySetTable
  /// The secret that the replicas of this key share; nil without a store.
  let groupSecret: GroupSecret?
  let tls: TLSContext?
  let publicRouter: Router
  let adminRouter: Router
  /// The URL at which this machine reaches the public listener. The system picks some ports, so it is nil before the start.
  let publicURL: Locked<String?>
  /// The description of the public listener for callers.
  let openAPI: OpenAPI
  /// The findings for the operator, each a sentence.
  let notices: [String]
  /// The settings in force, for `/config`.
  let entries: [SettingEntry]
  /// What the layers had at the start of each setting that needs a restart.
  let written: [String?]

  struct Source: Sendable {
    let settings: Settings
    let files: LoadedFiles
    /// The paths of the files that contain these settings, and that they name.
    let paths: [String]
    /// What the layers have of each setting that needs a restart.
    let written: [String?]
    var warnings: [String]
    let proxies: ProxyEnvironment
    /// Every setting with its source; empty for settings that no file and no variable has.
    var entries: [SettingEntry] = []
    /// Whether the emulator takes Apple's place, and every caller may have everything.
    var isDemo = false

    /// Creates a source from settings that name no files.
    init(settings: Settings, key: SigningKey, warnings: [String], proxies: ProxyEnvironment) throws {
      (self.settings, self.warnings, self.proxies) = (settings, warnings, proxies)
      (paths, written) = ([], [])
      files = try LoadedFiles(key: key)
    }

    /// Reads the files that the settings name.
    ///
    /// - Parameter running: The generation in use; nil at the start.
    /// - Throws: `InvalidSettings` with all errors of the files.
    init(_ loaded: Settings.Loaded, replacing running: RuntimeSnapshot? = nil) throws(InvalidSettings) {
      let named = running.map { loaded.files.keepingFixed(of: $0.settings) } ?? loaded.files
      let read = named.load(resumingTicketsOf: running?.tls)
      guard let files = read.whole else {
        throw InvalidSettings(errors: read.errors, warnings: loaded.warnings + read.warnings)
      }
      (settings, self.files) = (loaded.settings, files)
      (written, warnings, proxies) = (loaded.written, loaded.warnings, loaded.proxies)
      paths = loaded.paths + named.paths.map(\.path)
      entries = loaded.entries
    }
  }

  /// Creates a generation. Unchanged parts of `previous` stay in use: cached tokens, and TLS sessions that clients may
  /// resume.
  init(
    _ source: Source, of services: Services, replacing previous: RuntimeSnapshot? = nil, signsWithNextKey: Bool = false
  ) throws(StartError) {
    self.source = source
    self.signsWithNextKey = signsWithNextKey
    settings = previous.map { source.settings.keepingFixed(of: $0.settings) } ?? source.settings
    let named: NamedKeySets
    do {
      let key = signsWithNextKey ? source.files.nextKey ?? source.files.key : source.files.key
      minter = try Self.minter(key, source.settings, replacing: previous?.minter)
      guard settings.shared == nil || source.files.key.remote == nil else {
        throw StartError("shared.url needs a private key, and musickit.signer gives none. Restart the server.")
      }
      groupSecret = settings.shared == nil ? nil : try GroupSecret(source.files.key, settings)
      tls = settings.server.tls == nil ? nil : source.files.tls
      guard (tls == nil) == (settings.server.tls == nil) else {
        // The server must never use plain HTTP if the settings require HTTPS.
        throw StartError("The server has not read the files of server.tls.")
      }
      policy = AccessPolicy(clients: settings.access.clients, anonymous: settings.access.anonymous)
      named = try NamedKeySets(policy.keySources, files: source.files.keySets, proxies: source.proxies)
    } catch {
      throw StartError("\(error)")
    }
    notices = source.warnings + source.files.warnings
    entries =
      previous.map {
        source.entries.keepingFixed(
          of: $0.entries, source.settings.needingRestart(source.written, since: $0.settings, $0.written))
      } ?? source.entries
    written = previous?.written ?? source.written
    keys = services.access.keySets.table(of: named)
    let ownKeys = [minter.key, source.files.key, source.files.nextKey].compactMap { $0 }
    ownTokens = OwnDeveloperTokens(
      ownKeys, retired: settings.musickit.keys.retired, team: settings.musickit.teamID, replacing: previous?.ownTokens)
    let gate = AccessGate(
      policy: policy, keys: keys, clientAuthorities: tls?.clientAuthorities, ownTokens: ownTokens,
      service: services.access)
    publicURL = previous?.publicURL ?? Locked(nil)
    (openAPI, publicRouter, adminRouter) = Self.routes(
      Page(settings: settings, isDemo: source.isDemo, gate: gate, keys: ownKeys, publicURL: publicURL),
      Health.Job(minter: minter, services: services, fetchesKeys: named.areFetched), tls,
      SettingsEndpoint(settings: settings, entries: entries, written: written, load: services.metrics.load))
  }

  /// Returns the routers of both listeners, and the description of the public one.
  private static func routes(
    _ page: Page, _ job: Health.Job, _ tls: TLSContext?, _ settingsEndpoint: SettingsEndpoint
  ) -> (openAPI: OpenAPI, public: Router, admin: Router) {
    let (settings, gate, minter, services) = (page.settings, page.gate, job.minter, job.services)
    let token = TokenEndpoint(minter: minter, gate: gate, bodyLimit: settings.server.limits.bodyBytes)
    let crossOrigin = CrossOrigin(policy: gate.policy) { gate.refusePreflight(of: $0, AuditContext($1)) }
    let allowsMe = settings.catalog?.me ?? false
    let catalog = services.catalog.map { CatalogEndpoint(service: $0, gate: gate, allowsMe: allowsMe) }
    let health = services.health
    let routes = [token.route, health.liveness, health.readiness(job)] + [catalog?.route].compactMap { $0 }
    let moduleRoutes = settings.server.module ? Page.moduleRoutes : []
    let (described, files) =
      settings.server.page ? (page.describedRoutes, page.publicRoutes) : (moduleRoutes, moduleRoutes)
    let openAPI = OpenAPI((routes + described).flatMap(\.patterns), of: settings)
    let router = { [hosts = settings.publicHosts] (more: [Route]) in
      Router(
        routes + [openAPI.route] + more, hosts: hosts, lastingField: CrossOrigin.field,
        refusalFields: CrossOrigin.preflightFields,
        finish: { crossOrigin.finish(&$0, $1) })
    }
    let decided = router(files)
    let explain = ExplainEndpoint(
      gate: gate, publicRouter: decided, token: token, catalog: catalog, limits: settings.server.limits.http1)
    let figures = services.metrics.route(minter, tls, services) { health.report(job) }
    // The demo's public page has all that the page of operators has.
    let rule = OwnPageRule(checksHosts: settings.publicHosts != nil)
    let demoRoutes = [explain.route(rule), figures, page.audit(rule)]
    let adminRule = OwnPageRule(checksHosts: settings.adminHosts != nil)
    let admin = Router(
      [
        health.livenessOfLoops, health.detailedReadiness(job), figures, explain.route(adminRule),
        settingsEndpoint.route(adminRule),
      ] + (settings.admin?.page ?? false ? page.adminRoutes : []),
      hosts: settings.adminHosts)
    return (openAPI, page.isDemo ? router(page.publicRoutes + demoRoutes) : decided, admin)
  }

  /// The number of stored tokens, beside one for each origin that the settings list, so that no origin makes the server
  /// sign the tokens of another one again. A settings file of 1 MiB lists 60,000 origins at most: 60 MB of tokens.
  private static let storedTokens = 1024

  private static func minter(
    _ key: SigningKey, _ settings: Settings, replacing previous: TokenMinter?
  ) throws -> TokenMinter {
    let team = settings.musickit.teamID
    let policy = try settings.token.policy()
    let capacity = storedTokens + settings.access.clients.reduce(0) { $0 + $1.origins.count }
    if let previous, previous.team == team, previous.policy == policy, previous.key.isSame(as: key),
      RemoteSigner.areSame(previous.key.remote, key.remote)
    {
      previous.growCache(to: capacity)
      return previous
    }
    return try TokenMinter(key: key, team: team, policy: policy, cacheCapacity: capacity)
  }
}

extension [SettingEntry] {
  /// Returns these entries with those that need a restart taken from `running`.
  fileprivate func keepingFixed(of running: [SettingEntry], _ fixed: [String]) -> [SettingEntry] {
    guard count == running.count else { return self }
    return zip(self, running).map { fixed.contains($0.path) ? $1 : $0 }
  }
}

extension Settings.Server.TLSFiles {
  /// The value of the field (RFC 6797 §6.1), without subdomains, because other servers may own them.
  var strictTransportSecurity: String? { hsts.map { "max-age=\($0.components.seconds)" } }
}

/// The reason why the server does not start, or keeps its old settings: a sentence for the operator.
package struct StartError: Error, CustomStringConvertible {
  package let description: String
  /// Whether a later start may succeed with the same settings.
  package let isTemporary: Bool

  package init(_ description: String, isTemporary: Bool = false) {
    (self.description, self.isTemporary) = (description, isTemporary)
  }

  /// Creates the error of a listener, with a sentence about the settings of its address.
  package init(_ error: ListenError, hint settings: String) {
    self.init("\(error) \(settings)", isTemporary: error.isTemporary)
  }
}
