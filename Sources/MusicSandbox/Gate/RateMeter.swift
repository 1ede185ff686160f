import EventLoop
import Locks

/// Counts the requests of each team. Apple's limit is per team, so another token of the same key does not help.
final class RateMeter: Sendable {
  /// The numbers of requests since the limit was set.
  struct Counts: Sendable {
    var admitted = 0
    var limited = 0
  }

  private struct State {
    var limit: RequestLimit?
    /// The count of each team with a trusted key, so the options bound their number.
    var teams: [String: RequestCount] = [:]
    var counts = Counts()
  }

  private let state: Locked<State>

  init(_ limit: RequestLimit?) {
    state = Locked(State(limit: limit))
  }

  /// The present counts.
  var current: Counts { state.withLock { $0.counts } }

  /// Sets another limit, or none if it is nil, and resets the counts.
  func set(_ limit: RequestLimit?) {
    state.withLock { state in
      guard limit != state.limit else { return }
      state = State(limit: limit)
    }
  }

  /// Counts a request of a team.
  ///
  /// - Returns: Nil if the limit admits the request; otherwise the time until it admits one.
  func refusal(_ team: String, now: Deadline) -> Duration? {
    state.withLock { state in
      guard let limit = state.limit else {
        state.counts.admitted += 1
        return nil
      }
      var count = state.teams[team] ?? RequestCount(limit, now: now)
      let refusal = count.refusal(limit, now: now)
      state.teams[team] = count
      if refusal == nil { state.counts.admitted += 1 } else { state.counts.limited += 1 }
      return refusal
    }
  }
}

/// The used part of one team's limit. Refused requests use nothing.
struct RequestCount: Sendable {
  /// The cost of a request in a bucket. The level is in billionths, so that the arithmetic is exact.
  private static let request: UInt64 = 1_000_000_000

  /// The state of a bucket.
  private var level: UInt64
  private var updated: UInt64
  /// The state of a fixed window: its number, and the requests in it.
  private var window: UInt64 = 0
  private var used = 0
  /// The state of a sliding window: the times of its requests, oldest first from `first`.
  private var times: [UInt64] = []
  private var first = 0

  init(_ limit: RequestLimit, now: Deadline) {
    level = if case .bucket(let burst) = limit.algorithm { UInt64(burst) * Self.request } else { 0 }
    updated = now.nanoseconds
  }

  mutating func refusal(_ limit: RequestLimit, now: Deadline) -> Duration? {
    let length = UInt64(limit.milliseconds) * 1_000_000
    let now = now.nanoseconds
    switch limit.algorithm {
    case .bucket(let burst): return bucket(limit, length, UInt64(burst) * Self.request, now)
    case .fixedWindow:
      if now / length != window { (window, used) = (now / length, 0) }
      guard used >= limit.requests else {
        used += 1
        return nil
      }
      return .nanoseconds(Int64(clamping: length - now % length))
    case .slidingWindow:
      while first < times.count, now >= times[first] + length { first += 1 }
      guard times.count - first >= limit.requests else {
        if first > limit.requests {
          times.removeFirst(first)
          first = 0
        }
        times.append(now)
        return nil
      }
      return .nanoseconds(Int64(clamping: times[first] + length - now))
    }
  }

  private mutating func bucket(_ limit: RequestLimit, _ length: UInt64, _ full: UInt64, _ now: UInt64) -> Duration? {
    // At one request per second, a bucket gains a billionth per nanosecond: gain = time × requests × 1 s / length.
    let rate = UInt64(limit.requests)
    if now > updated {
      let (product, overflow) = (now - updated).multipliedReportingOverflow(by: rate)
      let seconds = product / length
      let gain = overflow || seconds >= full / Self.request + 1 ? full : Self.scaled(product, by: length)
      level = min(level + gain, full)
      updated = now
    }
    guard level < Self.request else {
      level -= Self.request
      return nil
    }
    let missing = (Self.request - level).multipliedFullWidth(by: length)
    let (time, rest) = (rate * Self.request).dividingFullWidth(missing)
    return .nanoseconds(Int64(clamping: time + (rest > 0 ? 1 : 0)))
  }

