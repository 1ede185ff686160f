/// How the emulator behaves.
public struct SandboxOptions: Sendable {
  /// The keys whose tokens are good. None makes every answer a 401.
  public var keys: [TrustedKey]
  /// Music user tokens that are good. Each has a library of its own.
  public var userTokens = ["sandbox-user-token"]
  /// Music user tokens of users without a subscription, who get 403 with code 40015.
  public var unsubscribedUserTokens = ["sandbox-user-token-without-subscription"]
  /// How many requests a team may make before it gets 429; nil for any number, since Apple's is not known.
  public var limit: RequestLimit?
  /// What a 429 of that limit says about when to come back.
  public var retryAfter = RetryAfterForm.none
  /// How long nothing happens before each answer; none, so that tests are fast.
  public var delay = Duration.zero
  /// Seconds that the emulator's clock, and so its `Date`, is ahead of the machine's; behind if negative. Brought into
  /// ``clockSkews`` if it is outside.
  public var clockSkew = 0
  /// What answers say about caching; each of the ways somewhere, since Apple's is not known.
  public var cacheFields = CacheFields.mixed
  /// Whether answers are compressed for who accepts gzip; not, so that they can be read off the wire.
  public var compresses = false
  /// Faults that every request under `/v1/` has; none.
  public var faults: [Fault] = []
  /// What the URLs of pictures begin with, such as `https://localhost:8443`; nil for `http://` and the request's host.
  public var baseURL: String?

  /// How far the clock can be off, in seconds: some 30 years, so that sums of times cannot overflow.
  public static let clockSkews = -1_000_000_000...1_000_000_000

  /// The defaults, and these keys.
  public init(keys: [TrustedKey] = []) {
    self.keys = keys
  }
}
