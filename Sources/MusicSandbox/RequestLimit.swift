import DequeModule
import EventLoop

/// The number of requests that the emulator grants a team, and the way of counting them. Apple publishes neither, so a
/// client should stay below each of these limits.
struct RequestLimit: Sendable, Equatable {
  enum Algorithm: String {
    /// A token bucket, which holds at most `burst` requests and refills evenly.
    case bucket
    /// Windows that begin at multiples of their length.
    case fixedWindow = "fixed-window"
    /// The window that ends with the request.
    case slidingWindow = "sliding-window"
  }

  let algorithm: Algorithm
  let requests: Int
  let milliseconds: Int
  /// The number of requests that count at one time: those of a full bucket or window.
  let burst: Int

  /// Parses `bucket:20/1s`, `bucket:20/1s,burst=5`, `fixed-window:20/1s` or `sliding-window:5/500ms`. Returns nil for
  /// any other text.
  init?(_ text: String) {
    guard let (name, numbers) = text[...].halves(":"), let algorithm = Algorithm(rawValue: String(name)),
      let (count, rest) = numbers.halves("/")
    else { return nil }
    // Each request in a sliding window ends at a time of its own.
    let range = 1...(algorithm == .slidingWindow ? 100_000 : 1_000_000)
    let (length, size) = rest.halves(",") ?? (rest, "burst=\(count)")
    guard let requests = count.number(in: range), let milliseconds = length.milliseconds(in: 1...3_600_000),
      let (word, number) = size.halves("="), word == "burst", let burst = number.number(in: range),
      algorithm == .bucket || length == rest
    else { return nil }
    (self.algorithm, self.requests, self.milliseconds, self.burst) = (algorithm, requests, milliseconds, burst)
  }
}

/// The requests of one team that count against its limit. Refused requests do not.
struct RequestCount: Sendable {
  let limit: RequestLimit
  /// The times in nanoseconds from which the requests no longer count, in order.
  private(set) var ends: Deque<UInt64> = []

  /// - Returns: Nil if the limit admits the request; otherwise the nanoseconds until it admits one.
  mutating func wait(now: Deadline) -> UInt64? {
    let (now, length) = (now.nanoseconds, UInt64(limit.milliseconds) * 1_000_000)
    ends.removeFirst(ends.firstIndex { $0 > now } ?? ends.count)
    if ends.count == limit.burst, let first = ends.first { return first - now }
    switch limit.algorithm {
    // A bucket gets back one request after the other.
    case .bucket: ends.append(max(ends.last ?? 0, now) + length / UInt64(limit.requests))
    case .fixedWindow: ends.append(now - now % length + length)
    case .slidingWindow: ends.append(now + length)
    }
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
