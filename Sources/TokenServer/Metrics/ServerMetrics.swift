import CatalogProxy
import DeveloperToken
import Dispatch
import Glibc
import HTTP1
import HTTPMessages
import HTTPServer
import HTTPTypes
import Locks
import Memory
import ServerSettings
import TLS
import Telemetry

/// The page `/metrics`: counts and present values, for Prometheus and readers of its format.
///
/// The server counts very little for these metrics: most values are read from their owners at each scrape. Requests and
/// connections are those of the public listener. Probes and scrapes at the admin listener do not count, because they
/// would blur the numbers.
final class ServerMetrics: Sendable {
  /// The counts of responses.
  let requests = RequestMetrics()
  /// The counts of failures of connections.
  let connections = ConnectionTally()
  /// The states of the signing keys.
  let signingKeys = SigningKeys()
  /// The counts of reloads.
  let reloads = ReloadTally()
  /// Reads the settings as a reload does, for `/config`.
  let load = Locked<Reloader.Load?>(nil)

  private let sink: LogSink
  private let catalog: CatalogService?
  private let access: AccessService
  private let memory: MemoryBudget
  private let group: ReplicaGroup?
  private let rates: GroupRates?
  private let sharedCache: RedisSharedCache?
  private let spans: SpanExporter?
  private let startTime = Glibc.time(nil)
  private let watched = Locked(Watched())

  private struct Watched {
    /// Weak, because the server's router refers to this object.
    weak var server: Server?
  }

  /// The queue that writes the pages, one at a time. It is not an event loop, because the system's figures are in
  /// files.
  private let queue = DispatchQueue(label: "metrics")

  init(
    sink: LogSink, catalog: CatalogService?, access: AccessService, memory: MemoryBudget, group: ReplicaGroup? = nil,
    rates: GroupRates? = nil, sharedCache: RedisSharedCache? = nil, spans: SpanExporter? = nil
  ) {
    self.group = group
    self.rates = rates
    self.sharedCache = sharedCache
    self.spans = spans
    self.memory = memory
    self.sink = sink
    self.catalog = catalog
    self.access = access
  }

  /// Reports the connections of this server from now on.
  func watch(_ server: Server) {
    watched.withLock { $0.server = server }
  }

  /// Returns the route, for the tokens and the certificate of one generation.
  ///
  /// - Parameter readiness: Returns the report of `/readyz`. It renews the callers' token if that is due, so the
  ///   token's metrics do not depend on callers.
  func route(
    _ minter: TokenMinter, _ tls: TLSContext?, readiness: @escaping @Sendable () -> ReadinessReport
  ) -> Route {
    Route(
      "/metrics",
      [
        .get(reply: { request in
          let id = request.id
          let work = DeferredWork { _ in
            await Response.onThread(requestID: id) {
              Response(
                .ok, prepared: Self.fields, body: self.queue.sync { self.page(minter, tls, readiness()).bytes })
            }
          }
          return .deferred(work)
        })
      ])
  }

  private static func write(_ failures: [TLSFailure: Int], to text: inout MetricsText) {
    text.begin(tlsFailures)
    for failure in TLSFailure.allCases {
      text.sample(of: tlsFailures, Double(failures[failure, default: 0]), [.word(failure.label)])
    }
  }

  private static func write(_ tls: TLSContext, to text: inout MetricsText) {
    text.begin(certificate)
    let now = time(nil)
    text.sample(of: certificate, Double(tls.certificateNotAfter - now))
    for (name, further) in tls.furtherCertificates {
      text.sample(of: certificate, Double(further.notAfter - now), [.configured(name)])
    }
  }

  private static let fields = FieldSection([
    .contentType: MetricsText.contentType, .cacheControl: "no-store", .xContentTypeOptions: "nosniff",
  ])

