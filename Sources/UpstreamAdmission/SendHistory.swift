/// The requests sent and not refused in each fiftieth of the last five seconds, and in each of the last 64 seconds.
struct SendHistory: Sendable {
  private static let slotsPerSecond = 50.0
  /// The longest time of the fine counts, in seconds.
  private static let longest = 5.0

  private var fine = RollingCounts(slots: 256)
  private var coarse = RollingCounts(slots: 64)
  /// The number of requests ever sent and not refused.
  private var total = 0
  /// When the first request ever was sent.
  private var beginning: Double?

  mutating func record(at time: Double) {
    if beginning == nil { beginning = time }
    add(1, at: time)
  }

  /// Records the refusal of a request that was sent at `time`.
  mutating func refuse(sentAt time: Double) {
    if fine.kept.contains(Self.slot(time)) { add(-1, at: time) }
  }

  private mutating func add(_ change: Int, at time: Double) {
    fine.add(Int32(change), in: Self.slot(time))
    coarse.add(Int32(change), in: max(Int(time), 0))
    total += change
  }

  /// Returns the requests a second that were sent in some seconds before a time, and not refused.
  func rate(before end: Double, window: Double) -> Double {
    guard window > Self.longest else {
      let count = count(before: end, window: window)
      return Double(count.accepted) / count.seconds
    }
    let span = max(min(window, end - (beginning ?? end)), 1)
    return Double(coarse.sum(from: Int(end - span), through: Int(end))) / span
  }

  /// Returns the number of requests sent before `end` and not refused.
  ///
  /// - Parameter window: The time in seconds, at most five.
  /// - Returns: Also the time in seconds with traffic: at most `window`, at least one second.
  func count(before end: Double, window: Double) -> (accepted: Int, seconds: Double) {
    let last = min(Self.slot(end), fine.newest)
    let seconds = max(min(window, end - (beginning ?? end)), 1)
    return (fine.sum(from: last - Int(window * Self.slotsPerSecond) + 1, through: last), seconds)
  }

  /// Returns the number of requests ever sent before `end` and not refused. `end` is at most five seconds ago.
  func accepted(before end: Double) -> Int { total - fine.sum(from: Self.slot(end) + 1, through: fine.newest) }

  /// Returns the time until at most `most` requests are in the last second, if no more are sent.
  func timeUntil(atMost most: Int, now: Double) -> Double {
    let first = max(Self.slot(now) - Int(Self.slotsPerSecond) + 1, fine.kept.lowerBound)
    var count = 0
    for slot in stride(from: fine.newest, through: first, by: -1) {
      count += fine[slot]
      if count > most { return max(Double(slot + 1) / Self.slotsPerSecond + 1 - now, 0) }
    }
    return 0
  }

  private static func slot(_ time: Double) -> Int { max(Int(time * slotsPerSecond), 0) }
}

/// The most requests that the upstream has accepted in one second.
struct AcceptedPeak: Sendable {
  private var highest = 0
  private var second = 0
  private var count = 0

  mutating func add(now: Double) {
    let present = Int(now)
    if present != second { (second, count) = (present, 0) }
    count += 1
    highest = max(highest, count)
  }

  /// A rate that no quota is below: a bucket, or two windows of which one ends, accept at most twice the quota in a second.
  var leastQuota: Double { Double(highest) / 2 }
}

/// A simulated token bucket that fills at the learned rate, holds the requests of one second, and was empty at the last 429.
/// If it is overdrawn without a refusal, the quota is no such bucket and allows more.
struct ImaginedBucket: Sendable {
  /// The stored requests. Negative if overdrawn.
  private(set) var stored = 0.0
  private var updated = 0.0

  mutating func take(rate: Double, now: Double) {
    stored = min(stored + (now - updated) * rate, rate) - 1
    updated = now
  }

  mutating func empty(now: Double) { (stored, updated) = (0, now) }
}
