import Access
import DeveloperToken
package import EventLoop
import HTTPMessages
import HTTPServer
import JSON
import Locks
import Logging
import Memory
import ServerSettings
import TLS
import Telemetry

/// One generation of settings, key and certificate. It is built, checked and replaced as a whole, and routes, identifies
/// and answers a request. Current at each moment are only the token for Apple, Apple's CAs, whether any cache may keep
/// catalog responses, and the log's level.
struct RuntimeSnapshot: Sendable {
  let source: Source
  let services: Services
  let settings: Settings
  /// Whether the next key of a rotation signs, instead of the active one.
  let signsWithNextKey: Bool
  let minter: TokenMinter
  /// The keys that sign now or next.
  let ownKeys: [SigningKey]
  let gate: AccessGate
  /// The secret that the replicas of this key share; nil without a store.
  let groupSecret: GroupSecret?
  let tls: TLSContext?
  /// The findings for the operator, each a sentence.
  let notices: [String]
  /// The settings in force, for `/config`.
  let entries: [SettingEntry]
  /// What the layers had at the start of each setting that needs a restart.
  let written: [String?]

  struct Source: Sendable {
    let settings: Settings
    let key: SigningKey
    /// The key that replaces ``key``. Nil without a rotation.
    var nextKey: SigningKey?
    var tls: TLSContext?
    let upstreamAuthorities: TLSClientContext
    /// Nil without a collector that speaks TLS.
    var collectorAuthorities: TLSClientContext?
    var store: StoreFiles?
    var keySets = KeySetFiles()
    /// The paths of the files that contain these settings, and that they name.
    let paths: [String]
    /// What the layers have of each setting that needs a restart.
    let written: [String?]
    let warnings: [String]
    let proxies: ProxyEnvironment
    /// Every setting with its source; empty for settings that no file and no variable has.
    var entries: [SettingEntry] = []
    /// Whether the emulator takes Apple's place, and every caller may have everything.
    var isDemo = false

    init(settings: Settings, key: SigningKey, warnings: [String], proxies: ProxyEnvironment) throws {
      (self.settings, self.key, self.warnings, self.proxies) = (settings, key, warnings, proxies)
      (paths, written) = ([], [])
      upstreamAuthorities = try TLSClientContext()
    }

    /// Reads the files that the settings name. Throws all errors of the files. The `findings` are further warnings.
    init(
      _ loaded: Settings.Loaded, findings: [String] = [], replacing running: RuntimeSnapshot? = nil
    ) throws(InvalidSettings) {
      let draft = loaded.draft
      let named = running.map { draft.files.keepingFixed(of: $0.settings) } ?? draft.files
      let files = named.load(resumingTicketsOf: running?.tls)
      guard files.errors.isEmpty, let keys = files.keys, let authorities = files.upstreamAuthorities,
        let keySets = files.keySets
      else { throw InvalidSettings(errors: files.errors, warnings: draft.warnings + files.warnings) }
      (key, nextKey, tls, store) = (keys.active, keys.next, files.tls, files.store)
      (upstreamAuthorities, collectorAuthorities) = (authorities, files.collectorAuthorities ?? nil)
      (settings, self.keySets) = (loaded.settings, keySets)
      (written, proxies, entries) = (draft.written, draft.proxies, draft.entries)
      warnings = draft.warnings + findings + files.warnings
      paths = loaded.paths + named.paths.map(\.path)
    }

    /// Whether both have the same active key, the same next key, and the same team, which a proof is about too.
    func hasSameKeys(as other: Source) -> Bool {
      settings.musickit.teamID == other.settings.musickit.teamID && key.isSame(as: other.key)
        && (nextKey.map { ours in other.nextKey.map(ours.isSame) ?? false } ?? (other.nextKey == nil))
    }
  }

