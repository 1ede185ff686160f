public import Bytes
import Locks

/// Counts requests against the limits of clients, for all event loops together.
///
/// One limiter lives as long as the process. A reload brings other ``ClientRates``, but does not reset the buckets, unless
/// they are in a store, where a changed rate has new ones. The memory is bounded for any traffic (``RateLimits``), and a
/// request allocates nothing in addition.
public final class RateLimiter: Sendable {
  private let tables: Locked<Tables>
  private let failureBucket = TokenBucket(RateLimits.failures)
  /// The JWTs that were valid lately, which failed attempts of their address do not slow down.
  public let validJWTs = RecentCredentials()
  /// The buckets that all replicas share; nil for buckets of this process alone.
  package let shared: SharedRates?

  private struct Tables {
    var callers: BucketTable<LocalBucket>
    var totals = BucketTable<LocalBucket>(maximum: RateLimits.clients)
    var failures = BucketTable<LocalBucket>(maximum: RateLimits.failedAddresses)

    var bytes: Int { callers.bytes + totals.bytes + failures.bytes }
  }

  /// Creates a limiter with full buckets.
  public convenience init() {
    self.init(callers: RateLimits.callers)
  }

  /// Creates a limiter whose buckets the replicas of a group share.
  package init(shared: SharedRates) {
    self.shared = shared
    tables = Locked(Tables(callers: BucketTable(maximum: 128)))
  }

  init(callers: Int) {
    shared = nil
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
    if let shared { return shared.take(rates, for: caller, now: now) }
    guard !rates.isUnlimited else { return .unlimited }
    let key = rates.caller == nil ? rates.key : BucketKey(client: rates.key, caller: caller)
    let (own, total) = tables.withLock { tables in
      let own = rates.caller.map { $0.take(fullAt: tables.callers[key], now: now) }
      let total = rates.total.map { $0.take(fullAt: tables.totals[rates.key], now: now) }
      let isTaken = (own?.wait ?? 0) == 0 && (total?.wait ?? 0) == 0
      if let own { tables.callers.store(key, own, isTaken: isTaken, now: now) }
      if let total { tables.totals.store(rates.key, total, isTaken: isTaken, now: now) }
      return (own, total)
    }
    return RateVerdict(caller: own, total: total, now: now)
  }

  /// Returns the tokens to take from the store; nil if this process decides alone: the client is not strict, or there is
  /// no store now.
  package func strictTake(_ rates: ClientRates, for caller: Caller, now: UInt64) -> StrictTake? {
    guard rates.isStrict else { return nil }
    return shared?.strictTake(rates, for: caller, now: TokenBucket.moment(now))
  }

  /// Counts the store's decision. Returns the verdict; nil if the reply makes no sense.
  package func verdict(_ reply: StrictReply, on take: StrictTake, now: UInt64) -> RateVerdict? {
    shared?.verdict(reply, on: take, now: TokenBucket.moment(now))
  }

  /// Counts a failed credential. The server does not count valid credentials here, so it never slows them down.
  ///
  /// - Returns: The seconds until the address may try again, for `Retry-After`; nil if it may continue now.
  public func takeFailure(from address: String, now: UInt64) -> Int? {
    let now = TokenBucket.moment(now)
    let wait =
      if let shared {
        shared.takeFailure(failureBucket, from: address, now: now)
      } else {
        tables.withLock { $0.failures.take(failureBucket, BucketKey(address: address), now: now) }.wait
      }
    return wait > 0 ? ServiceLimit.seconds(wait) : nil
  }

  /// Returns the seconds until the address may try a credential again; nil if it may now. Counts nothing.
  public func failureWait(of address: String, now: UInt64) -> Int? {
    let now = TokenBucket.moment(now)
    let wait =
      if let shared {
        shared.failureWait(failureBucket, of: address, now: now)
      } else {
        failureBucket.take(fullAt: tables.withLock { $0.failures[BucketKey(address: address)] }, now: now).wait
      }
    return wait > 0 ? ServiceLimit.seconds(wait) : nil
  }

  /// The size of the tables in bytes.
  var bytes: Int { tables.withLock { $0.bytes } }
}

extension BucketTable<LocalBucket> {
  /// Takes a token if one is available.
  fileprivate mutating func take(_ bucket: TokenBucket, _ key: BucketKey, now: Int64) -> TokenBucket.TakeResult {
    let outcome = bucket.take(fullAt: self[key], now: now)
    store(key, outcome, isTaken: outcome.wait == 0, now: now)
    return outcome
  }

  fileprivate mutating func store(_ key: BucketKey, _ outcome: TokenBucket.TakeResult, isTaken: Bool, now: Int64) {
    if isTaken {
      set(key, fullAt: outcome.fullAt, now: now)
    } else if outcome.untakenFullAt < self[key] {
      set(key, fullAt: outcome.untakenFullAt, now: now)
    }
  }
}

/// The result of counting a request against its client's limits.
public enum RateVerdict: Sendable, Equatable {
  case unlimited
  /// The request is within the limits; the value is the remaining quota.
  case allowed(ServiceLimit)
  /// The request exceeds a limit; its `seconds` are the value of `Retry-After`.
  case limited(ServiceLimit)

