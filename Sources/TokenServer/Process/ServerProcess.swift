import Cryptography
import Dispatch
import EventLoop
import Glibc
import HTTPServer
import Locks
import Logging
import Memory
import ServerSettings
import Telemetry

/// A server with its listeners, from start to drain: the composition root.
struct ServerProcess {
  private let first: RuntimeSnapshot
  /// A sentence that says what the public listener's address comes from.
  private let addressOrigin: String
  private let loops: [IOLoop]
  /// Nil if the catalog is turned off.
  private let catalog: CatalogService?
  private let access: AccessService
  private let memory: MemoryBudget
  private let health = Health()
  private let metrics: ServerMetrics
  private let sink: LogSink
  private let logger: Logger

  /// Makes ready what can be made ready without listening.
  ///
  /// Throws a sentence for the operator.
  ///
  /// - Parameter addressOrigin: A sentence that says what the public listener's address comes from; nil for its settings.
  init(_ source: RuntimeSnapshot.Source, addressOrigin: String? = nil) throws(StartError) {
    let settings = source.settings
    self.addressOrigin = addressOrigin ?? settings.server.address.settings
    let sink = LogSink(
      descriptor: STDERR_FILENO, format: settings.log.format,
      isForPerson: settings.log.format == .text && Self.logsInColour())
    let logger = Logger(label: "server") { label in LineLogHandler(label: label, sink: sink, level: settings.log.level)
    }
    Heap.returnLargeBlocks()
    let trimmer = HeapTrimmer()
    let memory = MemoryBudget(limit: settings.server.limits.memory) { trimmer.trimSoon() }
    do {
      try Self.checkDescriptors(loops: settings.server.loops)
      let loops = try Self.startLoops(settings.server)
      catalog = try settings.catalog.map {
        try CatalogService(
          $0, authorities: source.files.upstreamAuthorities,
          connectionsPerLoop: settings.server.descriptors.upstreamPerLoop, loops: loops, memory: memory, logger: logger)
      }
      access = try AccessService(settings.audit, loops: loops, sink: sink, logger: logger)
      self.loops = loops
    } catch {
      throw StartError("\(error)")
    }
    self.memory = memory
    metrics = ServerMetrics(sink: sink, catalog: catalog, access: access, memory: memory)
    first = try RuntimeSnapshot(source, access: access, health: health, metrics: metrics, catalog: catalog)
    catalog?.use(first)
    access.keySets.use(first.keys)
    (self.sink, self.logger) = (sink, logger)
  }

  /// Serves until a signal asks it to end, and drains.
  ///
  /// - Parameters:
  ///   - reload: How to read the settings again, and the fingerprints of their files before the first read; nil if
  ///     there is nothing to read.
  ///   - announce: Called with the servers' addresses once they accept connections.
  func run(reload: (load: Reloader.Load, files: FileFingerprints)?, announce: (Addresses) -> Void) throws(StartError) {
    let servers = try start()
    for notice in first.notices { logger.warning("\(notice)") }
    warnOfOverflow()
    let reloader = reload.map { reload in
      Reloader(
        first, files: reload.files, servers: servers, catalog: catalog, access: access, health: health,
        metrics: metrics, logger: logger, load: reload.load)
    }
    access.keySets.begin()
    reloader?.watch()
    announce(
      Addresses(
        public: servers.public.addresses, admin: servers.admin?.addresses ?? [], isSecure: first.tls != nil))
    // Without anything to reload, SIGHUP is what it says: the terminal has hung up.
    while ProcessSignals.next() == SIGHUP, let reloader { reloader.reloadOnSignal() }
    ProcessSignals.abort()
    reloader?.stop()
    drain(servers)
    catalog?.close()
    access.keySets.close()
    for loop in loops { loop.stopAndWait() }
    logger.info("The server has ended.")
    access.audit?.flush()
    sink.flush()
  }

  /// Says that locked memory is full, but not each time.
  private func warnOfOverflow() {
    let throttle = Throttle()
    SecureMemory.onOverflow { [logger] in
      guard let suppressed = throttle.admit("overflow") else { return }
      logger.warning(
        """
        Locked memory is full: a secret is in ordinary memory until it is freed, and may be swapped out until then. \
        Signing goes on.
        """, metadata: suppressed > 0 ? ["suppressed": "\(suppressed)"] : [:])
    }
  }

  /// The addresses where the server listens, for the caller of `run`.
  struct Addresses {
    let `public`: [SocketAddress]
    let admin: [SocketAddress]
    let isSecure: Bool
  }

