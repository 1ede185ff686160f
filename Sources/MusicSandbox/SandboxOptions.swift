package import DeveloperToken
package import EventLoop
import Glibc
package import MusicCatalog

package struct SandboxOptions: Sendable {
  /// The keys of valid tokens. If empty, every response is 401.
  package var keys: [TrustedKey]
  /// The valid music user tokens. Each has its own library.
  var userTokens = ["sandbox-user-token"]
  /// The music user tokens of users without a subscription, which get 403 with code 40015.
  let unsubscribedUserTokens = ["sandbox-user-token-without-subscription"]
  /// The limit beyond which a team gets 429; nil for none, because Apple's limit is unknown.
  var limit: RequestLimit?
  /// The form of `Retry-After` in a 429 of that limit.
  var retryAfter = RetryAfterForm.none
  /// The delay before each response; zero by default, so that tests are fast.
  var latency = Duration.zero
  /// The seconds by which the emulator's clock, and so its `Date`, is ahead of the machine's; negative if behind.
  var clockSkew = 0
  /// The caching fields of responses. The default mixes all forms, because Apple's are unknown.
  var cacheFields = CacheFields.mixed
  /// The faults of every request under `/v1/`.
  var faults: [Fault] = []
  /// The resources; nil for those in the program, which are read when the first request needs them.
  package var catalog: Catalog?
  /// The beginning of picture URLs, such as `https://localhost:8443`; nil for `http://` and the request's host.
  package var baseURL: String?

  package init(keys: [TrustedKey] = []) {
    self.keys = keys
  }

  var resources: Catalog { catalog ?? .builtIn }

  // MARK: Texts

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

/// The form of `Retry-After` in a 429. Apple has been seen to omit it.
enum RetryAfterForm: String {
  case none, seconds
  /// An HTTP-date (RFC 9110 §5.6.7).
  case date
}

package struct SandboxClock: Sendable {
  /// Returns the seconds since 1970, before any offset.
  let seconds: @Sendable () -> Int
  /// Returns the monotonic time, for rates.
  let now: @Sendable () -> Deadline

  package init(seconds: @escaping @Sendable () -> Int, now: @escaping @Sendable () -> Deadline) {
    (self.seconds, self.now) = (seconds, now)
  }

  static let system = SandboxClock(seconds: { Glibc.time(nil) }, now: { .now })
}
