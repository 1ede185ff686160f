import Bytes

/// The rate limits of one client, compiled with the policy.
public struct ClientRates: Sendable, Equatable {
  let id: String
  /// The hash of the ID, with a seed per process.
  let key: UInt64
  /// The hashes of the ID with the rate of the callers and with that of the total, for buckets that replicas share.
  let callersKey: UInt64
  let totalKey: UInt64
  let caller: TokenBucket?
  let total: TokenBucket?
  /// Whether there is no limit.
  public let isUnlimited: Bool
  /// Whether the store decides about each request, if there is one.
  public let isStrict: Bool

  /// `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-11 §3): `"caller";q=20;w=4`; nil without limits.
  ///
  /// `q` (§3.1.1) is the burst, `w` (§3.1.3) the time in which all of it refills, in seconds rounded up: never too few.
  public let policyField: String?

  /// Compiles the limits of each caller of the client `id`, and of all together; nil for no limit.
  public init(client id: String, perCaller: Rate?, total: Rate?, isStrict: Bool = false) {
    self.id = id
    self.isStrict = isStrict
    let buckets = (caller: perCaller.map(TokenBucket.init), total: total.map(TokenBucket.init))
    (caller, self.total) = buckets
    isUnlimited = perCaller == nil && total == nil
    key = Hasher.hash { $0.combine(id) }
    func hash(with bucket: TokenBucket?) -> UInt64 {
      Hasher.hash {
        $0.combine(id)
        $0.combine(bucket)
      }
    }
    (callersKey, totalKey) = (hash(with: buckets.caller), hash(with: buckets.total))
    let limits = [(ServiceLimit.Policy.caller, buckets.caller), (.total, buckets.total)]
    let policies = limits.compactMap { policy, bucket in
      bucket.map { "\(policy.name);q=\($0.capacity);w=\(ServiceLimit.seconds($0.span))" }
    }
    policyField = policies.isEmpty ? nil : policies.joined(separator: ", ")
  }
}

/// The rate that a token bucket allows.
public struct Rate: Sendable, Equatable {
  /// The requests per second in the long run; above 0.
  public var perSecond: Double
  /// The number of requests at once after a pause; at least 1.
  public var burst: Int

  /// Creates a rate; both values should lie in their ranges.
  public init(perSecond: Double, burst: Int) { (self.perSecond, self.burst) = (perSecond, burst) }

  /// Below one request in 100 seconds, the rate would be a ban. The upper bound is more than one server can answer.
  public static let perSecondRange = 0.01...1_000_000.0
  /// At the slowest rate, the largest burst takes three years to refill: a hundredth of the nanoseconds of an `Int64`.
  public static let burstRange = 1...1_000_000
}

/// The limits of the limiter's memory and of failed attempts.
public enum RateLimits {
  /// The rate at which an address may present invalid credentials. Beyond it the server answers 429 and not 401.
  public static let failures = Rate(perSecond: 1, burst: 100)
  /// The rate of explanations for operators, in all. An operator needs a few, and a guesser of credentials many.
  public static let explanations = Rate(perSecond: 5, burst: 50)
  /// The rate at which an address may have tokens judged. A person needs a few, and each costs a signature's check.
  public static let inspections = Rate(perSecond: 5, burst: 50)

  /// The most remembered callers, 24 bytes each: 3 MiB. They send requests within the seconds in which a burst refills.
  package static let callers = 131_072
  /// The most clients with a limit on all of their callers. Only configured ids are stored here, at most a thousand.
  /// The table is separate, so that a flood of addresses cannot evict a total.
  static let clients = 16_384
  /// The most addresses with failed attempts, in a separate table for the same reason. 1.5 MiB.
  static let failedAddresses = 65_536
  /// The most remembered JWTs that were valid lately, 16 bytes each: 1 MiB.
  static let validCredentials = 65_536
  /// The nanoseconds for which a valid JWT is remembered without a request: an hour, the usual lifetime of one.
  static let memoryOfCredentials: Int64 = 3_600_000_000_000
}

/// The arithmetic of a token bucket. Its whole state is one moment: when the bucket will be full again.
///
/// This is the generic cell rate algorithm (ITU-T I.371, annex A, "theoretical arrival time"). The moment of a full
/// bucket has passed. Each token taken moves the moment one interval ahead, but never further than an empty bucket
/// takes to fill. So a bucket needs only eight bytes and no refilling, and a bucket without an entry is full.
///
/// All moments and times are nanoseconds of one monotonic clock.
struct TokenBucket: Sendable, Hashable {
  let capacity: Int
  /// The time in which one token is added.
  let interval: Int64
  /// The time that an empty bucket takes to fill.
  let span: Int64