  /// Creates a generation. Unchanged parts of `previous` stay in use: cached tokens, and TLS sessions to resume.
  init(
    _ source: Source, of services: Services, replacing previous: RuntimeSnapshot? = nil, signsWithNextKey: Bool = false
  ) throws(StartError) {
    (self.source, self.services, self.signsWithNextKey) = (source, services, signsWithNextKey)
    settings = previous.map { source.settings.keepingFixed(of: $0.settings) } ?? source.settings
    let policy: AccessPolicy
    let named: NamedKeySets
    do {
      let key = signsWithNextKey ? source.nextKey ?? source.key : source.key
      minter = try Self.minter(key, source.settings, replacing: previous?.minter)
      guard settings.shared == nil || source.key.remote == nil else {
        throw StartError("shared.url needs a private key, and musickit.signer gives none. Restart the server.")
      }
      groupSecret = settings.shared == nil ? nil : try GroupSecret(source.key, settings)
      tls = settings.server.tls == nil ? nil : source.tls
      guard (tls == nil) == (settings.server.tls == nil) else {
        // The server never uses plain HTTP if the settings require HTTPS.
        throw StartError("The server has not read the files of server.tls.")
      }
      policy = AccessPolicy(clients: settings.access.clients, anonymous: settings.access.anonymous)
      named = try NamedKeySets(policy.keySources, files: source.keySets, proxies: source.proxies)
    } catch { throw StartError("\(error)") }
    notices = source.warnings
    var entries = source.entries
    if let previous, entries.count == previous.entries.count {
      let fixed = source.settings.needingRestart(source.written, since: previous.settings, previous.written)
      entries = zip(entries, previous.entries).map { fixed.contains($0.path) ? $1 : $0 }
    }
    self.entries = entries
    written = previous?.written ?? source.written
    ownKeys = [minter.key, source.key, source.nextKey].compactMap { $0 }
    let ownTokens = OwnDeveloperTokens(
      ownKeys, retired: settings.musickit.keys.retired, team: settings.musickit.teamID,
      replacing: previous?.gate.ownTokens)
    gate = AccessGate(
      policy: policy, keys: services.access.keySets.table(of: named), clientAuthorities: tls?.clientAuthorities,
      ownTokens: ownTokens, service: services.access)
  }

  /// Makes the routers of both listeners, and the description of the public one.
  func routers() -> (openAPI: OpenAPI, public: Router, admin: Router) {
    let token = TokenEndpoint(minter: minter, gate: gate, bodyLimit: settings.server.limits.bodyBytes)
    let crossOrigin = CrossOrigin(policy: gate.policy) { gate.refusePreflight(of: $0, AuditContext($1)) }
    let allowsMe = settings.catalog?.me ?? false
    let catalog = services.catalog.map { CatalogEndpoint(service: $0, gate: gate, allowsMe: allowsMe) }
    let (page, health) = (Page(generation: self), services.health)
    let own = [token.route, health.liveness, health.readiness(self, isDetailed: false)]
    let routes = own + [catalog?.route].compactMap(\.self)
    let moduleRoutes = settings.server.module ? Page.moduleRoutes : []
    let (described, files) =
      settings.server.page ? (page.describedRoutes, page.publicRoutes) : (moduleRoutes, moduleRoutes)
    let openAPI = OpenAPI((routes + described).flatMap(\.patterns), of: settings)
    let router = { [hosts = settings.publicHosts] (more: [Route]) in
      Router(
        routes + [openAPI.route] + more, hosts: hosts, lastingField: CrossOrigin.field,
        refusalFields: CrossOrigin.preflightFields, finish: crossOrigin.finish)
    }
    let decided = router(files)
    let explain = ExplainEndpoint(
      gate: gate, publicRouter: decided, token: token, catalog: catalog, limits: settings.server.limits.http1)
    let figures = services.metrics.route(of: self)
    let adminRule = OwnPageRule(checksHosts: settings.adminHosts != nil)
    let admin = Router(
      [
        health.livenessOfLoops, health.readiness(self, isDetailed: true), figures,
        explain.route(adminRule), settingsRoute(adminRule),
      ] + (settings.admin?.page ?? false ? page.adminRoutes : []),
      hosts: settings.adminHosts)
    guard source.isDemo else { return (openAPI, decided, admin) }
    // The demo's public page has all that the page of operators has.
    let rule = OwnPageRule(checksHosts: settings.publicHosts != nil)
    let demo = router(page.publicRoutes + [explain.route(rule), figures, page.audit(rule)])
    return (openAPI, demo, admin)
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
    // The present key knows whether its signer has failed.
    let key = previous.flatMap { $0.key.signsLike(key) ? $0.key : nil } ?? key
    if let previous, previous.team == team, previous.policy == policy, previous.key === key {
      previous.growCache(to: capacity)
      return previous
    }
    return try TokenMinter(key: key, team: team, policy: policy, cacheCapacity: capacity)
  }

  /// The admin endpoint `GET /config`: the settings in force, where each was written, and what a reload would change.
  private func settingsRoute(_ rule: OwnPageRule) -> Route {
    Route(getOnThread: "/config", rule) { .json(settingsDocument.bytes) }
  }

