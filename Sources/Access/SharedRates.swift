import Bytes
package import Cryptography
import Locks

/// The rates that all replicas of a group share, for all event loops together.
///
/// It decides at once. Its owner settles every 100 ms (``settlement(now:)``), and passes on what the store and the other
/// replicas say. `docs/scaling.md` states the bound of what all replicas grant together.
package final class SharedRates: Sendable {
  /// The most buckets of one settlement: 2,048. The store takes about 5 ms for them, in which it does nothing else. The
  /// rest follows in the next settlement.
  package static let mostSettled = 2048
  /// The most buckets that wait to be settled: 65,536, 2.5 MiB. The grants of further ones count on this replica only.
  static let mostRecords = 65_536
  /// The settlements without a reply after which the grants in one are given up: 10, about a second.
  static let mostMisses = 10
  /// The most replicas that count: 10,000.
  static let mostReplicas = 10_000
  /// The time after which a bucket that refuses asks the store for news: 8 ticks, about a second.
  static let patience: UInt32 = 8
  /// One second in nanoseconds.
  static let second: Int64 = 1_000_000_000
  /// The time for which a caller's ID is kept without a request: 60 s.
  private static let memory = 60 * second

  private let state: Locked<State>

  private struct State {
    var authenticator: MessageAuthenticator
    /// Changes with the authenticator.
    var generation = 0
    var known: BucketTable<KnownBucket>
    var buckets: SharedBuckets

    mutating func id(of key: BucketKey, now: Int64) -> BucketID? {
      guard let place = known.place(of: key.bits) else { return nil }
      known[place: place].fullAt = now + SharedRates.memory
      return known[place: place].id
    }
  }

  /// Creates rates with full buckets, which count for this replica only until ``changed(isTogether:replicas:now:)``.
  ///
  /// - Parameter authenticator: The same one on each replica. It makes the names of buckets, so that the store learns no
  ///   address and no user.
  package convenience init(_ authenticator: MessageAuthenticator) {
    self.init(authenticator, callers: RateLimits.callers)
  }

  init(_ authenticator: MessageAuthenticator, callers: Int) {
    state = Locked(
      State(
        authenticator: authenticator, known: BucketTable(maximum: callers), buckets: SharedBuckets(callers: callers)))
  }

  /// The size of the tables in bytes.
  var bytes: Int { state.withLock { $0.known.bytes + $0.buckets.bytes } }

  /// The grants so far that the store was not told of, because too many buckets waited.
  package var unrecorded: Int { state.withLock { $0.buckets.unrecorded } }

  func take(_ rates: ClientRates, for caller: Caller, now: Int64) -> RateVerdict {
    guard !rates.isUnlimited else { return .unlimited }
    let (own, total) = buckets(of: rates, for: caller, now: now)
    let outcomes = state.withLock { $0.buckets.take(own, total, now: now) }
    return RateVerdict(caller: outcomes.own, total: outcomes.total, now: now)
  }

  /// Counts a failed credential. Returns the time until the address may try another one.
  func takeFailure(_ bucket: TokenBucket, from address: String, now: Int64) -> Int64 {
    let id = id(of: BucketKey(address: address), .failure(from: address, bucket), now: now)
    return state.withLock { $0.buckets.take((bucket, id), nil, now: now).own?.wait ?? 0 }
  }

  /// Returns the time until the address may try a credential again. An address without a known bucket may try now.
  func failureWait(_ bucket: TokenBucket, of address: String, now: Int64) -> Int64 {
    state.withLock { state in
      guard let id = state.id(of: BucketKey(address: address), now: now) else { return 0 }
      return state.buckets.wait((bucket, id), now: now)
    }
  }

  /// Returns the buckets of a caller and of its client, where they have a limit.
  private func buckets(
    of rates: ClientRates, for caller: Caller, now: Int64
  ) -> (own: SharedBuckets.Bucket?, total: SharedBuckets.Bucket?) {
    let own = rates.caller.map { rate -> SharedBuckets.Bucket in
      let key = BucketKey(client: rates.callersKey, caller: caller)
      return (rate, id(of: key, .caller(caller, of: rates.id, rate), now: now))
    }
    let total = rates.total.map { rate -> SharedBuckets.Bucket in
      (rate, id(of: rates.totalKey, .total(of: rates.id, rate), now: now))
    }
    return (own, total)
  }

  /// Returns the ID of a bucket. It computes an unknown one outside of the lock, because that takes as long as a tenth of a
  /// request.
  private func id(of key: BucketKey, _ name: @autoclosure () -> BucketName, now: Int64) -> BucketID {
    if let known = state.withLock({ $0.id(of: key, now: now) }) { return known }
    let (authenticator, generation) = state.withLock { ($0.authenticator, $0.generation) }
    let id = name().id(authenticator)
    state.withLock { state in
      guard state.generation == generation else { return }
      state.known.set(KnownBucket(key: key.bits, fullAt: now + Self.memory, id: id), now: now)
    }
    return id
  }

  func strictTake(_ rates: ClientRates, for caller: Caller, now: Int64) -> StrictTake? {
    guard !rates.isUnlimited else { return nil }
    let (own, total) = buckets(of: rates, for: caller, now: now)
    return state.withLock { state in
      guard state.buckets.isTogether else { return nil }
      let parts = [
        own.map { state.buckets.part(.caller, $0, now: now) }, total.map { state.buckets.part(.total, $0, now: now) },
      ]
      return StrictTake(parts: parts.compactMap { $0 })
    }
  }

  func verdict(_ reply: StrictReply, on take: StrictTake, now: Int64) -> RateVerdict? {
    guard reply.debts.count == take.parts.count, reply.debts.allSatisfy({ $0 >= 0 }) else { return nil }
    let debts = zip(reply.debts, take.parts).map { min($0, $1.mostDebt.microseconds) * 1000 }
    let outcomes = zip(debts, take.parts).map {
      $1.bucket.take(fullAt: now + $0, now: now, mostDebt: $1.mostDebt)
    }
    guard reply.isTaken == outcomes.allSatisfy({ $0.wait == 0 }) else { return nil }
    state.withLock { state in
      for (part, outcome) in zip(take.parts, outcomes) {
        state.buckets.decided(part.id, outcome, isTaken: reply.isTaken, now: now)
      }
    }
    func outcome(_ policy: ServiceLimit.Policy) -> TokenBucket.TakeResult? {
      zip(take.parts, outcomes).first { $0.0.policy == policy }?.1
    }
    return RateVerdict(caller: outcome(.caller), total: outcome(.total), now: now)
  }

  /// Returns the next settlement; nil if there is nothing to settle, or no store.
  package func settlement(now: UInt64) -> RateSettlement? {
    state.withLock { $0.buckets.settlement(now: TokenBucket.moment(now)) }
  }

  /// Takes the reply of the settlement; nil if there was none, or an error.
  package func settled(_ reply: [UInt8]?, now: UInt64) {
    state.withLock { $0.buckets.settled(reply?[...], now: TokenBucket.moment(now)) }
  }

  /// Takes the payload of another replica's message. It may be anything.
  package func received(_ message: ArraySlice<UInt8>, now: UInt64) {
    state.withLock { $0.buckets.received(message, now: TokenBucket.moment(now)) }
  }

  /// Takes the state of the group: whether the store works, and the number of replicas. While it does not work, this
  /// replica grants its part of each rate.
  package func changed(isTogether: Bool, replicas: Int, now: UInt64) {
    state.withLock {
      $0.buckets.changed(isTogether: isTogether, replicas: replicas, now: TokenBucket.moment(now))
    }
  }

  /// Uses another authenticator. If its key is another one, all buckets have other names, and begin full.
  package func use(_ authenticator: MessageAuthenticator) {
    state.withLock { state in
      state.authenticator = authenticator
      state.generation += 1
      state.known = BucketTable(maximum: state.known.maximum)
    }
  }
}

