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

/// The arithmetic of a token bucket, which is all in one moment: when the bucket will be full again.
///
/// This is the generic cell rate algorithm (ITU-T I.371, annex A, "theoretical arrival time"). The moment of a full
/// bucket has passed. Each token taken moves the moment one interval ahead, but never further than an empty bucket
/// takes to fill. So a bucket needs only eight bytes and no refilling, and a bucket without an entry is full.
///
/// All moments and times are nanoseconds of one monotonic clock.
struct TokenBucket: Sendable, Equatable {
  /// How many tokens it holds.
  let capacity: Int
  /// How long one token takes to come.
  let interval: Int64
  /// How long an empty bucket takes to fill.
  let span: Int64

  /// The bucket of a rate. A rate outside of its ranges, such as ``Rate/perSecondRange``, is clamped to them.
  init(_ rate: Rate) {
    let range = Rate.perSecondRange
    // Written so that NaN, which compares with nothing, ends at the lower bound.
    let perSecond = rate.perSecond >= range.upperBound ? range.upperBound : max(range.lowerBound, rate.perSecond)
    capacity = min(max(rate.burst, Rate.burstRange.lowerBound), Rate.burstRange.upperBound)
    // From 1000 to 10^11, so the rounding is at most one part in 2000, and the span at most 10^17.
    interval = Int64((1e9 / perSecond).rounded())
    span = interval * Int64(capacity)
  }

  /// The result of taking one token.
  struct Outcome: Equatable {
    /// When the bucket is full again, if the token is taken.
    let fullAt: Int64
    /// And if it is not: sooner than was thought, if another rate had thought so.
    let untakenFullAt: Int64
    /// How many tokens are left behind it.
    let remaining: Int
    /// How long until there is a token to take; 0 if there is one now.
    let wait: Int64
    /// How long the next request has to wait for a token.
    let nextWait: Int64
  }

  /// Takes one token at `now` from a bucket that will be full at `fullAt`.
  ///
  /// If another rate used the bucket before, the same time until it is full counts as debt at this rate, but never as
  /// more than an empty bucket. So after a reload a caller never waits longer than an empty bucket takes to fill at
  /// this rate. This requires the caller of this function to store ``Outcome/untakenFullAt``; otherwise the next
  /// attempt finds the old debt again.
  /// - Parameter now: A ``moment(_:)``.
  func take(fullAt: Int64, now: Int64) -> Outcome {
    let filled = now + span
    let debt = min(max(fullAt, now), filled)
    let after = debt + interval
    let spare = filled - after
    return Outcome(
      fullAt: after, untakenFullAt: debt, remaining: Int(max(0, spare) / interval), wait: max(0, -spare),
      nextWait: max(0, interval - spare))
  }

  /// A moment of the clock as the buckets count it; after 146 years, time stands still.
  static func moment(_ nanoseconds: UInt64) -> Int64 {
    // Half of what there is, so that a span always fits on top.
    Int64(min(nanoseconds, UInt64(Int64.max / 2)))
  }
}

/// What a caller has left of the limit that binds him most: what the `RateLimit` field says
/// (draft-ietf-httpapi-ratelimit-headers-11 §4).
public struct ServiceLimit: Sendable, Equatable {
  /// Which limit: a quota policy's name in the fields (§3).
  public enum Policy: Sendable, Equatable {
    /// Each caller's own.
    case caller
    /// That of all callers of a client together.
    case total

    /// As it stands in the fields: a String of RFC 9651 §3.3.3, which needs no escape.
    var name: StaticString {
      switch self {
      case .caller: "\"caller\""
      case .total: "\"total\""
      }
    }
  }

  /// Which limit.
  public let policy: Policy
  /// Requests that would be let in now: `r` (§4.1.1).
  public let remaining: Int
  /// The effective window in seconds, rounded up and at least 1: `t` (§4.1.2).
  ///
  /// While requests remain, until the bucket is full again. When none does, until the next one is let in, which is what
  /// `Retry-After` says as well: it should not point to an earlier moment than `t` (§6).
  public let seconds: Int

  /// The value of `RateLimit`: `"caller";r=19;t=4`.
  public var field: String {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(40)
    bytes.append(self)
    return String(decoding: bytes, as: UTF8.self)
  }
}

extension [UInt8] {
  /// Appends the value of `RateLimit`: `"caller";r=19;t=4`. Its numbers are far below the fifteen digits of an Integer
  /// of RFC 9651 §3.3.1.
  public mutating func append(_ limit: ServiceLimit) {
    append(limit.policy.name)
    append(";r=")
    append(decimal: limit.remaining)
    append(";t=")
    append(decimal: limit.seconds)
  }
}

extension ServiceLimit {
  /// What is left behind a taken token, or before one may be taken.
  init(_ policy: Policy, _ outcome: TokenBucket.Outcome, now: Int64) {
    self.policy = policy
    remaining = outcome.remaining
    let isLimited = outcome.wait > 0
    seconds = Self.seconds(
      isLimited ? outcome.wait : outcome.remaining == 0 ? outcome.nextWait : outcome.fullAt - now)
  }

  /// Nanoseconds in whole seconds, rounded up, at least 1.
  static func seconds(_ nanoseconds: Int64) -> Int {
    max(1, Int((nanoseconds - 1) / 1_000_000_000) + 1)
  }
}
