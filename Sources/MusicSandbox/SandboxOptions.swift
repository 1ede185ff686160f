import Bytes
import DequeModule
package import DeveloperToken
package import EventLoop
import Glibc
import HTTPTypes

package struct SandboxOptions: Sendable {
  /// The keys of valid tokens. If empty, every response is 401.
  package var keys: [TrustedKey]
  /// The valid music user tokens. Each has its own library.
  var userTokens = ["sandbox-user-token"]
  /// The music user tokens of users without a subscription, which get 403 with code 40015.
  let unsubscribedUserTokens = ["sandbox-user-token-without-subscription"]
  /// The limit beyond which a team gets 429; nil for none, because Apple's limit is unknown.
  var limit: RequestLimit?
  var retryAfter = RetryAfterForm.none
  /// The delay before each response; zero by default, so that tests are fast.
  var latency = Duration.zero
  /// The seconds by which the emulator's clock, and so its `Date`, is ahead of the machine's; negative if behind.
  var clockSkew = 0
  /// The caching fields of responses. The default mixes all forms, because Apple's are unknown.
  var cacheFields = CacheFields.mixed
  /// The faults of every request under `/v1/`.
  var faults: [Fault] = []
  /// The resources, by default those in the program.
  package var catalog = Catalog.builtIn
  /// The beginning of picture URLs, such as `https://localhost:8443`; nil for `http://` and the request's host.
  package var baseURL: String?

  package init(keys: [TrustedKey] = []) { self.keys = keys }

  /// An option that the command line and `PUT /sandbox/faults` write as a text.
  package enum Text: String {
    case limit, retryAfter, latency, clockSkew, cacheFields, fault

    /// What the text must be.
    package var form: String {
      switch self {
      case .limit: "a limit such as bucket:20/1s, bucket:20/1s,burst=5, fixed-window:20/1s or sliding-window:20/1s"
      case .retryAfter: "none, seconds or date"
      case .latency: "a time such as 100ms or 1s"
      case .clockSkew: "a number of seconds from \(clockSkews.lowerBound) to \(clockSkews.upperBound)"
      case .cacheFields: "etag, max-age, both, none or mixed"
      case .fault: "a fault such as delay=1s, status=503 or reset"
      }
    }
  }

  /// Some 30 years, so that sums of times cannot overflow.
  private static let clockSkews = -1_000_000_000...1_000_000_000

  /// Sets an option. Returns nil, and changes nothing, if the text does not have its form.
  package mutating func set(_ option: Text, to text: String) -> Void? {
    switch option {
    case .limit: RequestLimit(text).map { limit = $0 }
    case .retryAfter: RetryAfterForm(rawValue: text).map { retryAfter = $0 }
    case .latency: text[...].milliseconds(in: 0...Fault.maximumDelay).map { latency = .milliseconds($0) }
    case .clockSkew: Int(text).flatMap { Self.clockSkews.contains($0) ? $0 : nil }.map { clockSkew = $0 }
    case .cacheFields: CacheFields(rawValue: text).map { cacheFields = $0 }
    case .fault: Fault.parse(text).map { faults = $0 }
    }
  }
}

/// The form of `Retry-After` in a 429 (RFC 9110 §10.2.3). Apple has been seen to omit it.
enum RetryAfterForm: String { case none, seconds, date }

package struct SandboxClock: Sendable {
  /// Returns the seconds since 1970, before any offset.
  let seconds: @Sendable () -> Int
  /// Returns the monotonic time, for rates.
  let now: @Sendable () -> Deadline

  package init(seconds: @escaping @Sendable () -> Int, now: @escaping @Sendable () -> Deadline) {
    (self.seconds, self.now) = (seconds, now)
  }

  package static let system = SandboxClock(seconds: { Glibc.time(nil) }, now: { .now })
}

/// The caching fields of responses. Apple's behaviour is unknown, so a test can select any.
package enum CacheFields: String, Sendable {
  /// An `ETag`; the emulator answers a matching `If-None-Match` with 304.
  case etag
  /// `Cache-Control` with `max-age`.
  case maxAge = "max-age"
  case both, none
  /// Storefronts and languages have both fields, albums and songs an `ETag`, artists, genres and playlists a `max-age`,
  /// and all other responses, such as searches and charts, none.
  case mixed

  func resolved(_ segments: [String]) -> CacheFields {
    guard self == .mixed else { return self }
    switch (segments.first, segments.dropFirst(2).first) {
    case ("storefronts", _), ("language", _): return .both
    case ("catalog", "albums"), ("catalog", "songs"): return .etag
    case ("catalog", "artists"), ("catalog", "genres"), ("catalog", "playlists"): return .maxAge
    default: return .none
    }
  }

  func mark(_ response: inout SandboxResponse) {
    if self == .maxAge || self == .both { response.fields[.cacheControl] = "max-age=300" }
    guard self == .etag || self == .both else { return }
    response.fields[.eTag] = "\"\(String(UInt64(fnv1a: response.content), radix: 16))\""
  }

  /// Turns a response into a 304 if the request names its tag (RFC 9110 §13.1.2).
  static func leaveOut(_ response: inout SandboxResponse, knownTo request: SandboxRequest) {
    guard let tag = response.fields[.eTag] else { return }
    let known = request.fields.plain(.ifNoneMatch).joined(separator: ",").split { $0 == "," || $0 == " " }
    // The comparison is weak (RFC 9110 §8.8.3.2).
    guard known.contains(where: { ["*", tag[...], "W/\(tag)"].contains($0) }) else { return }
    (response.status, response.content) = (304, [])
    response.fields[.contentType] = nil
  }
}

/// How many requests the emulator grants a team, and how it counts them. Apple publishes neither: stay below each.
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

  /// Parses `bucket:20/1s`, `bucket:20/1s,burst=5`, `fixed-window:20/1s` or `sliding-window:5/500ms`; nil if malformed.
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