  /// Returns `product` × 1 s / `length`. The caller has made sure that the result fits.
  private static func scaled(_ product: UInt64, by length: UInt64) -> UInt64 {
    length.dividingFullWidth(product.multipliedFullWidth(by: request)).quotient
  }
}

/// The number of requests that the emulator grants a team, and the way of counting them.
///
/// Apple publishes neither its number nor its way of counting, so a client should stay below each of these limits.
public struct RequestLimit: Sendable, Equatable {
  /// The way of counting requests.
  public enum Algorithm: Sendable, Equatable {
    /// A token bucket, which holds at most `burst` requests and refills evenly.
    case bucket(burst: Int)
    /// Windows that begin at multiples of their length.
    case fixedWindow
    /// The window that ends with the request.
    case slidingWindow
  }

  /// The maximum number of requests in a window, and the maximum length of a window in milliseconds.
  static let highest = (requests: 1_000_000, milliseconds: 3_600_000)
  /// The maximum number of requests in a sliding window, which stores the time of each.
  static let highestSliding = 100_000

  /// The number of requests in each window.
  public let requests: Int
  /// The length of the window in milliseconds.
  public let milliseconds: Int
  /// The way of counting.
  public let algorithm: Algorithm

  /// Creates a limit. Returns nil if a number is out of bounds.
  public init?(_ algorithm: Algorithm, requests: Int, milliseconds: Int) {
    let most = algorithm == .slidingWindow ? Self.highestSliding : Self.highest.requests
    guard (1...most).contains(requests), (1...Self.highest.milliseconds).contains(milliseconds) else { return nil }
    if case .bucket(let burst) = algorithm, !(1...Self.highest.requests).contains(burst) { return nil }
    (self.algorithm, self.requests, self.milliseconds) = (algorithm, requests, milliseconds)
  }

  /// Creates a token bucket. Returns nil if a number is out of bounds.
  public init?(perSecond: Int, burst: Int) {
    self.init(.bucket(burst: burst), requests: perSecond, milliseconds: 1000)
  }

  /// Parses `bucket:20/1s`, `bucket:20/1s,burst=5`, `fixed-window:20/1s` or `sliding-window:5/500ms`. Returns nil for
  /// any other text. The default burst of a bucket is the number of requests of its window.
  public init?(_ text: String) {
    let halves = text.split(separator: ":", omittingEmptySubsequences: false)
    guard halves.count == 2 else { return nil }
    let parts = halves[1].split(separator: ",", omittingEmptySubsequences: false)
    let quota = parts[0].split(separator: "/", omittingEmptySubsequences: false)
    guard parts.count <= 2, quota.count == 2, let requests = Self.number(quota[0]),
      let milliseconds = Fault.milliseconds(quota[1])
    else { return nil }
    let burst = parts.count == 2 ? Self.burst(parts[1]) : requests
    switch halves[0] {
    case "bucket":
      guard let burst else { return nil }
      self.init(.bucket(burst: burst), requests: requests, milliseconds: milliseconds)
    case "fixed-window" where parts.count == 1:
      self.init(.fixedWindow, requests: requests, milliseconds: milliseconds)
    case "sliding-window" where parts.count == 1:
      self.init(.slidingWindow, requests: requests, milliseconds: milliseconds)
    default: return nil
    }
  }

  private static func burst(_ text: Substring) -> Int? {
    text.hasPrefix("burst=") ? number(text.dropFirst(6)) : nil
  }

  private static func number(_ text: Substring) -> Int? {
    text.utf8.allSatisfy { (0x30...0x39).contains($0) } ? Int(text) : nil
  }
}

/// The form of `Retry-After` in a 429. Apple has been seen to omit it.
public enum RetryAfterForm: String, Sendable, CaseIterable {
  /// No `Retry-After`.
  case none
  /// Whole seconds.
  case seconds
  /// An HTTP-date (RFC 9110 §5.6.7).
  case date
}