  /// The verdict of the tighter limit: the one with the longer wait or, if the waits are equal, the smaller remainder.
  init(caller: TokenBucket.TakeResult?, total: TokenBucket.TakeResult?, now: Int64) {
    let isTotal =
      if let caller, let total {
        caller.wait != total.wait ? caller.wait < total.wait : caller.remaining > total.remaining
      } else { caller == nil }
    guard let tighter = isTotal ? total : caller else {
      self = .unlimited
      return
    }
    let limit = ServiceLimit(isTotal ? .total : .caller, tighter, now: now)
    self = tighter.wait > 0 ? .limited(limit) : .allowed(limit)
  }
}

/// The name of a bucket: 64 bits of SipHash, under a new key in each process.
struct BucketKey: Sendable, Equatable {
  let bits: UInt64

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

  /// Creates the key of a client's buckets of one kind and one rate.
  init(client: BucketKey, _ kind: BucketID.Kind, _ bucket: TokenBucket?) {
    self.init {
      $0.combine(client.bits)
      $0.combine(kind)
      $0.combine(bucket)
    }
  }

  /// Creates the key of an address, for all clients.
  init(address: String) {
    self.init { $0.combine(address) }
  }

  init(credential: ArraySlice<UInt8>) {
    self.init { hasher in unsafe credential.withUnsafeBytes { unsafe hasher.combine(bytes: $0) } }
  }

  init(_ fill: (inout Hasher) -> Void) {
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

/// The credentials that were valid lately.
///
/// An address with many failed attempts has to wait before the server judges another credential of it. A caller who
/// shares the address, and whose credential was valid before, does not have to wait. The memory grants nothing: the
/// server judges a remembered credential like any other. So it needs 64 bits of SipHash of each, under a new key in
/// each process, and never the credential.
public final class RecentCredentials: Sendable {
  private let table: Locked<BucketTable<LocalBucket>>

  init(maximum: Int = RateLimits.validCredentials) {
    table = Locked(BucketTable(maximum: maximum))
  }

  /// Remembers a valid credential.
  ///
  /// - Parameter now: The time in nanoseconds of the monotonic clock.
  public func remember(_ credential: ArraySlice<UInt8>, now: UInt64) {
    let (key, now) = (BucketKey(credential: credential), TokenBucket.moment(now))
    table.withLock { $0.set(key, fullAt: now + RateLimits.memoryOfCredentials, now: now) }
  }

  /// Returns whether the credential was valid within the last hour.
  ///
  /// - Parameter now: The time in nanoseconds of the monotonic clock.
  public func remembers(_ credential: ArraySlice<UInt8>, now: UInt64) -> Bool {
    let (key, now) = (BucketKey(credential: credential), TokenBucket.moment(now))
    return table.withLock { $0[key] } > now
  }
}

/// What a ``BucketTable`` keeps for a key.
protocol BucketTableEntry {
  var key: UInt64 { get }
  /// The table may give the place to another key after this moment. In a full table, the earliest goes first.
  var fullAt: Int64 { get }

  /// An entry that is no key's.
  static var free: Self { get }
}

/// A bucket of this process alone.
struct LocalBucket: BucketTableEntry {
  let key: UInt64
  let fullAt: Int64

  static let free = LocalBucket(key: 0, fullAt: .min)
}

/// A table of the buckets that are not full, by key. It starts small and grows to a fixed maximum.
struct BucketTable<Entry: BucketTableEntry> {
  private static var ways: Int { 8 }

  private var entries: [Entry]
  let maximum: Int

  /// A table of at most `maximum` entries, a power of two and at least 128.
  init(maximum: Int) {
    self.maximum = maximum
    entries = Array(repeating: Entry.free, count: min(128, maximum))
  }

  /// The present number of places.
  var capacity: Int { entries.count }

  /// The size of the table in bytes.
  var bytes: Int { entries.count * MemoryLayout<Entry>.stride }

  /// The moment when the bucket is full; in the distant past if the table does not contain it.
  subscript(key: BucketKey) -> Int64 { place(of: key.bits).map { entries[$0].fullAt } ?? Entry.free.fullAt }

  func place(of key: UInt64) -> Int? {
    for index in places(of: key) where entries[index].key == key { return index }
    return nil
  }

  /// The entry at a place of ``place(of:)``.
  subscript(place place: Int) -> Entry {
    get { entries[place] }
    _modify { yield &entries[place] }
  }

  /// Stores an entry. In a full table it replaces the one in its set that goes first.
  mutating func set(_ entry: Entry, now: Int64) {
    var place = place(for: entry.key)
    while entries[place].key != entry.key, entries[place].fullAt > now, entries.count < maximum {
      grow(now: now)
      place = self.place(for: entry.key)
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
    entries = Array(repeating: Entry.free, count: old.count * 2)
    for entry in old where entry.fullAt > now { entries[place(for: entry.key)] = entry }
  }
}

extension BucketTable<LocalBucket> {
  /// Stores the moment when a bucket is full.
  mutating func set(_ key: BucketKey, fullAt: Int64, now: Int64) {
    set(LocalBucket(key: key.bits, fullAt: fullAt), now: now)
  }
}