/// The ID of a bucket, by its key of this process.
struct KnownBucket: BucketTableEntry {
  let key: UInt64
  /// The moment until which it is kept.
  var fullAt: Int64
  let id: BucketID

  static let free = KnownBucket(key: 0, fullAt: .min, id: BucketID(.caller, code: 0))
}

/// The tokens that a strict client's caller needs from the store, for ``SharedRateScripts/strict``.
package struct StrictTake: Sendable {
  struct Part: Sendable {
    let policy: ServiceLimit.Policy
    let id: BucketID
    let bucket: TokenBucket
    let mostDebt: Int64
    /// The debt that a store which came back may have lost.
    let knownDebt: Int64
  }

  let parts: [Part]

  /// The ends of the buckets' keys.
  package var names: [[UInt8]] { parts.map(\.id.bytes) }

  /// The buckets, as the script reads them.
  package var buckets: [UInt8] {
    var bytes: [UInt8] = []
    for part in parts {
      bytes.append(littleEndian: part.id.bits)
      bytes.append(littleEndian: UInt64(part.bucket.interval.microseconds))
      // Rounded down, so that the store never takes a token that is not there.
      bytes.append(littleEndian: UInt64((part.bucket.span - part.bucket.interval) / 1000))
      bytes.append(littleEndian: UInt64(part.mostDebt.microseconds))
      bytes.append(littleEndian: UInt64(part.knownDebt.microseconds))
    }
    return bytes
  }
}

/// The store's decision about a ``StrictTake``. It comes from outside.
package struct StrictReply: Sendable, Equatable {
  package let isTaken: Bool
  /// The debt of each bucket before, in microseconds.
  package let debts: [Int64]

  package init(isTaken: Bool, debts: [Int64]) {
    (self.isTaken, self.debts) = (isTaken, debts)
  }
}
