import Glibc
import Locks

/// The metrics of the responses of all event loops.
public final class RequestMetrics: Sendable {
  private let tallies = Locked<[RequestTally]>([])

  /// Creates metrics without responses.
  public init() {}

  /// Creates the tally of another event loop.
  public func makeTally() -> RequestTally {
    let tally = RequestTally()
    tallies.withLock { $0.append(tally) }
    return tally
  }

  /// The number of responses by route, method and status.
  public static let requests = Metric(
    .counter, "musickit_http_requests_total", "Responses sent.", labels: ["route", "method", "code"])
  /// The durations of requests by route.
  public static let durations = Metric(
    .histogram, "musickit_http_request_duration_seconds",
    "Time from a request's first byte to its response, or to the end of a streamed response.", labels: ["route"])
  /// The bytes of response content by route.
  public static let bytes = Metric(
    .counter, "musickit_http_response_bytes_total", "Bytes of content in responses.", labels: ["route"])

  /// The durations of requests by client.
  public static let clientDurations = Metric(
    .histogram, "musickit_client_request_duration_seconds",
    "Time from a request's first byte to its response, for requests that access control admitted. The client is its id in "
      + "the settings.",
    labels: ["client"])

  /// Appends all metrics to `text`.
  public func write(to text: inout MetricsText) {
    let routes = totals
    text.begin(Self.requests)
    for (route, tally) in routes {
      for responses in tally.responses {
        text.sample(
          of: Self.requests, Double(responses.count),
          [.word(route), .word(responses.method), .number(responses.status)])
      }
    }
    text.begin(Self.durations)
    for (route, tally) in routes { text.histogram(of: Self.durations, [.word(route)], tally.durations) }
    text.begin(Self.bytes)
    for (route, tally) in routes { text.sample(of: Self.bytes, Double(tally.bytes), [.word(route)]) }
    text.begin(Self.clientDurations)
    for (client, durations) in clientDurations {
      text.histogram(of: Self.clientDurations, [.configured(client)], durations)
    }
  }

  /// The durations of all loops, in the order of the clients' names.
  private var clientDurations: [(client: String, durations: DurationHistogram)] {
    var sums = ClientTallies(DurationHistogram())
    for tally in tallies.withLock({ $0 }) {
      for (client, durations) in tally.clientDurations { sums.update(client) { $0.add(durations) } }
    }
    return sums.elements.sorted { $0.client < $1.client }.map { ($0.client, $0.value) }
  }

  /// The counts of all loops, in the order of the routes' templates.
  private var totals: [(route: StaticString, tally: RouteTally)] {
    var sums: [String: RouteTally] = [:]
    for tally in tallies.withLock({ $0 }) {
      for route in tally.counts { sums["\(route.route)", default: RouteTally(route.route)].add(route) }
    }
    return sums.sorted { $0.key < $1.key }.map { ($0.value.route, $0.value) }
  }
}

/// A counter of the responses of one event loop.
///
/// Each loop has its own tally, and only a scrape contends for its lock, so the lock costs some ten nanoseconds for
/// each response. The tally finds the entry of a response by comparing literals in a short list. It allocates memory
/// only for a route, a status or a client that occurs for the first time.
public final class RequestTally: Sendable {
  private let state = Locked(State())

  private struct State {
    var routes: [RouteTally] = []
    var clients = ClientTallies(DurationHistogram())
  }

  /// Counts one response.
  ///
  /// - Parameters:
  ///   - route: The route's template, a literal of the program, so it never contains anything that a client sent.
  ///   - method: The method's name, also a literal.
  ///   - status: The status code.
  ///   - bytes: The bytes of content.
  ///   - duration: The time from the first byte of the request to its response.
  ///   - client: The client's id in the settings; nil if access control has admitted none.
  public func count(
    route: StaticString, method: StaticString, status: Int, bytes: Int, duration: Duration, client: String? = nil
  ) {
    state.withLock { state in
      let index = Self.place(of: route, in: &state.routes)
      state.routes[index].count(method: method, status: status, bytes: bytes, duration: duration)
      if let client { state.clients.update(client) { $0.add(duration) } }
    }
  }

  private static func place(of route: StaticString, in routes: inout [RouteTally]) -> Int {
    for index in routes.indices where routes[index].route.isSame(as: route) { return index }
    routes.append(RouteTally(route))
    return routes.count - 1
  }