  /// Creates the bucket of a rate. A rate outside of its ranges, such as ``Rate/perSecondRange``, is clamped to them.
  init(_ rate: Rate) {
    let range = Rate.perSecondRange
    // NaN compares false with every number, so this expression turns it into the lower bound.
    let perSecond = rate.perSecond >= range.upperBound ? range.upperBound : max(range.lowerBound, rate.perSecond)
    // From 1000 to 10^11, so the rounding is at most one part in 2000, and the span at most 10^17.
    let interval = Int64((1e9 / perSecond).rounded())
    self.init(
      capacity: min(max(rate.burst, Rate.burstRange.lowerBound), Rate.burstRange.upperBound), interval: interval)
  }

  private init(capacity: Int, interval: Int64) {
    (self.capacity, self.interval, span) = (capacity, interval, interval * Int64(capacity))
  }

  /// Returns the bucket of one of `replicas`: a part of the rate and of the burst, but at least one request.
  func divided(by replicas: Int64) -> TokenBucket {
    TokenBucket(capacity: max(1, capacity / Int(replicas)), interval: interval * replicas)
  }

  struct TakeResult: Equatable {
    /// The moment when the bucket is full again, if the token is taken.
    let fullAt: Int64
    /// The same if the token is not taken. It may be earlier than the stored moment, which another rate may have set.
    let untakenFullAt: Int64
    let remaining: Int
    /// The time until a token is available; 0 if one is available now.
    let wait: Int64
    /// The time until the next request can take a token.
    let nextWait: Int64
  }

  /// Takes one token at `now` from a bucket that will be full at `fullAt`.
  ///
  /// If another rate used the bucket before, the same time until it is full counts as debt at this rate, but never as
  /// more than an empty bucket. So after a reload no caller waits longer than an empty bucket takes to fill at this
  /// rate, if ``TakeResult/untakenFullAt`` is stored; otherwise the next attempt finds the old debt again.
  ///
  /// - Parameters:
  ///   - now: A ``moment(_:)``.
  ///   - mostDebt: The largest debt, in place of that of an empty bucket; at most `Int64.max / 4`, so that no sum overflows.
  func take(fullAt: Int64, now: Int64, mostDebt: Int64? = nil) -> TakeResult {
    let debt = min(max(fullAt, now), now + (mostDebt ?? span))
    let after = debt + interval
    let spare = now + span - after
    return TakeResult(
      fullAt: after, untakenFullAt: debt, remaining: Int(max(0, spare) / interval), wait: max(0, -spare),
      nextWait: max(0, interval - spare))
  }

  /// Converts a moment of the clock to that of the buckets, which stops after 146 years.
  static func moment(_ nanoseconds: UInt64) -> Int64 {
    // Half of the range, so that adding a span cannot overflow.
    Int64(min(nanoseconds, UInt64(Int64.max / 2)))
  }
}

/// The remaining quota under a caller's tightest limit: `RateLimit` (draft-ietf-httpapi-ratelimit-headers-11 §4).
public struct ServiceLimit: Sendable, Equatable {
  /// The kind of limit: a quota policy's name in the fields (§3).
  public enum Policy: Sendable, Equatable {
    /// The limit of each caller.
    case caller
    /// The limit of all callers of a client together.
    case total

    /// The name in the fields: a String of RFC 9651 §3.3.3, which needs no escape.
    var name: StaticString {
      switch self {
      case .caller: "\"caller\""
      case .total: "\"total\""
      }
    }
  }

  /// The kind of limit.
  public let policy: Policy
  /// The number of requests that the server would accept now: `r` (§4.1.1).
  public let remaining: Int
  /// The effective window in seconds, rounded up and at least 1: `t` (§4.1.2). While requests remain, this is the time
  /// until the bucket is full again. Otherwise it is the time until the next request is accepted, as in `Retry-After`,
  /// which should not point to an earlier moment than `t` (§6).
  public let seconds: Int

  /// The most bytes of the field: a name, two parameters, and two numbers of any size.
  public static let mostBytes = 64
}

extension ServiceLimit {
  init(_ policy: Policy, _ outcome: TokenBucket.TakeResult, now: Int64) {
    self.policy = policy
    remaining = outcome.remaining
    seconds = Self.seconds(
      outcome.wait > 0 ? outcome.wait : outcome.remaining == 0 ? outcome.nextWait : outcome.fullAt - now)
  }

  /// Converts nanoseconds to whole seconds, rounded up, at least 1.
  static func seconds(_ nanoseconds: Int64) -> Int { max(1, Int((nanoseconds - 1) / 1_000_000_000) + 1) }
}

extension OutputSpan<UInt8> {
  /// Appends the value of `RateLimit`: `"caller";r=19;t=4`. The numbers are far below 15 digits (RFC 9651 §3.3.1).
  public mutating func append(_ limit: ServiceLimit) {
    append(limit.policy.name)
    append(";r=")
    append(decimal: limit.remaining)
    append(";t=")
    append(decimal: limit.seconds)
  }
}
