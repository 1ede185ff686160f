/// How many requests the emulator grants a team, and how it counts them.
///
/// Apple's number is unpublished, and so is its way of counting. A client has to stay below each of these.
public struct RequestLimit: Sendable, Equatable {
  /// How requests are counted.
  public enum Algorithm: Sendable, Equatable {
    /// A token bucket, which holds at most `burst` requests and fills evenly.
    case bucket(burst: Int)
    /// Windows that begin at multiples of their length.
    case fixedWindow
    /// The window that ends with the request.
    case slidingWindow
  }

  /// The most requests in a window, and the longest window in milliseconds.
  static let highest = (requests: 1_000_000, milliseconds: 3_600_000)
  /// The most requests in a sliding window, of which each has its time kept.
  static let highestSliding = 100_000

  /// Requests in each window.
  public let requests: Int
  /// The window's length in milliseconds.
  public let milliseconds: Int
  /// How they are counted.
  public let algorithm: Algorithm

  /// A limit; nil if a number is out of bounds.
  public init?(_ algorithm: Algorithm, requests: Int, milliseconds: Int) {
    let most = algorithm == .slidingWindow ? Self.highestSliding : Self.highest.requests
    guard (1...most).contains(requests), (1...Self.highest.milliseconds).contains(milliseconds) else { return nil }
    if case .bucket(let burst) = algorithm, !(1...Self.highest.requests).contains(burst) { return nil }
    (self.algorithm, self.requests, self.milliseconds) = (algorithm, requests, milliseconds)
  }

  /// A token bucket; nil if a number is out of bounds.
  public init?(perSecond: Int, burst: Int) {
    self.init(.bucket(burst: burst), requests: perSecond, milliseconds: 1000)
  }

  /// Reads `bucket:20/1s`, `bucket:20/1s,burst=5`, `fixed-window:20/1s` or `sliding-window:5/500ms`; nil for anything
  /// else. A bucket without a burst holds the requests of its window.
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

/// What a 429 says about when to come back. Apple's has been seen without `Retry-After`.
public enum RetryAfterForm: String, Sendable, CaseIterable {
  /// Nothing.
  case none
  /// Whole seconds.
  case seconds
  /// An HTTP-date (RFC 9110 §5.6.7).
  case date
}
