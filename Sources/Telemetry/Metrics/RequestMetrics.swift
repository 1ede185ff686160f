import Glibc
import Locks

/// What the responses of all event loops amount to.
public final class RequestMetrics: Sendable {
  private let tallies = Locked<[RequestTally]>([])

  /// No responses.
  public init() {}

  /// Makes a tally for another loop.
  public func makeTally() -> RequestTally {
    let tally = RequestTally()
    tallies.withLock { $0.append(tally) }
    return tally
  }

  /// Responses by route, method and status.
  public static let requests = Metric(
    .counter, "musickit_http_requests_total", "Responses sent.", labels: ["route", "method", "code"])
  /// How long they took, by route.
  public static let durations = Metric(
    .histogram, "musickit_http_request_duration_seconds",
    "Time from a request's first byte to its response, or to the end of one that comes in parts.", labels: ["route"])
  /// What they sent, by route.
  public static let bytes = Metric(
    .counter, "musickit_http_response_bytes_total", "Bytes of content in responses.", labels: ["route"])

  /// Adds all of it to `text`.
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
  }

  /// The counts of all loops, in the order of the routes' texts.
  private var totals: [(route: StaticString, tally: RouteTally)] {
    var sums: [String: RouteTally] = [:]
    for tally in tallies.withLock({ $0 }) {
      for route in tally.counts { sums["\(route.route)", default: RouteTally(route.route)].add(route) }
    }
    return sums.sorted { $0.key < $1.key }.map { ($0.value.route, $0.value) }
  }
}

/// Counts the responses of one event loop.
///
/// Each loop has its own tally, and only a scrape contends for its lock, so the lock costs some ten nanoseconds for
/// each response. The tally finds the entry of a response by comparing literals in a short list. It allocates memory
/// only for a route or a status that occurs for the first time.
public final class RequestTally: Sendable {
  private let routes = Locked<[RouteTally]>([])

  /// Counts one response.
  ///
  /// - Parameters:
  ///   - route: The route's template, a literal of the program: nothing that a client sent can become one.
  ///   - method: The method's name, likewise.
  ///   - status: The status code.
  ///   - bytes: Of content.
  ///   - duration: From the first byte of the request to its response.
  public func count(route: StaticString, method: StaticString, status: Int, bytes: Int, duration: Duration) {
    routes.withLock { routes in
      let index = Self.place(of: route, in: &routes)
      routes[index].count(method: method, status: status, bytes: bytes, duration: duration)
    }
  }

  private static func place(of route: StaticString, in routes: inout [RouteTally]) -> Int {
    for index in routes.indices where routes[index].route.isSame(as: route) { return index }
    routes.append(RouteTally(route))
    return routes.count - 1
  }

  /// The counts at a moment.
  var counts: [RouteTally] { routes.withLock { $0 } }
}

/// The responses that one route gave: how many of which status, how long they took, how much they sent.
struct RouteTally: Sendable {
  /// Responses to one method with one status.
  struct Responses: Sendable {
    let method: StaticString
    let status: Int
    var count: Int
  }

  let route: StaticString
  /// A handful: one for each method and status that has occurred.
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

/// How many durations there were up to each of a few fixed bounds: a value without memory of its own.
public struct DurationHistogram: Sendable {
  /// Upper bounds, inclusive. The first holds every response that had not to wait; then come the upstream's good days and
  /// bad days, and the deadlines at which it is given up.
  static let bounds: InlineArray<8, Duration> = [
    .milliseconds(1), .milliseconds(5), .milliseconds(25), .milliseconds(100), .milliseconds(250), .seconds(1),
    .seconds(5), .seconds(30),
  ]

  /// How many fell between each bound and the one before it; the last is for those above all bounds.
  private var buckets = InlineArray<9, Int>(repeating: 0)
  /// All durations together.
  private(set) var sum = Duration.zero

  /// No durations.
  public init() {}

  /// How many there were.
  var count: Int { buckets.indices.reduce(0) { $0 &+ buckets[$1] } }

  /// How many there were up to each bound in seconds, and in all.
  var cumulative: [(bound: Double?, count: Int)] {
    var count = 0
    return buckets.indices.map { index in
      count &+= buckets[index]
      return (index < Self.bounds.count ? Self.bounds[index].seconds : nil, count)
    }
  }

  /// Counts a duration.
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
  /// In seconds, as near as a `Double` comes.
  var seconds: Double {
    let (seconds, attoseconds) = components
    return Double(seconds) + Double(attoseconds) / 1e18
  }
}

extension StaticString {
  /// Whether the texts are the same; quick where they are one literal, as nearly always.
  public func isSame(as other: StaticString) -> Bool {
    guard utf8CodeUnitCount == other.utf8CodeUnitCount else { return false }
    // Safe: a static string is there for ever, and as long as it says.
    return unsafe utf8Start == other.utf8Start
      || memcmp(utf8Start, other.utf8Start, utf8CodeUnitCount) == 0
  }
}