  private func page(_ minter: TokenMinter, _ tls: TLSContext?, _ readiness: ReadinessReport) -> MetricsText {
    var text = MetricsText()
    text.begin(Self.build)
    text.sample(of: Self.build, 1, [.word(Release.version)])
    Self.write(readiness, to: &text)
    requests.write(to: &text)
    if let server = watched.withLock({ $0.server }) {
      text.add(Self.openConnections, of: server)
      Self.write(server.loopLags, to: &text)
    }
    text.add(Self.memory, of: memory)
    text.begin(Self.memoryRefusals)
    for purpose in MemoryBudget.Purpose.allCases {
      text.sample(of: Self.memoryRefusals, Double(memory.refusals(for: purpose)), [.word(purpose.label)])
    }
    let connections = connections.counts
    text.add(Self.failedConnections, of: connections)
    Self.write(connections, to: &text)
    if tls != nil { Self.write(connections.tlsFailures, to: &text) }
    access.tally.write(to: &text)
    text.add(AccessTally.audit, of: access.audit)
    text.add(Self.keySets, of: access.keySets.counts)
    let reloads = reloads.counts
    text.add(Self.reloads, of: reloads)
    text.begin(Self.needingRestart)
    for setting in reloads.needingRestart { text.sample(of: Self.needingRestart, 1, [.configured(setting)]) }
    text.add(Self.tokens, of: minter)
    Self.write(minter, to: &text)
    signingKeys.write(to: &text, accepted: catalog?.proxy.status.tokenAcceptedAt)
    if let tls { Self.write(tls, to: &text) }
    Self.write(
      CertificateEnds(
        clientAuthorities: tls?.clientAuthoritiesNotAfter,
        upstreamChain: catalog?.authorities.current.serverChainNotAfter,
        upstreamAuthorities: catalog?.authorities.current.authoritiesNotAfter),
      to: &text)
    if let catalog {
      let status = catalog.proxy.status
      text.add(Self.catalog, of: status)
      let clients = status.clients.sorted { $0.key < $1.key }
      text.begin(Self.clientAttempts)
      for (id, counts) in clients { text.sample(of: Self.clientAttempts, Double(counts.attempts), [.configured(id)]) }
      text.begin(Self.clientLimited)
      for (id, counts) in clients { text.sample(of: Self.clientLimited, Double(counts.limited), [.configured(id)]) }
      catalog.tally.write(to: &text)
      text.add(Self.upstreamConnections, of: catalog.counters)
    }
    if let group {
      text.add(Self.group, of: group)
      Self.write(group.differences, to: &text)
      Self.write(group.counts, to: &text)
    }
    if let rates { text.add(Self.sharedRates, of: rates) }
    if let sharedCache { Self.write(sharedCache.counts, to: &text) }
    if let spans { Self.write(spans.counts, to: &text) }
    text.add(Self.log, of: sink)
    text.add(Self.start, of: startTime)
    text.add(Self.process, of: ProcessFigures())
    return text
  }
}

extension MemoryBudget.Purpose {
  fileprivate var label: StaticString {
    switch self {
    case .connection: "connection"
    case .request: "request"
    case .response: "response"
    case .waiting: "waiting"
    case .upstream: "upstream"
    }
  }
}

/// The present use of system resources by the process. Reading it reads files, so do not do that on an event loop.
struct ProcessFigures: Sendable {
  /// The bytes of memory in use, shared memory included (proc(5), `statm`); 0 if unknown.
  let residentBytes: Int
  /// The CPU seconds of all cores, user and system.
  let cpuSeconds: Double
  /// The number of open descriptors; 0 if unknown.
  let openDescriptors: Int
  /// The maximum number of open descriptors.
  let maximumDescriptors: Int

  /// Reads the present values.
  init() {
    residentBytes = Self.residentPages() * sysconf(Int32(_SC_PAGESIZE))
    cpuSeconds = Self.cpuTime()
    openDescriptors = Self.countDescriptors()
    var limit = rlimit()
    maximumDescriptors =
      unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0
      ? Int(clamping: limit.rlim_cur) : 0
  }

  private static func residentPages() -> Int {
    guard let text = try? SmallFile.read("/proc/self/statm", atMost: 4096) else { return 0 }
    let pages = String(decoding: text, as: UTF8.self).split(separator: " ")
    return pages.count > 1 ? Int(pages[1]) ?? 0 : 0
  }

  private static func cpuTime() -> Double {
    var time = timespec()
    guard unsafe clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) == 0 else { return 0 }
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
  }

  private static func countDescriptors() -> Int {
    guard let folder = unsafe opendir("/proc/self/fd") else { return 0 }
    defer { unsafe _ = closedir(folder) }
    var count = 0
    while unsafe readdir(folder) != nil { count += 1 }
    // The directory's own descriptor, `.` and `..` do not count.
    return max(0, count - 3)
  }
}
