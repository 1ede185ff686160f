/// The most requests in flight. It grows while it is in use and the upstream responds.
///
/// The limit keeps an upstream that hangs from using every connection and all memory. ``RatePacer`` handles the quota.
struct AdaptiveLimit: Sendable {
  private let limits: ConcurrencyLimits
  private(set) var value: Int
  /// The number of replicas of which each has an equal part of the bounds.
  private var divisor = 1
  /// Whether the value is a part of the limit of a group of replicas, and how often the traffic has tested it.
  private(set) var isShared = false
  private(set) var grown: UInt32 = 0

  init(_ limits: ConcurrencyLimits) {
    self.limits = limits
    value = limits.bounded(limits.initial)
  }

  /// The limit for a greedy caller. An eighth, at least one, is reserved for others, so that they need not wait for it.
  var share: Int { Self.lessAnEighth(of: value) }

  static func lessAnEighth(of count: Int) -> Int { max(count - max(count / 8, 1), 1) }

  /// Returns a part of the limit, at least one; the whole limit for nil.
  func most(of share: Double?) -> Int {
    guard let share else { return value }
    return min(max(Int(exactly: (Double(value) * share).rounded(.down)) ?? 1, 1), value)
  }

  /// Counts a request that the upstream answered, and raises the limit by one if the traffic has tested it: if as many
  /// requests were in flight as a greedy caller may have, or if a request waits because its client's share is smaller,
  /// while at least half of the limit is in use (half also validates TCP's window: RFC 7661). Below its initial value,
  /// which was untested, too, it needs no proof. It grows like TCP's slow start (RFC 5681 §3.1): only our own maximum
  /// is above it, and if the quota doubles, requests should use it within 5 s.
  mutating func succeeded(inFlight: Int, isWanted: Bool) {
    let isTried = inFlight >= share || isWanted && (inFlight >= value / 2 || value < limits.bounded(limits.initial))
    guard isTried else { return }
    if isShared { grown &+= 1 } else if value < max(limits.maximum / divisor, 1) { value += 1 }
  }

  mutating func use(part: Int) {
    isShared = true
    value = limits.bounded(part)
  }

  /// Uses an equal part of the limit, and changes it without the others from now on.
  mutating func leave(group limit: Int, of replicas: Int) {
    isShared = false
    divisor = max(replicas, 1)
    value = limits.bounded(limit / divisor)
  }
}

/// The limits of a ``ConcurrencyLimit``: name, default, unit and reason.
public struct ConcurrencyLimits: Sendable, Equatable {
  /// The initial limit: 200, the streams of two connections, because Apple's servers allow 100 on each.
  public var initial = 200
  /// The highest limit: 400, the streams of four connections. Beyond that, requests wait in the client.
  public var maximum = 400
  /// The most queued requests of all callers: 16 384. Each costs about 100 bytes here.
  public var waiting = 16_384
  /// The most queued requests of one caller, as a multiple of the free space: 3. A single one gets three quarters.
  public var waitingOfCaller = 3
  /// The same of one client among others: 7. So a single one gets seven eighths, the same part as of those in flight.
  public var waitingOfClient = 7
  /// The longest time for which requests of a client may wait, or one of them with its wait elsewhere, before it counts
  /// as overload: 1 s. The setting is `server.limits.burst`.
  public var burst: Duration = .seconds(1)
  /// The longest wait under overload: 150 ms, as `ServerLimits.lateWork`. An eighth of the limit may always wait, at least
  /// one request, because requests in flight end together at times.
  public var late: Duration = .milliseconds(150)
  /// The retry time when the queue is full: 1 s. Long waits caused the damage that was observed.
  public var retryAfter: Duration = .seconds(1)

  /// Creates the default limits.
  public init() {}

  fileprivate func bounded(_ value: Int) -> Int { max(min(value, maximum), 1) }
}
