import Locks

/// What the answers of all event loops amount to.
public final class RequestMetrics: @unchecked Sendable {
  // Sendable: `tallies` is touched only under `lock`.
  private let lock = Mutex()
  private var tallies: [RequestTally] = []

  /// No answers.
  public init() {}

  /// Makes a tally for another loop.
  public func makeTally() -> RequestTally {
    let tally = RequestTally()
    lock.withLock { tallies.append(tally) }
    return tally
  }

  /// Answers by route, method and status.
  public static let requests = Metric(
    .counter, "musickit_http_requests_total", "Answers given.", labels: ["route", "method", "code"])
  /// How long they took, by route.
  public static let durations = Metric(
    .histogram, "musickit_http_request_duration_seconds",
    "Time from a request's first byte to its answer, or to the end of one that comes in parts.", labels: ["route"])
  /// What they sent, by route.
  public static let bytes = Metric(
    .counter, "musickit_http_response_bytes_total", "Bytes of content in answers.", labels: ["route"])

  /// Adds all of it to `text`.
  public func write(to text: inout MetricsText) {
    let routes = totals
    text.begin(Self.requests)
    for (route, tally) in routes {
      for answers in tally.answers {
        text.sample(
          of: Self.requests, Double(answers.count), [.word(route), .word(answers.method), .number(answers.status)])
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
    for tally in lock.withLock({ tallies }) {
      for route in tally.counts { sums["\(route.route)", default: RouteTally(route.route)].add(route) }
    }
    return sums.sorted { $0.key < $1.key }.map { ($0.value.route, $0.value) }
  }
}