  var counts: [RouteTally] { state.withLock { $0.routes } }
  var clientDurations: [(client: String, value: DurationHistogram)] { state.withLock { $0.clients.elements } }
}

/// The responses of one route: their number by method and status, their durations, and their bytes.
struct RouteTally: Sendable {
  /// The number of responses to one method with one status.
  struct Responses: Sendable {
    let method: StaticString
    let status: Int
    var count: Int
  }

  let route: StaticString
  /// One element for each method and status that has occurred; few in practice.
  private(set) var responses: [Responses] = []
  private(set) var durations = DurationHistogram()
  private(set) var bytes = 0

  init(_ route: StaticString) {
    self.route = route
  }

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
    for index in responses.indices where responses[index].status == status && responses[index].method.isSame(as: method)
    {
      responses[index].count &+= count
      return
    }
    responses.append(Responses(method: method, status: status, count: count))
  }
}

/// A histogram of durations with a few fixed bounds: a value without heap memory.
public struct DurationHistogram: Sendable {
  /// The inclusive upper bounds. The first covers responses that did not wait. The next cover the usual and the slow
  /// response times of the upstream, and the last cover the deadlines.
  static let bounds: InlineArray<8, Duration> = [
    .milliseconds(1), .milliseconds(5), .milliseconds(25), .milliseconds(100), .milliseconds(250), .seconds(1),
    .seconds(5), .seconds(30),
  ]

  /// The number of durations between each bound and the one before it. The last bucket counts durations above all
  /// bounds.
  private var buckets = InlineArray<9, Int>(repeating: 0)
  private(set) var sum = Duration.zero

  /// Creates an empty histogram.
  public init() {}

  var count: Int { buckets.indices.reduce(0) { $0 &+ buckets[$1] } }

  /// The number of durations up to each bound in seconds. The last element, without a bound, is the number of all
  /// durations.
  var cumulative: [(bound: Double?, count: Int)] {
    var count = 0
    return buckets.indices.map { index in
      count &+= buckets[index]
      return (index < Self.bounds.count ? Self.bounds[index].seconds : nil, count)
    }
  }

  /// Adds a duration.
  public mutating func add(_ duration: Duration) {
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

extension Duration {
  /// The duration in seconds, as the nearest `Double`.
  package var seconds: Double {
    let (seconds, attoseconds) = components
    return Double(seconds) + Double(attoseconds) / 1e18
  }
}

extension StaticString {
  /// Returns whether the texts are equal. The check is quick if both are the same literal, which is nearly always so.
  public func isSame(as other: StaticString) -> Bool {
    guard utf8CodeUnitCount == other.utf8CodeUnitCount else { return false }
    // Safe: a static string lives forever and has the given length.
    return unsafe utf8Start == other.utf8Start
      || memcmp(utf8Start, other.utf8Start, utf8CodeUnitCount) == 0
  }
}

/// A value for each client, for metrics with the label `client`.
///
/// The number of clients has a limit. Most values are about the same client as the one before, which costs a comparison
/// instead of a hash. Only a new client allocates memory.
public struct ClientTallies<Value: Sendable>: Sendable {
  /// The clients and their values, in the order in which they came.
  public private(set) var elements: [(client: String, value: Value)] = []

  private let initial: Value
  private var places: [String: Int] = [:]
  private var latest = 0

  /// Creates a list without clients.
  ///
  /// - Parameter initial: The value of a new client.
  public init(_ initial: Value) {
    self.initial = initial
  }

  /// Changes the value of a client.
  ///
  /// - Parameter client: A client's id in the settings, or a placeholder; never a part of a request.
  public mutating func update(_ client: String, _ change: (inout Value) -> Void) {
    let place = place(of: client)
    change(&elements[place].value)
  }

  private mutating func place(of client: String) -> Int {
    if latest < elements.count, elements[latest].client == client { return latest }
    latest = places[client] ?? newPlace(for: client)
    return latest
  }

  private mutating func newPlace(for client: String) -> Int {
    let name = elements.count < ClientTally.limit ? client : ClientTally.rest
    if let place = places[name] { return place }
    places[name] = elements.count
    elements.append((name, initial))
    return elements.count - 1
  }
}

/// The bounds of every ``ClientTallies``.
public enum ClientTally {
  /// The maximum number of separate clients: more than a configuration may have, with room for some reloads. Further
  /// clients count as ``rest``, so that no sequence of reloads fills the monitoring with time series.
  public static let limit = 2000
  /// The name of all further clients.
  public static let rest = "other"
}
