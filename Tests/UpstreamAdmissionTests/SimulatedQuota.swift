/// The parameters of a simulated run.
struct QuotaScenario: Sendable, CustomStringConvertible {
  enum Limiter: String, CaseIterable, Sendable { case bucket, fixedWindow, slidingWindow }

  var limiter = Limiter.bucket
  var quota = 20.0
  var latency = 0.1
  var greedy = 50
  var seconds = 60.0
  /// The fraction of its equal share that the modest client uses on average.
  var modesty = 0.4
  /// When the quota doubles.
  var doublesAt: Double?
  /// When the quota falls to a third. The requests after ten further seconds count.
  var fallsAt: Double?
  /// When the greedy client leaves.
  var leavesAt: Double?
  var retryAfter = false
  /// The seconds in which the upstream counts.
  var window = 1.0
  /// When the upstream refuses every request.
  var blocked: Range<Double>?
  var seed: UInt64 = 1

  var description: String {
    """
    \(limiter.rawValue) \(quota)/s, \(Int(latency * 1000)) ms, \(greedy) greedy connections, modesty \(modesty), \
    Retry-After \(retryAfter), seed \(seed)
    """
  }

  /// The seconds within which a doubled quota must be in use.
  var recovery: Double { quota < 20 ? 60 : 5 }
}

/// An upstream's limiter.
struct SimulatedQuota {
  let limiter: QuotaScenario.Limiter
  /// Requests a second.
  var quota: Double
  /// The seconds in which the upstream counts.
  private let length: Double
  private var level: Double
  private var updated = 0.0
  private var window = -1
  private var used = 0
  private var times: [Double] = []
  private var first = 0

  init(_ limiter: QuotaScenario.Limiter, _ quota: Double, window length: Double = 1) {
    (self.limiter, self.quota, self.length, level) = (limiter, quota, length, quota * length)
  }

  /// Nil if the limiter admits the request; else the time until it would admit one.
  mutating func refusal(at time: Double) -> Double? {
    switch limiter {
    case .bucket:
      level = min(level + (time - updated) * quota, quota * length)
      updated = time
      guard level < 1 else {
        level -= 1
        return nil
      }
      return (1 - level) / quota
    case .fixedWindow:
      let present = Int(time / length)
      if present != window { (window, used) = (present, 0) }
      guard Double(used) >= quota * length else {
        used += 1
        return nil
      }
      return Double(window + 1) * length - time
    case .slidingWindow:
      while first < times.count, times[first] <= time - length { first += 1 }
      guard Double(times.count - first) >= quota * length else {
        times.append(time)
        return nil
      }
      return times[first] + length - time
    }
  }
}
