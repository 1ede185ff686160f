/// How many durations there were up to each of a few fixed bounds: a value without memory of its own.
public struct DurationHistogram: Sendable {
  /// Upper bounds, inclusive. The first holds every answer that had not to wait; then come the upstream's good days and
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
