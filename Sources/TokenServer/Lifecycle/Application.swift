package import Cryptography
package import DeveloperToken
import Dispatch
package import EventLoop
import Glibc
import HTTP1
import HTTPServer
import Locks
import Logging
import Memory
package import ServerSettings
import Telemetry
import UpstreamAdmission

/// The composition root of the server: settings, snapshot, listeners, run, drain.
package struct Application {
  private let initialSnapshot: RuntimeSnapshot
  /// A sentence that names the settings of the public listener's address, for errors.
  private let addressHint: String
  private let loops: SystemResources.Loops
  private let logger: Logger
  private var services: Services { initialSnapshot.services }

  /// Serves with these settings, which it reloads, until a signal ends the process. Returns whether all audit records are
  /// written. Throws `InvalidSettings`, or a sentence for the operator. The findings are the failures to protect the key's
  /// memory, and `announce` gets the addresses and the settings of the listeners, once they accept connections.
  package static func serve(
    _ input: SettingsInput, findings: [Finding], announce: (Addresses, Settings.Server) -> Void
  ) throws -> Bool {
    // While there is one thread, because both change the environment.
    let manager = try ServiceNotifier.take()
    let sockets = try PassedListeners(PassedSocket.take())
    var input = input
    input.host.sockets = sockets
    // The fingerprints come before the contents, so a change in between causes another reload.
    var files = FileFingerprints([input.configurationFile].compactMap { $0 })
    // Settings, and files that they name, may come from a pipe, which can take some time.
    ProcessSignals.endAtOnce()
    let loaded = try Settings.load(input)
    files.watch(loaded.paths)
    let source = try RuntimeSnapshot.Source(loaded, findings: findings.map(\.description))
    ProcessSignals.hold()
    let confinement = FileConfinement.begin(for: loaded, keepsAbstractSockets: manager?.isAbstract == true)
    try probe(source.key)
    let reload: Reloader.Load = { [input] time throws(InvalidSettings) in
      var input = input
      input.readingTime = time
      return try Reloader.load(input, within: confinement)
    }
    return try Application(source, load: reload).run(files: files, manager: manager, confinement: confinement) {
      announce($0, loaded.settings.server)
    }
  }

  /// Lets a signer outside of the server sign once, which may take some time. A signal ends it, and then the process.
  private static func probe(_ key: SigningKey) throws(StartError) {
    do throws(RemoteSignerError) { try key.remote?.probe { !ProcessSignals.isEndPending } } catch {
      if ProcessSignals.isEndPending { _exit(0) }
      throw StartError(error.description, isTemporary: error.isTemporary)
    }
  }

  /// Serves with an emulator in Apple's place, for every caller, as ``serve(_:findings:announce:)`` does. `addressHint`
  /// names the source of the public listener's address in errors.
  package static func serveDemo(
    _ settings: Settings, key: SigningKey, findings: [Finding], addressHint: String, announce: (Addresses) -> Void
  ) throws {
    var source = try RuntimeSnapshot.Source(
      settings: settings, key: key, warnings: findings.map(\.description), proxies: ProxyEnvironment([:]))
    source.isDemo = true
    _ = try Application(source, load: nil, addressHint: addressHint).run(announce: announce)
  }

  /// Prepares everything that needs no listener. `load` is nil if there is nothing to reload.
  private init(
    _ source: RuntimeSnapshot.Source, load: Reloader.Load?, addressHint: String? = nil
  ) throws(StartError) {
    let settings = source.settings
    self.addressHint = addressHint ?? settings.server.address.settings
    let sink = LogSink(
      descriptor: STDERR_FILENO, format: settings.log.format,
      isForPerson: settings.log.format == .text && Self.usesColour(on: STDERR_FILENO),
      filter: LogFilter(level: settings.log.level, access: settings.log.access))
    let logger = Logger(label: "server") { label in LineLogHandler(label: label, sink: sink) }
    Heap.returnLargeBlocks()
    let trimmer = HeapTrimmer()
    let memory = MemoryBudget(limit: settings.server.limits.memory) { trimmer.trimSoon() }
    let services: Services
    do {
      try SystemResources.checkDescriptors(loops: settings.server.loops)
      loops = try SystemResources.startLoops(settings.server, hasAdmin: settings.admin != nil)
      services = try Services(source, load: load, loops: loops.public, memory: memory, sink: sink, logger: logger)
    } catch { throw StartError("\(error)") }
    initialSnapshot = try RuntimeSnapshot(source, of: services)
    services.metrics.signingKeys.all = [
      SigningKeys.Key(id: initialSnapshot.minter.key.keyID, state: .signing, lastProof: Glibc.time(nil))
    ]
    services.catalog?.use(initialSnapshot)
    services.access.use(initialSnapshot)
    self.logger = logger
  }

  /// Serves until a signal requests the end, and drains. Returns whether all audit records are written.
  private func run(
    files: FileFingerprints = FileFingerprints([]), manager: ServiceNotifier? = nil,
    confinement: FileConfinement? = nil, announce: (Addresses) -> Void
  ) throws(StartError) -> Bool {
    let servers = try start()
    confinement?.report(to: logger)
    // Above the level of the log, so that a log without warnings has them at the start.
    let level = max(.warning, initialSnapshot.settings.log.level)
    for notice in initialSnapshot.notices { logger.log(level: level, "\(notice)") }
    // The demo's instructions are the last lines at its start.
    let isDemo = initialSnapshot.source.isDemo
    for check in isDemo ? [] : initialSnapshot.settings.hostChecks { logger.info("\(check)") }
    warnWhenLockedMemoryIsFull()
    let reloader = services.load.map { load in
      Reloader(initialSnapshot, files: files, servers: servers, logger: logger, manager: manager, load: load)
    }
    services.access.keySets.begin()
    services.group?.start(services.participants)
    services.spans?.start()
    reloader?.watch()
    let addresses = Addresses(
      public: servers.public.addresses, admin: servers.admin?.addresses ?? [], isSecure: initialSnapshot.tls != nil)
    services.publicURL.withLock { $0 = addresses.publicURL }
    announce(addresses)
    if let manager { tell(manager, addresses) }
    while goesOn(after: ProcessSignals.next(), reloader) {}
    ProcessSignals.exitOnNextSignal()
    reloader?.stop()
    manager?.stopping(within: longestDrain)
    drain(servers)
    services.spans?.close()
    services.catalog?.close()
    services.access.keySets.close()
    services.group?.close()
    for loop in loops.all { loop.stopAndWait() }
    RemoteSigner.endCommands()
    logger.info("Server stopped")
    services.access.audit.flush()
    let lost = services.access.audit.waitingRecords
    // Those that are being written now count, too.
    let records = lost == 1 ? "its last record" : "up to \(lost) of its last records"
    if lost > 0 { logger.error("The audit log cannot be written in time, so it loses \(records).") }
    services.sink.flush()
    return lost == 0
  }

  /// Acts on a signal. Returns whether the server goes on. SIGHUP without settings to reload is the terminal's hang-up.
  private func goesOn(after signal: Int32, _ reloader: Reloader?) -> Bool {
    switch signal {
    case SIGHUP:
      reloader?.reloadOnSignal()
      return reloader != nil
    case SIGUSR1:
      // The snippets of nginx for logrotate send it.
      services.access.audit.reopen()
      logger.notice("Log files reopened", metadata: ["cause": "SIGUSR1"])
    case SIGUSR2: logger.notice("The server ignores SIGUSR2.")
    default: return false
    }
    return true
  }

  /// Tells that the server accepts connections, and from now on that its loops make progress.
  private func tell(_ manager: ServiceNotifier, _ addresses: Addresses) {
    if let error = manager.ready(addresses.lines.joined(separator: ", ")) {
      logger.warning(
        "The service manager did not take the message that the server is ready.", metadata: ["error": "\(error)"])
    }
    guard let interval = manager.watchdogInterval else { return }
    LoopPulse.start(on: loops.all, every: interval) { manager.beat() }
  }

  /// Logs from now on, at a limited rate, when locked memory is full.
  private func warnWhenLockedMemoryIsFull() {
    let throttle = Throttle(logger)
    SecureMemory.onOverflow {
      throttle.log(
        "overflow",
        "Locked memory is full, so a secret is in ordinary memory, which the system may swap out. Signing continues.")
    }
  }

  package struct Addresses {
    package let `public`: [SocketAddress]
    package let admin: [SocketAddress]
    let isSecure: Bool

    /// One line for each listener.
    package var lines: [String] { `public`.map { "Listening on \(url($0))" } + admin.map { "Admin on http://\($0)" } }

    /// The URL at which this machine reaches the public listener.
    var publicURL: String? { (`public`.first { $0.ipAddress?.isIPv4 ?? false } ?? `public`.first).map(url) }

    /// Whether only this machine reaches the public listener.
    package var areLoopback: Bool { `public`.allSatisfy { $0.ipAddress?.isLoopback ?? true } }

    /// Returns `https://127.0.0.1:8080`, or `unix:/run/server.sock`.
    package func url(_ address: SocketAddress) -> String {
      guard case .ip = address else { return "\(address)" }
      return "\(isSecure ? "https" : "http")://\(address)"
    }
  }

  /// Returns whether a descriptor is a terminal on which the user has not turned colours off (no-color.org).
  package static func usesColour(on descriptor: Int32) -> Bool {
    let refusal = unsafe getenv("NO_COLOR")
    let isRefused = unsafe refusal.map { unsafe $0.pointee != 0 } ?? false
    return isatty(descriptor) == 1 && !isRefused
  }

  private typealias Servers = (public: Server, admin: Server?)

  private func start() throws(StartError) -> Servers {
    let routers = initialSnapshot.routers()
    let server = try publicServer(routers.public)
    services.metrics.watch(server)
    return (server, try adminServer(routers.admin))
  }

  private func publicServer(_ router: Router) throws(StartError) -> Server {
    let settings = initialSnapshot.settings.server
    var configuration = Server.Configuration(
      endpoint: Endpoint(settings.address),
      // Without an admin listener, no client can read the metrics, so the server counts none.
      observer: ServerEvents(
        sink: services.sink, logger: logger,
        metrics: initialSnapshot.settings.admin == nil ? nil : services.metrics, spans: services.spans))
    configuration.reusesPort = settings.reusePort
    configuration.tls = initialSnapshot.tls
    // The TLS context offers it, or does not (server.http2).
    configuration.http2 = .byALPN
    configuration.strictTransportSecurity = settings.tls?.strictTransportSecurity
    configuration.limits = settings.limits
    if let timeouts = initialSnapshot.settings.catalog?.timeouts {
      configuration.limits.work = timeouts.whole + Self.workMargin
    }
    configuration.memory = services.memory
    configuration.isTrustedProxy = { [proxies = settings.trustedProxies] address in
      proxies.contains { $0.contains(address) }
    }
    configuration.forwardedField = settings.forwarded
    configuration.requiresProxyHeader = settings.proxyProtocol
    do throws(ListenError) { return try Server(configuration, router: router, loops: loops.public) } catch {
      throw StartError(error, hint: addressHint)
    }
  }

  /// The time for a response beyond the catalog's own timeout: for fetches of key sets, 10 s each, and for slow clients.
  private static let workMargin = Duration.seconds(60)

  private func adminServer(_ router: Router) throws(StartError) -> Server? {
    guard let admin = initialSnapshot.settings.admin, let loop = loops.admin else { return nil }
    var configuration = Server.Configuration(
      endpoint: Endpoint(admin), observer: ServerEvents(sink: services.sink, logger: logger))
    configuration.reusesPort = initialSnapshot.settings.server.reusePort
    // A separate budget, so that operators can still use the admin listener when the public one has used up its budget.
    configuration.memory = MemoryBudget(limit: Self.adminMemory)
    // No trusted proxy: a browser beside it would escape the check of hosts, and audit records name the operator.
    configuration.limits.connections = initialSnapshot.settings.server.descriptors.adminConnections
    configuration.spareDescriptors = Self.spareDescriptors
    do throws(ListenError) { return try Server(configuration, router: router, loops: [loop]) } catch {
      throw StartError(error, hint: Settings.Admin.addressSettings)
    }
  }

  /// The memory budget for the few connections of probes and scrapes, in bytes.
  private static let adminMemory = 16 << 20
  /// The descriptors for probes and scrapes when the process has no others left, of those that connections leave to files.
  private static let spareDescriptors = 4

  /// The most time that a drain of both listeners takes, with a reserve.
  private var longestDrain: Duration {
    let settings = initialSnapshot.settings.server
    return settings.drainDelay + settings.drainTimeout + .seconds(10)
  }

  private func drain(_ servers: Servers) {
    let settings = initialSnapshot.settings.server
    let delay = durationText(Int(settings.drainDelay.components.seconds))
    logger.info("Drain started", metadata: ["drain.delay": "\(delay)"])
    services.health.beginDrain()
    servers.public.beginDrain()
    _ = DispatchSemaphore(value: 0).wait(timeout: .now() + settings.drainDelay / .seconds(1))
    servers.public.drain(timeout: settings.drainTimeout)
    servers.admin?.drain(timeout: .seconds(1))
  }
}

extension Settings.Server.Address {
  /// A sentence that names the settings of the address.
  package var settings: String {
    switch self {
    case .tcp: "The settings are server.host (SERVER_HOST, --host) and server.port (SERVER_PORT, --port)."
    case .unix: "The setting is server.unixSocket (SERVER_UNIX_SOCKET, --unix-socket)."
    case .passed: "The service manager has opened this socket."
    }
  }
}

extension Settings.Admin {
  package static let addressSettings = "The settings are admin.host (ADMIN_HOST) and admin.port (ADMIN_PORT)."
}

extension Endpoint {
  package init(_ address: Settings.Server.Address) {
    switch address {
    case .tcp(let host, let port): self = .tcp(host: host.description, port: port)
    case .unix(let path): self = .unix(path: path)
    case .passed(let sockets): self = .passed(sockets)
    }
  }

  package init(_ admin: Settings.Admin) {
    self = admin.passed.isEmpty ? .tcp(host: admin.host.description, port: admin.port) : .passed(admin.passed)
  }
}
