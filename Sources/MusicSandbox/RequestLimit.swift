import EventLoop

/// The number of requests that the emulator grants a team, and the way of counting them.
///
/// Apple publishes neither its number nor its way of counting, so a client should stay below each of these limits.
package struct RequestLimit: Sendable, Equatable {
  enum Algorithm: String {
    /// A token bucket, which holds at most `burst` requests and refills evenly.
    case bucket
    /// Windows that begin at multiples of their length.
    case fixedWindow = "fixed-window"
    /// The window that ends with the request.
    case slidingWindow = "sliding-window"

    /// A sliding window stores the time of each request.
    var mostRequests: Int { self == .slidingWindow ? 100_000 : 1_000_000 }
  }

  let algorithm: Algorithm
  let requests: Int
  let milliseconds: Int
  /// The number of requests that a full bucket holds.
  let burst: Int

  /// Parses `bucket:20/1s`, `bucket:20/1s,burst=5`, `fixed-window:20/1s` or `sliding-window:5/500ms`. Returns nil for
  /// any other text.
  package init?(_ text: String) {
    guard let (name, numbers) = text[...].halves(":"), let algorithm = Algorithm(rawValue: String(name)) else {
      return nil
    }
    let parts = numbers.split(separator: ",", maxSplits: 1, omittingEmptySubsequences: false)
    guard let (count, length) = parts[0].halves("/"), let requests = count.number(in: 1...algorithm.mostRequests),
      let milliseconds = length.milliseconds(in: 1...3_600_000)
    else { return nil }
    var burst = requests
    if parts.count == 2 {
      guard algorithm == .bucket, let (word, size) = parts[1].halves("="), word == "burst",
        let number = size.number(in: 1...algorithm.mostRequests)
      else { return nil }
      burst = number
    }
    (self.algorithm, self.requests, self.milliseconds) = (algorithm, requests, milliseconds)
    self.burst = burst
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
  private var window: (number: UInt64, used: Int) = (0, 0)

  init(_ limit: RequestLimit, now: Deadline) {
    self.limit = limit
    length = UInt64(limit.milliseconds) * 1_000_000
    level = UInt64(limit.burst) * length
    updated = now.nanoseconds
  }

  /// - Returns: Nil if the limit admits the request; otherwise the nanoseconds until it admits one.
  mutating func wait(now: Deadline) -> UInt64? {
    switch limit.algorithm {
    case .bucket: bucket(now.nanoseconds)
    case .fixedWindow: fixedWindow(now.nanoseconds)
    case .slidingWindow: slidingWindow(now.nanoseconds)
    }
  }

  private mutating func bucket(_ now: UInt64) -> UInt64? {
    let rate = UInt64(limit.requests)
    let full = UInt64(limit.burst) * length
    if now > updated {
      let (gain, overflow) = (now - updated).multipliedReportingOverflow(by: rate)
      level = overflow || gain > full - level ? full : level + gain
      updated = now
    }
    guard level >= length else { return (length - level + rate - 1) / rate }
    level -= length
    return nil
  }

  private mutating func fixedWindow(_ now: UInt64) -> UInt64? {
    if now / length != window.number { window = (now / length, 0) }
    guard window.used < limit.requests else { return length - now % length }
    window.used += 1
    return nil
  }

  private mutating func slidingWindow(_ now: UInt64) -> UInt64? {
    times.removeFirst(times.firstIndex { now < $0 + length } ?? times.count)
    if times.count == limit.requests, let first = times.first { return first + length - now }
    times.append(now)
    return nil
  }
}

extension Substring {
  /// The texts before and after the first separator; nil without one.
  func halves(_ separator: Character) -> (Substring, Substring)? {
    firstIndex(of: separator).map { (self[..<$0], self[index(after: $0)...]) }
  }

  func number(in range: ClosedRange<Int>) -> Int? {
    guard utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = Int(self) else { return nil }
    return range.contains(number) ? number : nil
  }

  /// Returns the milliseconds of `2s` or `250ms`, if they are in the range.
  func milliseconds(in range: ClosedRange<Int>) -> Int? {
    if hasSuffix("ms") { return dropLast(2).number(in: range) }
    guard hasSuffix("s"), let seconds = dropLast().number(in: 0...range.upperBound / 1000) else { return nil }
    return range.contains(seconds * 1000) ? seconds * 1000 : nil
  }
}
