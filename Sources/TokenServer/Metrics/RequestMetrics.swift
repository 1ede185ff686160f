import Glibc
import Locks
import Telemetry

/// The metrics of the responses of all event loops.
final class RequestMetrics: Sendable {
  private let tallies = Locked<[RequestTally]>([])

  func makeTally() -> RequestTally {
    let tally = RequestTally()
    tallies.withLock { $0.append(tally) }
    return tally
  }

  /// The counts of all loops, in the order of the routes' templates and of the clients' names.
  typealias Totals = (routes: [RouteTally], clients: [(client: String, value: DurationHistogram)])

  static let readings: [MetricReading<Totals>] = [
    .init("musickit_http_requests_total", "Responses sent.", labels: ["route", "method", "code"]) { totals in
      totals.routes.flatMap { route in
        route.responses.map { ([.word(route.route), .word($0.method), .number($0.status)], $0.count) }
      }
    },
    .init(
      "musickit_http_request_duration_seconds",
      "Time from a request's first byte to its response, or to the end of a streamed response.", labels: ["route"],
      isHistogram: true
    ) { $0.routes.map { ([.word($0.route)], $0.durations) } },
    .init("musickit_http_response_bytes_total", "Bytes of content in responses.", labels: ["route"]) {
      $0.routes.map { ([.word($0.route)], $0.bytes) }
    },
    .init(
      "musickit_client_request_duration_seconds",
      "Time from a request's first byte to its response, for requests that access control admitted. The client is its id in "
        + "the settings.",
      labels: ["client"], isHistogram: true
    ) { $0.clients.map { ([.configured($0.client)], $0.value) } },
  ]

  var totals: Totals {
    var routes: [String: RouteTally] = [:]
    var clients = ClientTallies(DurationHistogram())
    for tally in tallies.withLock({ $0 }) {
      for route in tally.counts { routes["\(route.route)", default: RouteTally(route.route)].add(route) }
      for (client, durations) in tally.clientDurations { clients.update(client) { $0.add(durations) } }
    }
    return (routes.sorted { $0.key < $1.key }.map(\.value), clients.elements.sorted { $0.client < $1.client })
  }
}

/// A counter of the responses of one event loop.
///
/// Each loop has its own tally, and only a scrape contends for its lock: some ten nanoseconds for each response. The entry
/// of a response is found by comparing literals in a short list, and memory allocated only for a new one.
final class RequestTally: Sendable {
  private let state = Locked(State())

  private struct State {
    var routes: [RouteTally] = []
    var clients = ClientTallies(DurationHistogram())
  }

  /// Counts one response. Route and method are literals of the program, so they contain nothing that a client sent.
  ///
  /// - Parameter client: The client's id in the settings; nil if access control has admitted none.
  func count(
    route: StaticString, method: StaticString, status: Int, bytes: Int, duration: Duration, client: String? = nil
  ) {
    state.withLock { state in
      let known = state.routes.indices.first { state.routes[$0].route.isSame(as: route) }
      if known == nil { state.routes.append(RouteTally(route)) }
      state.routes[known ?? state.routes.count - 1].count(
        method: method, status: status, bytes: bytes, duration: duration)
      if let client { state.clients.update(client) { $0.add(duration) } }
    }
  }

  var counts: [RouteTally] { state.withLock { $0.routes } }
  var clientDurations: [(client: String, value: DurationHistogram)] { state.withLock { $0.clients.elements } }
}

/// The responses of one route: their number by method and status, their durations, and their bytes.
struct RouteTally: Sendable {
  let route: StaticString
  /// The number of responses for each method and status that has occurred; few in practice.
  private(set) var responses: [(method: StaticString, status: Int, count: Int)] = []
  private(set) var durations = DurationHistogram()
  private(set) var bytes = 0

  init(_ route: StaticString) { self.route = route }

  mutating func count(method: StaticString, status: Int, bytes: Int, duration: Duration) {
    add(1, method: method, status: status)
    durations.add(duration)
    self.bytes &+= bytes
  }

  mutating func add(_ other: RouteTally) {
    for responses in other.responses { add(responses.count, method: responses.method, status: responses.status) }
    durations.add(other.durations)
    bytes &+= other.bytes
  }

  private mutating func add(_ count: Int, method: StaticString, status: Int) {
    let known = responses.indices.first { responses[$0].status == status && responses[$0].method.isSame(as: method) }
    if let known {
      responses[known].count &+= count
    } else {
      responses.append((method, status, count))
    }
  }
}

/// A histogram of durations with a few fixed bounds: a value without heap memory.
struct DurationHistogram: Sendable {
  /// The inclusive upper bounds: no wait, the upstream's usual and slow response times, and the deadlines.
  static let bounds: InlineArray<8, Duration> = [
    .milliseconds(1), .milliseconds(5), .milliseconds(25), .milliseconds(100), .milliseconds(250), .seconds(1),
    .seconds(5), .seconds(30),
  ]

