public import Bytes
import Locks

/// Counts requests against the limits of clients, for all event loops together.
///
/// One limiter lives as long as the process. A reload brings other ``ClientRates``, but does not reset the buckets. The
/// memory is bounded for any traffic (``RateLimits``), and a request allocates nothing in addition.
public final class RateLimiter: Sendable {
  private let tables: Locked<Tables>
  private let failureBucket = TokenBucket(RateLimits.failures)

  private struct Tables {
    var callers: BucketTable
    var totals = BucketTable(maximum: RateLimits.clients)
    var failures = BucketTable(maximum: RateLimits.failedAddresses)

    var bytes: Int { callers.bytes + totals.bytes + failures.bytes }
  }

  /// Creates a limiter with full buckets.
  public convenience init() {
    self.init(callers: RateLimits.callers)
  }

  init(callers: Int) {
    tables = Locked(Tables(callers: BucketTable(maximum: callers)))
  }

  /// Takes a token of the caller's bucket and one of the client's total, or neither.
  ///
  /// - Parameters:
  ///   - rates: The client's limits.
  ///   - caller: The caller.
  ///   - now: The time in nanoseconds of the monotonic clock.
  public func take(_ rates: ClientRates, for caller: Caller, now: UInt64) -> RateVerdict {
    let now = TokenBucket.moment(now)
    switch (rates.caller, rates.total) {
    case (nil, nil):
      return .unlimited
    case (let own?, nil):
      let key = BucketKey(client: rates.key, caller: caller)
      return tables.withLock { $0.callers.take(own, key, now: now) }.verdict(.caller, now: now)
    case (nil, let total?):
      return tables.withLock { $0.totals.take(total, rates.key, now: now) }.verdict(.total, now: now)
    case (let own?, let total?):
      let key = BucketKey(client: rates.key, caller: caller)
      return takeBoth(own, key, total, rates.key, now: now)
    }
  }

  /// Counts a failed credential. The server does not count valid credentials here, so it never slows them down.
  ///
  /// - Returns: The seconds until the address may try again, for `Retry-After`; nil if it may continue now.
  public func takeFailure(from address: String, now: UInt64) -> Int? {
    let now = TokenBucket.moment(now)
    let key = BucketKey(address: address)
    let wait = tables.withLock { $0.failures.take(failureBucket, key, now: now) }.wait
    return wait > 0 ? ServiceLimit.seconds(wait) : nil
  }

  /// The size of the tables in bytes.
  var bytes: Int { tables.withLock { $0.bytes } }

  private func takeBoth(
    _ own: TokenBucket, _ key: BucketKey, _ total: TokenBucket, _ client: BucketKey, now: Int64
  ) -> RateVerdict {
    let (mine, all) = tables.withLock { tables in
      let mine = own.take(fullAt: tables.callers[key], now: now)
      let all = total.take(fullAt: tables.totals[client], now: now)
      let isTaken = mine.wait == 0 && all.wait == 0
      tables.callers.store(key, mine, isTaken: isTaken, now: now)
      tables.totals.store(client, all, isTaken: isTaken, now: now)
      return (mine, all)
    }
    // The tighter limit applies: the longer wait or, if the waits are equal, the smaller remainder.
    let isMine = mine.wait != all.wait ? mine.wait > all.wait : mine.remaining <= all.remaining
    return isMine ? mine.verdict(.caller, now: now) : all.verdict(.total, now: now)
  }
}

extension BucketTable {
  /// Takes a token if one is available.
  fileprivate mutating func take(_ bucket: TokenBucket, _ key: BucketKey, now: Int64) -> TokenBucket.Outcome {
    let outcome = bucket.take(fullAt: self[key], now: now)
    store(key, outcome, isTaken: outcome.wait == 0, now: now)
    return outcome
  }

  /// Stores the new state of a bucket.
  fileprivate mutating func store(_ key: BucketKey, _ outcome: TokenBucket.Outcome, isTaken: Bool, now: Int64) {
    if isTaken {
      set(key, fullAt: outcome.fullAt, now: now)
    } else if outcome.untakenFullAt < self[key] {
      set(key, fullAt: outcome.untakenFullAt, now: now)
    }
  }
}

