/// The time by which the upstream's clock is ahead of this server's, according to the `Date` of responses.
/// The `Date` of a response lies between the times of its request and its arrival, which gives a lower and an upper bound.
/// The result is the value nearest to zero within the bounds of the last five to ten minutes, so latency alone never looks
/// like a skew.
package struct ClockSkew: Sendable {
  private struct Bounds: Sendable {
    var lower: Int
    var upper: Int
  }

  /// The largest skew that is reported in either direction, in seconds: one day.
  package static let largest = 86_400
  /// The length of a period of collected bounds: 5 min. Only the current and the previous period count.
  private static let slice = Duration.seconds(300)
  /// The contradiction between bounds, in whole seconds, above which a clock must have been set.
  private static let tolerance = 2

  private var present: Bounds?
  private var previous: Bounds?
  private var began = Duration.zero

  package init() {}

  /// Adds the `Date` of a response, and the times of request and arrival by this server's clock, in seconds since the epoch.
  package mutating func note(date: Int, sentAt: Int, receivedAt: Int, now: Duration) {
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

  /// Returns the skew in seconds, or 0 if nothing is known.
  package mutating func seconds(now: Duration) -> Int {
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
