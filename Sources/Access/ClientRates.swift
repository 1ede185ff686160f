import Bytes

/// The limits of one client, compiled with the policy.
public struct ClientRates: Sendable, Equatable {
  let key: BucketKey
  let caller: TokenBucket?
  let total: TokenBucket?

  /// The value of `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-11 §3): `"caller";q=20;w=4`. Nil if there is
  /// no limit.
  ///
  /// `q` (§3.1.1) is the burst and `w` (§3.1.3) the time in which a whole burst comes back, in seconds rounded up. So the
  /// field may promise less than is given, but not more.
  public let policyField: String?

  /// Limits for the client called `id`, whose buckets stay what they are when its limits change.
  ///
  /// - Parameters:
  ///   - perCaller: How often each caller may ask; nil for as often as he likes.
  ///   - total: How often all of them together may; nil likewise.
  public init(client id: String, perCaller: Rate?, total: Rate?) {
    key = BucketKey(client: id)
    caller = perCaller.map(TokenBucket.init)
    self.total = total.map(TokenBucket.init)
    var bytes: [UInt8] = []
    for (policy, bucket) in [(ServiceLimit.Policy.caller, caller), (.total, self.total)] {
      guard let bucket else { continue }
      if !bytes.isEmpty { bytes.append(", ") }
      bytes.append(policy, bucket)
    }
    policyField = bytes.isEmpty ? nil : String(decoding: bytes, as: UTF8.self)
  }

  /// Whether there is no limit.
  public var isUnlimited: Bool { caller == nil && total == nil }
}

extension [UInt8] {
  fileprivate mutating func append(_ policy: ServiceLimit.Policy, _ bucket: TokenBucket) {
    append(policy.name)
    append(";q=")
    append(decimal: bucket.capacity)
    append(";w=")
    append(decimal: ServiceLimit.seconds(bucket.span))
  }
}

/// The rate that a token bucket allows.
public struct Rate: Sendable, Equatable {
  /// Requests per second in the long run; above 0.
  public var perSecond: Double
  /// Requests at once, after a pause; at least 1.
  public var burst: Int

  /// A rate.
  public init(perSecond: Double, burst: Int) {
    self.perSecond = perSecond
    self.burst = burst
  }

  /// What ``perSecond`` may be: from one request in 100 seconds, less being a ban rather than a rate, to more than one
  /// server answers.
  public static let perSecondRange = 0.01...1_000_000.0

  /// What ``burst`` may be. With the slowest rate, the greatest takes three years to come back, which is still a number
  /// of nanoseconds that an `Int64` holds a hundred times.
  public static let burstRange = 1...1_000_000
}

/// What the limiter allows itself, and those who guess.
public enum RateLimits {
  /// How often an address may present an invalid credential. Beyond that rate, the server answers 429 and not 401.
  ///
  /// A credential has 128 bits or more, so guessing is hopeless at any rate. The limit is for an app with a stale key
  /// that sends requests in a loop, and for the log that it fills. The burst of a hundred is for the many people behind
  /// one address whose app has no update yet.
  public static let failures = Rate(perSecond: 1, burst: 100)

  /// Callers that are remembered, 16 bytes each: as many addresses as ask within the time that a burst takes to come
  /// back, which is seconds mostly. 2 MiB.
  static let callers = 131_072
  /// Clients with a limit on all of their callers. Only ids of the configuration come here, which are a thousand at most;
  /// a table of their own, so that no flood of addresses can push a total out.
  static let clients = 16_384
  /// Addresses with failed attempts; apart, for the same reason. 1 MiB.
  static let failedAddresses = 65_536
}
