import EventLoop

/// The number of requests that the emulator grants a team, and the way of counting them.
///
/// Apple publishes neither its number nor its way of counting, so a client should stay below each of these limits.
public struct RequestLimit: Sendable, Equatable {
  /// The way of counting requests.
  public enum Algorithm: String, Sendable {
    /// A token bucket, which holds at most `burst` requests and refills evenly.
    case bucket
    /// Windows that begin at multiples of their length.
    case fixedWindow = "fixed-window"
    /// The window that ends with the request.
    case slidingWindow = "sliding-window"
  }

  /// The way of counting.
  public let algorithm: Algorithm
  /// The number of requests in each window.
  public let requests: Int
  /// The length of the window in milliseconds.
  public let milliseconds: Int
  /// The number of requests that a full bucket holds.
  public let burst: Int

  private static let counts = 1...1_000_000
  private static let lengths = 1...3_600_000
  /// The maximum number of requests in a sliding window, which stores the time of each.
  private static let highestSliding = 100_000

  /// Creates a limit. Returns nil if a number is out of bounds.
  ///
  /// - Parameter burst: The size of a bucket; nil for the number of requests of its window.
  public init?(_ algorithm: Algorithm, requests: Int, milliseconds: Int, burst: Int? = nil) {
    guard Self.counts.contains(requests), Self.lengths.contains(milliseconds), Self.counts.contains(burst ?? requests),
      burst == nil || algorithm == .bucket, requests <= Self.highestSliding || algorithm != .slidingWindow
    else { return nil }
    (self.algorithm, self.requests, self.milliseconds) = (algorithm, requests, milliseconds)
    self.burst = burst ?? requests
  }

  /// Creates a token bucket. Returns nil if a number is out of bounds.
  public init?(perSecond: Int, burst: Int) {
    self.init(.bucket, requests: perSecond, milliseconds: 1000, burst: burst)
  }

  /// Parses `bucket:20/1s`, `bucket:20/1s,burst=5`, `fixed-window:20/1s` or `sliding-window:5/500ms`. Returns nil for
  /// any other text.
  public init?(_ text: String) {
    let halves = text.split(separator: ":", omittingEmptySubsequences: false)
    guard halves.count == 2, let algorithm = Algorithm(rawValue: String(halves[0])) else { return nil }
    let parts = halves[1].split(separator: ",", maxSplits: 1, omittingEmptySubsequences: false)
    let quota = parts[0].split(separator: "/", omittingEmptySubsequences: false)
    guard quota.count == 2, let requests = quota[0].number(in: Self.counts),
      let milliseconds = Fault.milliseconds(quota[1])
    else { return nil }
    var burst: Int?
    if parts.count == 2 {
      guard parts[1].hasPrefix("burst="), let number = parts[1].dropFirst(6).number(in: Self.counts) else { return nil }
      burst = number
    }
    self.init(algorithm, requests: requests, milliseconds: milliseconds, burst: burst)
  }
}

/// The used part of one team's limit. Refused requests use nothing.
struct RequestCount: Sendable {
  private let limit: RequestLimit
  /// The length of the window in nanoseconds.
  private let length: UInt64
  /// The level of a bucket. A request costs `length`, and each nanosecond adds the number of requests in a window, so the
  /// arithmetic is exact, and a full bucket has at most 4 × 10¹⁸.
  private var level: UInt64
  private var updated: UInt64
  /// The times of the requests in a sliding window, the oldest first.
  private var times: [UInt64] = []
  /// A fixed window: its number, and its requests.
  private var window: UInt64 = 0
  private var used = 0

  init(_ limit: RequestLimit, now: Deadline) {
    self.limit = limit
    length = UInt64(limit.milliseconds) * 1_000_000
    level = UInt64(limit.burst) * length
    updated = now.nanoseconds
  }

  /// Counts a request.
  ///
  /// - Returns: Nil if the limit admits the request; otherwise the time until it admits one.
  mutating func refusal(now: Deadline) -> Duration? {
    let wait =
      switch limit.algorithm {
      case .bucket: bucket(now.nanoseconds)
      case .fixedWindow: fixedWindow(now.nanoseconds)
      case .slidingWindow: slidingWindow(now.nanoseconds)
      }
    return wait.map { .nanoseconds(Int64(clamping: $0)) }
  }

  private mutating func bucket(_ now: UInt64) -> UInt64? {
    let rate = UInt64(limit.requests)
    let full = UInt64(limit.burst) * length
    if now > updated {
      let (gain, overflow) = (now - updated).multipliedReportingOverflow(by: rate)
      level = overflow || gain > full - level ? full : level + gain
      updated = now
    }
    guard level < length else {
      level -= length
      return nil
    }
    return (length - level + rate - 1) / rate
  }

  private mutating func fixedWindow(_ now: UInt64) -> UInt64? {
    if now / length != window { (window, used) = (now / length, 0) }
    guard used < limit.requests else { return length - now % length }
    used += 1
    return nil
  }

  private mutating func slidingWindow(_ now: UInt64) -> UInt64? {
    times.removeFirst(times.firstIndex { now < $0 + length } ?? times.count)
    if times.count == limit.requests, let first = times.first { return first + length - now }
    times.append(now)
    return nil
  }
}

/// The form of `Retry-After` in a 429. Apple has been seen to omit it.
public enum RetryAfterForm: String, Sendable {
  /// No `Retry-After`.
  case none
  /// Whole seconds.
  case seconds
  /// An HTTP-date (RFC 9110 §5.6.7).
  case date
}
