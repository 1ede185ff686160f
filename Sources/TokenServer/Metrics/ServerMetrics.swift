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
final class ServerMetrics: Sendable {
  let requests = RequestMetrics()
  let connections = Locked(ConnectionTally())
  let signingKeys = SigningKeys()
  let reloads = Locked(ReloadTally())

  let startTime = Glibc.time(nil)
  private let watched = Locked(Watched())

  private struct Watched {
    /// Weak, because the server's router refers to this object.
    weak var server: Server?
  }

  /// The queue that writes the pages, one at a time. It is no event loop, because the system's figures are in files.
  private let queue = DispatchQueue(label: "metrics")

  func watch(_ server: Server) { watched.withLock { $0.server = server } }

  /// The route reads the readiness too, which renews the callers' token if that is due.
  func route(of generation: RuntimeSnapshot) -> Route {
    Route(getOnThread: "/metrics") {
      self.queue.sync {
        let scrape = Scrape(
          generation: generation, server: self.watched.withLock { $0.server },
          connections: self.connections.withLock { $0 })
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

struct Scrape {
  let generation: RuntimeSnapshot
  let server: Server?
  let connections: ConnectionTally

  var services: Services { generation.services }
}

/// Metrics of one part of the server, without lines if the server has no such part.
struct MetricGroup: Sendable {
  let metrics: [Metric]
  let write: @Sendable (Scrape, inout MetricsText) -> Void
}

extension MetricReading {
  static func group(_ readings: [Self], of part: @escaping @Sendable (Scrape) -> Source?) -> MetricGroup {
    MetricGroup(metrics: readings.map(\.metric)) { scrape, text in
      if let part = part(scrape) { text.add(readings, of: part) }
    }
  }
}

/// The present use of system resources by the process. Some of it is in files, so do not read it on an event loop.
struct ProcessFigures: Sendable {
  let startTime: Int

  /// The bytes of memory in use, shared memory included (proc(5), `statm`); 0 if unknown.
  var residentBytes: Int {
    guard let text = try? SmallFile.read("/proc/self/statm", atMost: 4096) else { return 0 }
    let pages = String(decoding: text, as: UTF8.self).split(separator: " ")
    return pages.count > 1 ? (Int(pages[1]) ?? 0) * sysconf(Int32(_SC_PAGESIZE)) : 0
  }

  // In microseconds (clock(3)).
  var cpuSeconds: Double { Double(clock()) / 1e6 }
  /// The number of open descriptors; 0 if unknown.
  var openDescriptors: Int { HostFacts.openDescriptors() }

  var maximumDescriptors: Int {
    var limit = rlimit()
    return unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0
      ? Int(clamping: limit.rlim_cur) : 0
  }
}