extension TokenBucket.Outcome {
  fileprivate func verdict(_ policy: ServiceLimit.Policy, now: Int64) -> RateVerdict {
    let limit = ServiceLimit(policy, self, now: now)
    return wait > 0 ? .limited(limit) : .allowed(limit)
  }
}

/// The result of counting a request against its client's limits.
public enum RateVerdict: Sendable, Equatable {
  /// There are no limits.
  case unlimited
  /// The request is within the limits; the value is the remaining quota.
  case allowed(ServiceLimit)
  /// The request exceeds a limit; its `seconds` are the value of `Retry-After`.
  case limited(ServiceLimit)
}

/// A table of the buckets that are not full, by key. It starts small and grows to a fixed maximum.
struct BucketTable {
  private struct Entry {
    var key: UInt64
    var fullAt: Int64
  }

  private static let ways = 8
  private static let free = Entry(key: 0, fullAt: .min)

  private var entries: [Entry]
  private let maximum: Int

  /// A table of at most `maximum` entries, a power of two and at least 128.
  init(maximum: Int) {
    self.maximum = maximum
    entries = Array(repeating: Self.free, count: min(128, maximum))
  }

  /// The present number of places.
  var capacity: Int { entries.count }

  /// The size of the table in bytes.
  var bytes: Int { entries.count * MemoryLayout<Entry>.stride }

  /// The moment when the bucket is full; in the distant past if the table does not contain it.
  subscript(key: BucketKey) -> Int64 {
    for index in places(of: key.bits) where entries[index].key == key.bits { return entries[index].fullAt }
    return Self.free.fullAt
  }

  /// Stores the moment when a bucket is full.
  mutating func set(_ key: BucketKey, fullAt: Int64, now: Int64) {
    let entry = Entry(key: key.bits, fullAt: fullAt)
    var place = place(for: key.bits)
    while entries[place].key != key.bits, entries[place].fullAt > now, entries.count < maximum {
      grow(now: now)
      place = self.place(for: key.bits)
    }
    entries[place] = entry
  }

  /// Returns the place of the key or, if it is absent, the place in its set to evict first.
  private func place(for key: UInt64) -> Int {
    let places = places(of: key)
    var best = places.lowerBound
    for index in places {
      if entries[index].key == key { return index }
      if entries[index].fullAt < entries[best].fullAt { best = index }
    }
    return best
  }

  private func places(of key: UInt64) -> Range<Int> {
    let sets = UInt64(entries.count / Self.ways)
    let first = Int(key & (sets - 1)) * Self.ways
    return first..<first + Self.ways
  }

  /// Doubles the table. Every set splits into two, so all buckets in use fit.
  private mutating func grow(now: Int64) {
    let old = entries
    entries = Array(repeating: Self.free, count: old.count * 2)
    for entry in old where entry.fullAt > now { entries[place(for: entry.key)] = entry }
  }
}

/// The name of a bucket: 64 bits of SipHash, under a new key in each process.
struct BucketKey: Sendable, Equatable {
  let bits: UInt64

  /// Creates the key of these bits.
  init(bits: UInt64) {
    self.bits = bits
  }

  /// Creates the key of a client's total.
  init(client id: String) {
    self.init { $0.combine(id) }
  }

  /// Creates the key of one caller of a client.
  init(client: BucketKey, caller: Caller) {
    self.init {
      $0.combine(client.bits)
      $0.combine(caller)
    }
  }

  /// Creates the key of an address, for all clients.
  init(address: String) {
    self.init { $0.combine(address) }
  }

  private init(_ fill: (inout Hasher) -> Void) {
    var hasher = Hasher()
    fill(&hasher)
    self.init(bits: UInt64(bitPattern: Int64(hasher.finalize())))
  }
}

/// A caller for which a rate counts, among the callers of one client.
public enum Caller: Sendable, Hashable {
  /// An address: an IPv4 address, an IPv6 network of /64, or `unix`.
  case address(String)
  /// The `sub` of a JWT (RFC 7519 §4.1.2), from any address.
  case subject(ByteString)
}

extension Caller {
  /// The address or the subject as bytes, for the shares of a quota.
  public var bytes: ByteString {
    switch self {
    case .address(let text): ByteString(text)
    case .subject(let bytes): bytes
    }
  }
}
