import EventLoop
import Locks

/// Counts what each team asks for: Apple's limit is per team, so another token of the same key does not help.
final class RateMeter: @unchecked Sendable {
  // Sendable: everything mutable is only touched inside the mutex.
  private let mutex = Mutex()
  private var rate: RequestRate?
  /// One for each team of a trusted key, so as many as the options have.
  private var buckets: [String: Bucket] = [:]

  private struct Bucket {
    /// In billionths of a request, so that a rate per second is one per nanosecond.
    var level: UInt64
    var updated: Deadline
  }

  private static let request: UInt64 = 1_000_000_000

  init(_ rate: RequestRate?) {
    self.rate = rate
  }

  /// Sets another rate, nil for none, and forgets what was asked for.
  func set(_ rate: RequestRate?) {
    mutex.withLock {
      self.rate = rate
      buckets.removeAll()
    }
  }

  /// Whether the team may make another request, which is then counted.
  func admits(_ team: String, now: Deadline) -> Bool {
    mutex.withLock {
      guard let rate else { return true }
      let full = UInt64(rate.burst) * Self.request
      var bucket = buckets[team] ?? Bucket(level: full, updated: now)
      bucket.level = Self.refilled(bucket, now, rate, full)
      bucket.updated = max(bucket.updated, now)
      let admits = bucket.level >= Self.request
      if admits { bucket.level -= Self.request }
      buckets[team] = bucket
      return admits
    }
  }

  private static func refilled(_ bucket: Bucket, _ now: Deadline, _ rate: RequestRate, _ full: UInt64) -> UInt64 {
    guard now > bucket.updated else { return bucket.level }
    let elapsed = now.nanoseconds - bucket.updated.nanoseconds
    let (gain, overflow) = elapsed.multipliedReportingOverflow(by: UInt64(rate.perSecond))
    let (sum, carried) = bucket.level.addingReportingOverflow(gain)
    return overflow || carried ? full : min(sum, full)
  }
}