  private var settingsDocument: JSONValue {
    let all = entries.map { entry -> (String, JSONValue?) in
      (entry.path, entry.value.map { ["value": $0, "source": .text(entry.source ?? "default")] })
    }
    return .object(of: [("settings", .object(of: all)), ("reload", reloadDocument)])
  }

  /// What a reload would do now; nil if there is nothing to reload.
  private var reloadDocument: JSONValue? {
    guard let load = services.load else { return nil }
    do throws(InvalidSettings) {
      let next = try load(ReadingTime(Reloader.readingTime))
      let fixed = next.settings.needingRestart(next.draft.written, since: settings, written)
      let changed = zip(entries, next.draft.entries).filter { $0.value != $1.value }.map(\.1)
      let changes = changed.map { next -> (String, JSONValue?) in
        (next.path, ["value": next.value ?? .null, "needsRestart": .bool(fixed.contains(next.path))])
      }
      return ["changes": .object(of: changes), "errors": []]
    } catch { return ["changes": [:], "errors": .strings(error.errors.lines)] }
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

  package init(_ error: ListenError, hint settings: String) {
    self.init("\(error) \(settings)", isTemporary: error.isTemporary)
  }
}

/// The parts of the server that last as long as the process, whatever generation of settings uses them.
struct Services: Sendable {
  let access: AccessService
  let catalog: CatalogService?
  let memory: MemoryBudget
  let sink: LogSink
  /// The replicas that share a store; nil without `shared.url`, as is what they share.
  var group: ReplicaGroup?
  var rates: GroupRates?
  /// Apple's quota and its responses; nil without the catalog, too.
  var quota: GroupQuota?
  var sharedCache: RedisSharedCache?
  var spans: SpanExporter?
  var health = Health()
  let metrics = ServerMetrics()
  /// Reads the settings as a reload does; nil if there is nothing to reload.
  var load: Reloader.Load?
  /// The URL at which this machine reaches the public listener. The system picks some ports, so it is nil before the start.
  let publicURL = Locked<String?>(nil)

  /// What settles with the other replicas.
  var participants: [any GroupParticipant] {
    let all: [(any GroupParticipant)?] = [rates, quota, sharedCache]
    return all.compactMap { $0 }
  }
}

extension Services {
  /// - Parameter loops: The loops of the public listener.
  init(
    _ source: RuntimeSnapshot.Source, load: Reloader.Load?, loops: [IOLoop], memory: MemoryBudget, sink: LogSink,
    logger: Logger
  ) throws {
    (self.load, self.memory, self.sink) = (load, memory, sink)
    let settings = source.settings
    let spans = try Self.exporter(source, loops, logger)
    var sharedCache: RedisSharedCache?
    let secret = try settings.shared.map { _ in try GroupSecret(source.key, settings) }
    if let shared = settings.shared, let secret, let files = source.store {
      let group = ReplicaGroup(shared, files, secret.facts, loops: loops, memory: memory, logger: logger)
      self.group = group
      rates = GroupRates(group, secret)
      if settings.catalog != nil { sharedCache = RedisSharedCache(group, secret) }
    }
    let catalog = try settings.catalog.map {
      try CatalogService(
        $0, authorities: source.upstreamAuthorities,
        // One of them is to the store.
        connectionsPerLoop: max(1, settings.server.descriptors.upstreamPerLoop - (settings.shared == nil ? 0 : 1)),
        burst: settings.server.limits.burst, loops: loops, memory: memory, logger: logger, spans: spans,
        shared: { sharedCache?.cache(on: $0) })
    }
    if let group, let secret, let catalog { quota = GroupQuota(group, secret, catalog.proxy) }
    (self.catalog, self.sharedCache, self.spans) = (catalog, sharedCache, spans)
    health = Health(loops)
    access = try AccessService(
      settings.audit, rates: rates, keepsRecent: settings.admin?.page ?? false, loops: loops, sink: sink,
      logger: logger)
  }

  private static func exporter(
    _ source: RuntimeSnapshot.Source, _ loops: [IOLoop], _ logger: Logger
  ) throws -> SpanExporter? {
    guard let settings = source.settings.spanExport, let loop = loops.first else { return nil }
    return try SpanExporter(
      settings, authorities: source.collectorAuthorities,
      proxy: source.proxies.proxy(for: settings.endpoint.origin), loop: loop, logger: logger)
  }
}
