import DeveloperToken
import Dispatch
import EventLoop
import Glibc
import HTTPServer
import Locks
import Logging
import TLS
import Telemetry

/// A server with its listeners, from start to drain: the composition root.
struct ServerProcess {
  private let settings: Settings
  private let sink: LogSink
  private let logger: Logger
  private let health = Health()
  private let minter: TokenMinter
  private let tls: TLSContext?

  /// Makes ready what can be made ready without listening.
  ///
  /// Throws a sentence for the operator.
  init(_ settings: Settings, key: SigningKey) throws(StartError) {
    self.settings = settings
    sink = LogSink(descriptor: STDERR_FILENO, format: settings.log.format)
    let (sink, level) = (sink, settings.log.level)
    logger = Logger(label: "server") { label in LineLogHandler(label: label, sink: sink, level: level) }
    do {
      minter = try TokenMinter(key: key, team: settings.musickit.teamID, policy: try settings.token.policy())
      tls = try settings.server.tls.map { try TLSContext(certificateFile: $0.certificateFile, keyFile: $0.keyFile) }
    } catch {
      throw StartError("\(error)")
    }
  }

  /// Serves until a signal asks it to end, and drains.
  ///
  /// - Parameters:
  ///   - notices: What the operator should know about the start, for the log.
  ///   - announce: Called with the servers' addresses once they accept connections.
  func run(notices: [String], announce: (Addresses) -> Void) throws(StartError) {
    let loops: [EventLoop]
    let servers: (public: Server, admin: Server?)
    do {
      loops = try (0..<settings.server.loops).map { index in
        try EventLoop.start(label: "loop-\(index)", poller: .init(settings.server.poller))
      }
      servers = (try publicServer(loops), try adminServer(loops))
    } catch {
      throw StartError("\(error)")
    }
    for notice in notices + minter.key.findings.map(\.description) + (tls?.findings ?? []) {
      logger.warning("\(notice)")
    }
    let end = DispatchSemaphore(value: 0)
    let signals = SignalSource()
    listen(signals, end)
    announce(Addresses(public: servers.public.addresses, admin: servers.admin?.addresses ?? [], isSecure: tls != nil))
    end.wait()
    drain(servers)
    for loop in loops { loop.stop() }
    logger.info("The server has ended.")
    sink.flush()
    withExtendedLifetime(signals) {}
  }

  /// Where a server listens, for whoever started it.
  struct Addresses {
    let `public`: [SocketAddress]
    let admin: [SocketAddress]
    let isSecure: Bool
  }

  // MARK: Servers

  private func publicServer(_ loops: [EventLoop]) throws -> Server {
    let policy = AnonymousPolicy(settings: settings.access.anonymous)
    let crossOrigin = CrossOrigin(policy: policy)
    let routes = [
      TokenEndpoint(minter: minter, policy: policy, bodyLimit: settings.server.limits.bodyBytes).route, health.liveness,
      health.readiness(minter), OpenAPI.route,
    ]
    var configuration = Server.Configuration(
      endpoint: Endpoint(settings.server.address), observer: ServerEvents(sink: sink, logger: logger))
    configuration.tls = tls
    configuration.limits = settings.server.limits
    let proxies = settings.server.trustedProxies
    configuration.isTrustedProxy = { address in proxies.contains { $0.contains(address) } }
    let router = Router(routes, finish: { crossOrigin.finish(&$0, $1) })
    return try Server(configuration, router: router, loops: loops)
  }

  private func adminServer(_ loops: [EventLoop]) throws -> Server? {
    guard let admin = settings.admin else { return nil }
    let configuration = Server.Configuration(
      endpoint: .tcp(host: admin.host.description, port: admin.port),
      observer: ServerEvents(sink: sink, logger: logger))
    return try Server(
      configuration, router: Router([health.liveness, health.detailedReadiness(minter)]), loops: loops)
  }

  // MARK: The end

  private func listen(_ signals: SignalSource, _ end: DispatchSemaphore) {
    let ending = Ending()
    for number in [SIGTERM, SIGINT] {
      signals.on(number) {
        // The second one does not wait for anybody.
        guard ending.begin() else { _exit(1) }
        end.signal()
      }
    }
  }

  private func drain(_ servers: (public: Server, admin: Server?)) {
    logger.info("The server drains.", metadata: ["drain.delay": "\(settings.server.drainDelay)"])
    health.beginDrain()
    servers.public.beginDrain()
    let delay = settings.server.drainDelay.components
    var left = timespec(tv_sec: Int(delay.seconds), tv_nsec: Int(delay.attoseconds / 1_000_000_000))
    while unsafe nanosleep(&left, nil) != 0 { unsafe nanosleep(&left, nil) }
    servers.public.drain(timeout: settings.server.drainTimeout)
    servers.admin?.drain(timeout: .seconds(1))
  }
}

/// Why a server does not start: a sentence for the operator.
struct StartError: Error, CustomStringConvertible {
  let description: String

  init(_ description: String) {
    self.description = description
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

extension EventLoop.PollerKind {
  fileprivate init(_ poller: Settings.Server.Poller) {
    switch poller {
    case .epoll: self = .epoll
    case .poll: self = .poll
    }
  }
}

/// Whether the end has begun.
private final class Ending: @unchecked Sendable {
  // Sendable: touched only under the lock.
  private let lock = Mutex()
  private var hasBegun = false

  /// False if it had already.
  func begin() -> Bool {
    lock.withLock {
      defer { hasBegun = true }
      return !hasBegun
    }
  }
}