  /// Whether standard error is a terminal on which the user has not turned colours off (no-color.org).
  private static func logsInColour() -> Bool {
    let refusal = unsafe getenv("NO_COLOR")
    let isRefused = unsafe refusal.map { unsafe $0.pointee != 0 } ?? false
    return isatty(STDERR_FILENO) == 1 && !isRefused
  }

  // MARK: Descriptors and threads

  /// Checks that the system grants the descriptors that the settings count on. The process may have been given open ones,
  /// and Dispatch ends a process in which it finds none.
  private static func checkDescriptors(loops: Int) throws(StartError) {
    let least = DescriptorBudget.least(loops: loops)
    guard Descriptor.areAvailable(least - Self.standardStreams) else {
      throw StartError(
        """
        The server needs \(least) descriptors for server.loops = \(loops), and the system does not grant so many beside \
        those that are open: \(DescriptorBudget.remedy), or fs.file-max, or write fewer loops.
        """)
    }
  }

  private static let standardStreams = 3

  /// Starts a thread for each loop.
  private static func startLoops(_ settings: Settings.Server) throws -> [IOLoop] {
    var loops: [IOLoop] = []
    do throws(SocketError) {
      for index in 0..<settings.loops {
        loops.append(try IOLoop.start(label: "loop-\(index)", poller: .init(settings.poller)))
      }
      guard Thread.areAvailable(Self.helpers) else { throw SocketError(call: "pthread_create", code: EAGAIN) }
    } catch {
      guard error.call == "pthread_create" else { throw StartError("An event loop cannot be made: \(error).") }
      throw StartError(
        """
        The system grants this process \(loops.count) of the \(settings.loops + Self.helpers) threads that it needs \
        for server.loops = \(settings.loops): raise the limit of threads (ulimit -u, pids.max) or of memory (ulimit -v), \
        or write fewer loops.
        """)
    }
    return loops
  }

  /// Threads beside those of the loops: for the log, timers, reloads, and name look-ups.
  private static let helpers = 4

  // MARK: Servers

  private typealias Servers = (public: Server, admin: Server?)

  private func start() throws(StartError) -> Servers {
    do {
      let server = try publicServer()
      metrics.watch(server)
      return (server, try adminServer())
    } catch {
      throw StartError("\(error)")
    }
  }

  private func publicServer() throws -> Server {
    let settings = first.settings.server
    var configuration = Server.Configuration(
      endpoint: Endpoint(settings.address),
      // Without an admin listener, no client can read the metrics.
      observer: ServerEvents(sink: sink, logger: logger, metrics: first.settings.admin == nil ? nil : metrics))
    configuration.tls = first.tls
    configuration.strictTransportSecurity = settings.tls?.strictTransportSecurity
    configuration.limits = settings.limits
    if let timeouts = first.settings.catalog?.timeouts { configuration.limits.work = timeouts.whole + Self.workMargin }
    configuration.memory = memory
    configuration.isTrustedProxy = settings.isTrustedProxy
    configuration.requiresProxyHeader = settings.proxyProtocol
    return try Self.opened(as: addressOrigin) {
      try Server(configuration, router: first.publicRouter, loops: loops)
    }
  }

  /// The server; an error names the settings that the address comes from.
  private static func opened(as settings: String, _ server: () throws -> Server) throws -> Server {
    do { return try server() } catch let error as ListenError { throw StartError("\(error) \(settings)") }
  }

  /// How much longer than the catalog's own timeout a caller's connection waits for its response: a key set may have to
  /// be fetched first.
  private static let workMargin = Duration.seconds(60)

  private func adminServer() throws -> Server? {
    guard let admin = first.settings.admin else { return nil }
    var configuration = Server.Configuration(
      endpoint: .tcp(host: admin.host.description, port: admin.port),
      observer: ServerEvents(sink: sink, logger: logger))
    // Its own, so that operators see what goes on when the other is used up.
    configuration.memory = MemoryBudget(limit: Self.adminMemory)
    configuration.isTrustedProxy = first.settings.server.isTrustedProxy
    configuration.limits.connections = first.settings.server.descriptors.adminConnections
    return try Self.opened(as: "The settings are admin.host (ADMIN_HOST) and admin.port (ADMIN_PORT).") {
      try Server(configuration, router: first.adminRouter, loops: loops)
    }
  }

  /// For the few connections of probes and scrapes.
  private static let adminMemory = 16 << 20

  // MARK: The end

  private func drain(_ servers: Servers) {
    let settings = first.settings.server
    logger.info(
      "The server drains.", metadata: ["drain.delay": "\(durationText(Int(settings.drainDelay.components.seconds)))"])
    health.beginDrain()
    servers.public.beginDrain()
    pause(settings.drainDelay)
    servers.public.drain(timeout: settings.drainTimeout)
    servers.admin?.drain(timeout: .seconds(1))
  }