  /// The number of durations between each bound and the one before it, and above all bounds.
  private var buckets = InlineArray<9, Int>(repeating: 0)
  private(set) var sum = Duration.zero

  mutating func add(_ duration: Duration) {
    var index = 0
    while index < Self.bounds.count, duration > Self.bounds[index] { index += 1 }
    buckets[index] &+= 1
    sum += duration
  }

  mutating func add(_ other: DurationHistogram) {
    for index in buckets.indices { buckets[index] &+= other.buckets[index] }
    sum += other.sum
  }
}

extension DurationHistogram: MetricValue {
  /// Each bucket counts the durations up to its bound, the last one all durations.
  var parts: [MetricPart] {
    var count = 0
    let cumulative = buckets.indices.map { index -> MetricPart in
      count &+= buckets[index]
      return ("_bucket", index < Self.bounds.count ? "\(Self.bounds[index].seconds)" : "+Inf", Double(count))
    }
    return cumulative + [("_sum", nil, sum.seconds), ("_count", nil, Double(count))]
  }
}

extension Duration {
  var seconds: Double {
    let (seconds, attoseconds) = components
    return Double(seconds) + Double(attoseconds) / 1e18
  }
}

extension StaticString {
  /// Returns whether the texts are equal. The check is quick if both are the same literal, which is nearly always so.
  func isSame(as other: StaticString) -> Bool {
    guard utf8CodeUnitCount == other.utf8CodeUnitCount else { return false }
    // Safe: a static string lives forever and has the given length.
    return unsafe utf8Start == other.utf8Start || memcmp(utf8Start, other.utf8Start, utf8CodeUnitCount) == 0
  }
}

/// The decisions of access control by client, outcome and reason.
///
/// All loops and generations of settings share one. A decision costs a lock for some ten nanoseconds, seldom memory.
struct AccessTally: Sendable {
  /// The number of decisions about one client for each outcome and reason; a few for each client.
  private typealias Decisions = [(outcome: AuditOutcome, reason: StaticString, count: Int)]

  private var clients = ClientTallies<Decisions>([])

  static let readings: [MetricReading<AccessTally>] = [
    .init(
      "musickit_access_decisions_total",
      "Requests granted, refused and limited. The client is its id in the settings, or `-` if no client matches the caller.",
      labels: ["client", "outcome", "reason"]
    ) { tally in
      tally.clients.elements.sorted { $0.client < $1.client }.flatMap { client, decisions in
        decisions.sorted { "\($0.outcome.name) \($0.reason)" < "\($1.outcome.name) \($1.reason)" }.map {
          ([.configured(client), .word($0.outcome.name), .word($0.reason)], $0.count)
        }
      }
    }
  ]

  /// - Parameter client: A client's id in the settings, or a placeholder; never a part of a request.
  mutating func count(client: String, _ outcome: AuditOutcome, reason: StaticString?) {
    clients.update(client) { Self.add(1, outcome, reason ?? "-", to: &$0) }
  }

  /// Adds these clients with no decision, so that the monitoring sees the first grant of each as an increase from 0.
  mutating func expect(_ clients: [String]) {
    for client in clients { self.clients.update(client) { Self.add(0, .granted, "-", to: &$0) } }
  }

  private static func add(
    _ count: Int, _ outcome: AuditOutcome, _ reason: StaticString, to decisions: inout Decisions
  ) {
    let known = decisions.indices.first {
      decisions[$0].outcome == outcome && decisions[$0].reason.isSame(as: reason)
    }
    if let known {
      decisions[known].count &+= count
    } else {
      decisions.append((outcome, reason, count))
    }
  }
}

/// A value for each client, for metrics with the label `client`.
///
/// Most values are about the same client as the one before: a comparison instead of a hash.
struct ClientTallies<Value: Sendable>: Sendable {
  /// The clients and their values, in the order in which they came.
  private(set) var elements: [(client: String, value: Value)] = []

  /// The maximum number of separate clients: more than a configuration may have, with room for some reloads. Further
  /// clients count as ``rest``, so that no sequence of reloads fills the monitoring with time series.
  static var limit: Int { 2000 }
  private static var rest: String { "other" }

  /// The value of a new client.
  private let initial: Value
  private var places: [String: Int] = [:]
  private var latest = 0

  init(_ initial: Value) { self.initial = initial }

  /// - Parameter client: A client's id in the settings, or a placeholder; never a part of a request.
  mutating func update(_ client: String, _ change: (inout Value) -> Void) {
    if latest >= elements.count || elements[latest].client != client {
      latest = places[client] ?? newPlace(for: client)
    }
    change(&elements[latest].value)
  }

  private mutating func newPlace(for client: String) -> Int {
    let name = elements.count < Self.limit ? client : Self.rest
    if let place = places[name] { return place }
    places[name] = elements.count
    elements.append((name, initial))
    return elements.count - 1
  }
}
