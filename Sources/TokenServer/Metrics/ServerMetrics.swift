import CatalogProxy
import DeveloperToken
import Dispatch
import Glibc
import HTTP1
import HTTPMessages
import HTTPServer
import HTTPTypes
import Locks
import ServerSettings
import TLS
import Telemetry

/// The page `/metrics`: counts and present values, for Prometheus and readers of its format.
///
/// Most values are read from their owners at each scrape. Requests and connections are those of the public listener.
/// Probes and scrapes at the admin listener do not count, because they would blur the numbers.
final class ServerMetrics: Sendable {
  let requests = RequestMetrics()
  let connections = Locked(ConnectionTally())
  let signingKeys = SigningKeys()
  let reloads = Locked(ReloadTally())
  /// Reads the settings as a reload does, for `/config`.
  let load = Locked<Reloader.Load?>(nil)

  let startTime = Glibc.time(nil)
  private let watched = Locked(Watched())

  private struct Watched {
    /// Weak, because the server's router refers to this object.
    weak var server: Server?
  }

  /// The queue that writes the pages, one at a time. It is not an event loop, because the system's figures are in
  /// files.
  private let queue = DispatchQueue(label: "metrics")

  func watch(_ server: Server) { watched.withLock { $0.server = server } }

  /// - Parameter readiness: Returns the report of `/readyz`. It renews the callers' token if that is due, so the
  ///   token's metrics do not depend on callers.
  func route(
    _ minter: TokenMinter, _ tls: TLSContext?, _ services: Services,
    readiness: @escaping @Sendable () -> ReadinessReport
  ) -> Route {
    Route(getOnThread: "/metrics") {
      self.queue.sync {
        let scrape = Scrape(
          metrics: self, server: self.watched.withLock { $0.server }, minter: minter, tls: tls, services: services,
          readiness: readiness(), connections: self.connections.withLock { $0 })
        let text = Self.groups.reduce(into: MetricsText()) { $1.write(scrape, &$0) }
        return Response(.ok, prepared: Self.fields, body: text.bytes)
      }
    }
  }

  private static let fields = FieldSection([
    .contentType: MetricsText.contentType, .cacheControl: "no-store", .xContentTypeOptions: "nosniff",
  ])

  /// All metrics, in the order of the page.
  static var all: [Metric] { groups.flatMap(\.metrics) }
}

/// What one page of metrics is about.
struct Scrape {
  let metrics: ServerMetrics
  let server: Server?
  let minter: TokenMinter
  let tls: TLSContext?
  let services: Services
  let readiness: ReadinessReport
  let connections: ConnectionTally
}

/// Metrics of one part of the server, without lines if the server has no such part.
struct MetricGroup: Sendable {
  let metrics: [Metric]
  let write: @Sendable (Scrape, inout MetricsText) -> Void

  init<Part>(_ readings: [MetricReading<Part>], of part: @escaping @Sendable (Scrape) -> Part?) {
    metrics = readings.map(\.metric)
    write = { scrape, text in
      if let part = part(scrape) { text.add(readings, of: part) }
    }
  }
}

/// The present use of system resources by the process. Reading it reads files, so do not do that on an event loop.
struct ProcessFigures: Sendable {
  /// The bytes of memory in use, shared memory included (proc(5), `statm`); 0 if unknown.
  let residentBytes: Int
  let cpuSeconds: Double
  /// The number of open descriptors; 0 if unknown.
  let openDescriptors: Int
  let maximumDescriptors: Int

  init() {
    residentBytes = Self.residentPages() * sysconf(Int32(_SC_PAGESIZE))
    // In microseconds (clock(3)).
    cpuSeconds = Double(clock()) / 1e6
    openDescriptors = HostFacts.openDescriptors()
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
}