  private func pause(_ duration: Duration) {
    let (seconds, attoseconds) = duration.components
    var left = timespec(tv_sec: Int(seconds), tv_nsec: Int(attoseconds / 1_000_000_000))
    var rest = timespec()
    while unsafe nanosleep(&left, &rest) != 0 { left = rest }
  }
}

extension Settings.Server.Address {
  /// A sentence that names the settings.
  var settings: String {
    switch self {
    case .tcp: "The settings are server.host (SERVER_HOST, --host) and server.port (SERVER_PORT, --port)."
    case .unix: "The setting is server.unixSocket (SERVER_UNIX_SOCKET, --unix-socket)."
    }
  }
}

extension Settings.Server {
  fileprivate var isTrustedProxy: @Sendable (IPAddress) -> Bool {
    { [trustedProxies] address in trustedProxies.contains { $0.contains(address) } }
  }
}

extension Endpoint {
  fileprivate init(_ address: Settings.Server.Address) {
    switch address {
    case .tcp(let host, let port): self = .tcp(host: host.description, port: port)
    case .unix(let path): self = .unix(path: path)
    }
  }
}

extension IOLoop.PollerKind {
  fileprivate init(_ poller: Settings.Server.Poller) {
    switch poller {
    case .epoll: self = .epoll
    case .poll: self = .poll
    }
  }
}

/// The signals that a serving process acts on: SIGTERM and SIGINT end it, SIGHUP reloads.
///
/// They are blocked from the first moment of `main` on, so that one that comes early waits instead of ending the
/// process. The main thread takes them by sigwait(3): that needs no other thread, which the system may not grant.
public enum ProcessSignals {
  /// Holds them back until `next` takes them. Threads inherit that: to be called before there are any.
  public static func hold() { change(SIG_BLOCK) }

  /// Gives them their usual effect again: for commands that do not serve.
  public static func release() { change(SIG_UNBLOCK) }

  /// Has SIGTERM and SIGINT end the process in good order: for as long as there is nothing to drain.
  static func endAtOnce() {
    // Not the default action: process 1 of a container has none.
    setHandler { _ in _exit(0) }
  }

  /// Has SIGTERM and SIGINT end the process with 1: a second one does not wait for the drain.
  static func abort() { setHandler { _ in _exit(1) } }

  /// Waits for the next one.
  static func next() -> Int32 {
    var set = Self.set([SIGHUP, SIGTERM, SIGINT])
    var number: Int32 = 0
    while unsafe sigwait(&set, &number) != 0 {}
    return number
  }

  private static func setHandler(_ handler: @escaping @convention(c) (Int32) -> Void) {
    for number in [SIGTERM, SIGINT] { signal(number, handler) }
    var set = Self.set([SIGTERM, SIGINT])
    unsafe pthread_sigmask(SIG_UNBLOCK, &set, nil)
  }

  private static func change(_ how: Int32) {
    var set = Self.set([SIGHUP, SIGTERM, SIGINT])
    unsafe pthread_sigmask(how, &set, nil)
  }

  private static func set(_ numbers: [Int32]) -> sigset_t {
    var set = sigset_t()
    unsafe sigemptyset(&set)
    for number in numbers { unsafe sigaddset(&set, number) }
    return set
  }
}

/// Which release of the program this is.
public enum Release {
  /// Its version (semver.org).
  public static let version: StaticString = "0.1.0"
}

/// Returns free memory to the system after a burst, on a thread of its own.
final class HeapTrimmer: Sendable {
  private struct State {
    /// Which of ``delays`` runs; nil while none does.
    var step: Int?
    var generation = 0
  }

  private let state = Locked(State())
  private let queue = DispatchQueue(label: "heap", qos: .utility)

  /// Seconds before each trim, so that one walk through the heap serves a burst that ends in many steps: within the ten
  /// seconds in which memory is to be back, and once more when callers that waited for Apple have gone as well.
  private static let delays = [2, 6, 30]

  /// Trims the heap a little later, and again, once for any number of calls until then.
  func trimSoon() {
    state.withLock { state in
      guard state.step != 0 else { return }
      schedule(0, &state)
    }
  }

  private func schedule(_ step: Int, _ state: inout State) {
    state.step = step
    state.generation += 1
    let generation = state.generation
    queue.asyncAfter(deadline: .now() + .seconds(Self.delays[step])) { self.trim(generation) }
  }

  private func trim(_ generation: Int) {
    guard state.withLock({ generation == $0.generation }) else { return }
    Heap.trim()
    state.withLock { state in
      guard generation == state.generation, let step = state.step else { return }
      if step + 1 < Self.delays.count { schedule(step + 1, &state) } else { state.step = nil }
    }
  }
}
