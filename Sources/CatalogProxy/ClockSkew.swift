/// How far the upstream's clock is ahead of this server's, as the `Date` of its responses shows.
///
/// A response bears a time between that of its request and that of its arrival, so each gives a lower and an upper bound,
/// which latency makes wide but not wrong. The bounds of the last five to ten minutes are held against each other, and
/// the value nearest to zero within them counts: latency alone never looks like a skew.
struct ClockSkew: Sendable {
  private struct Bounds: Sendable {
    var lower: Int
    var upper: Int
  }

  /// The most that is reported either way, in seconds: a day.
  static let largest = 86_400
  /// How long bounds are collected before the older ones are forgotten: 5 min.
  private static let slice = Duration.seconds(300)
  /// Bounds that contradict each other by more than this show that a clock was set, in seconds. All are whole seconds.
  private static let tolerance = 2

  private var present: Bounds?
  private var previous: Bounds?
  private var began = Duration.zero

  /// Takes in a response.
  ///
  /// - Parameters:
  ///   - date: Its `Date`, in seconds since the epoch.
  ///   - sentAt: When the request was sent, by this server's clock.
  ///   - receivedAt: When the response came, by this server's clock.
  ///   - now: The time on the clock that never jumps.
  mutating func note(date: Int, sentAt: Int, receivedAt: Int, now: Duration) {
    advance(to: now)
    let date = min(max(date, sentAt - Self.largest), receivedAt + Self.largest)
    let sample = Bounds(lower: date - receivedAt, upper: date - sentAt)
    let joint = Self.joint(previous, Self.joint(present, sample))
    if joint.lower - joint.upper > Self.tolerance {
      (previous, present) = (nil, sample)
    } else {
      present = Self.joint(present, sample)
    }
  }

  /// Seconds; 0 if nothing is known.
  mutating func seconds(now: Duration) -> Int {
    advance(to: now)
    guard let bounds = present.map({ Self.joint(previous, $0) }) ?? previous else { return 0 }
    let (low, high) = (min(bounds.lower, bounds.upper), max(bounds.lower, bounds.upper))
    return min(max(0, low), high)
  }

  private mutating func advance(to now: Duration) {
    guard now - began >= Self.slice else { return }
    previous = now - began >= Self.slice * 2 ? nil : present
    present = nil
    began = now
  }

  private static func joint(_ some: Bounds?, _ other: Bounds) -> Bounds {
    guard let some else { return other }
    return Bounds(lower: max(some.lower, other.lower), upper: min(some.upper, other.upper))
  }
}
