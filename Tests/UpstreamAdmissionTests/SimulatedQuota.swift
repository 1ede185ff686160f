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
  /// When the greedy client leaves.
  var leavesAt: Double?
  var retryAfter = false
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

/// An upstream's limiter. Windows are one second long.
struct SimulatedQuota {
  let limiter: QuotaScenario.Limiter
  var quota: Double
  private var level: Double
  private var updated = 0.0
  private var window = -1
  private var used = 0
  private var times: [Double] = []
  private var first = 0

  init(_ limiter: QuotaScenario.Limiter, _ quota: Double) {
    (self.limiter, self.quota, level) = (limiter, quota, quota)
  }

  /// Nil if the limiter admits the request; else the time until it would admit one.
  mutating func refusal(at time: Double) -> Double? {
    switch limiter {
    case .bucket:
      level = min(level + (time - updated) * quota, quota)
      updated = time
      guard level < 1 else {
        level -= 1
        return nil
      }
      return (1 - level) / quota
    case .fixedWindow:
      if Int(time) != window { (window, used) = (Int(time), 0) }
      guard Double(used) >= quota else {
        used += 1
        return nil
      }
      return Double(window + 1) - time
    case .slidingWindow:
      while first < times.count, times[first] <= time - 1 { first += 1 }
      guard Double(times.count - first) >= quota else {
        times.append(time)
        return nil
      }
      return times[first] + 1 - time
    }
  }
}
