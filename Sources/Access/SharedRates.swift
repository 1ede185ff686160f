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

    /// The ID of a bucket, if it is known.
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

  // MARK: Taking

  func take(_ rates: ClientRates, for caller: Caller, now: Int64) -> RateVerdict {
    switch (rates.caller, rates.total) {
    case (nil, nil): return .unlimited
    case (let own?, nil):
      let key = BucketKey(client: rates.callersKey, caller: caller)
      let outcome = take(own, key, now: now) ?? take(own, key, named: .caller(caller, of: rates.id, own), now: now)
      return outcome.verdict(.caller, now: now)
    case (nil, let total?):
      let outcome =
        take(total, rates.totalKey, now: now)
        ?? take(total, rates.totalKey, named: .total(of: rates.id, total), now: now)
      return outcome.verdict(.total, now: now)
    case (let own?, let total?):
      let key = BucketKey(client: rates.callersKey, caller: caller)
      let outcomes =
        take(own, key, total, rates.totalKey, now: now)
        ?? take(
          own, learn(.caller(caller, of: rates.id, own), key, now: now),
          total, learn(.total(of: rates.id, total), rates.totalKey, now: now), now: now)
      return outcomes.verdict(now: now)
    }
  }

  func takeFailure(_ bucket: TokenBucket, from address: String, now: Int64) -> TokenBucket.TakeResult {
    let key = BucketKey(address: address)
    return take(bucket, key, now: now) ?? take(bucket, key, named: .failure(from: address, bucket), now: now)
  }

  /// Returns the time until the address may try a credential again. An address without a known bucket may try now.
  func failureWait(_ bucket: TokenBucket, of address: String, now: Int64) -> Int64 {
    state.withLock { state in
      guard let id = state.id(of: BucketKey(address: address), now: now) else { return 0 }
      return state.buckets.wait(bucket, id, now: now)
    }
  }

  /// Takes a token if the bucket's ID is known; else returns nil.
  private func take(_ bucket: TokenBucket, _ key: BucketKey, now: Int64) -> TokenBucket.TakeResult? {
    state.withLock { state in
      guard let id = state.id(of: key, now: now) else { return nil }
      return state.buckets.take(bucket, id, now: now)
    }
  }

  private func take(
    _ bucket: TokenBucket, _ key: BucketKey, named name: BucketName, now: Int64
  ) -> TokenBucket.TakeResult {
    let id = learn(name, key, now: now)
    return state.withLock { $0.buckets.take(bucket, id, now: now) }
  }

  /// Takes tokens of both buckets or of neither if their IDs are known; else returns nil.
  private func take(
    _ own: TokenBucket, _ caller: BucketKey, _ all: TokenBucket, _ total: BucketKey, now: Int64
  ) -> SharedBuckets.Outcomes? {
    state.withLock { state in
      guard let mine = state.id(of: caller, now: now), let ours = state.id(of: total, now: now) else { return nil }
      return state.buckets.take(own, mine, all, ours, now: now)
    }
  }

  private func take(
    _ own: TokenBucket, _ caller: BucketID, _ all: TokenBucket, _ total: BucketID, now: Int64
  ) -> SharedBuckets.Outcomes {
    state.withLock { $0.buckets.take(own, caller, all, total, now: now) }
  }

  /// Computes the ID of a bucket outside of the lock, because that takes as long as a tenth of a request.
  private func learn(_ name: BucketName, _ key: BucketKey, now: Int64) -> BucketID {
    let (authenticator, generation) = state.withLock { ($0.authenticator, $0.generation) }
    let id = name.id(authenticator)
    state.withLock { state in
      guard state.generation == generation else { return }
      state.known.set(KnownBucket(key: key.bits, fullAt: now + Self.memory, id: id), now: now)
    }
    return id
  }

  // MARK: Strict clients

  func strictTake(_ rates: ClientRates, for caller: Caller, now: Int64) -> StrictTake? {
    var buckets: [(ServiceLimit.Policy, BucketID, TokenBucket)] = []
    if let own = rates.caller {
      let key = BucketKey(client: rates.callersKey, caller: caller)
      buckets.append((.caller, id(of: key, now: now) ?? learn(.caller(caller, of: rates.id, own), key, now: now), own))
    }
    if let total = rates.total {
      let key = rates.totalKey
      buckets.append((.total, id(of: key, now: now) ?? learn(.total(of: rates.id, total), key, now: now), total))
    }
    guard !buckets.isEmpty else { return nil }
    return state.withLock { [buckets] state in
      guard state.buckets.isTogether else { return nil }
      return StrictTake(
        parts: buckets.map { policy, id, bucket in
          StrictTake.Part(
            policy: policy, id: id, bucket: bucket, mostDebt: state.buckets.mostDebt(bucket),
            knownDebt: state.buckets.unconfirmedDebt(bucket, id, now: now))
        })
    }
  }

  private func id(of key: BucketKey, now: Int64) -> BucketID? {
    state.withLock { $0.id(of: key, now: now) }
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
    if outcomes.count == 2 { return TokenBucket.TakeResult.verdict(caller: outcomes[0], total: outcomes[1], now: now) }
    return outcomes.first?.verdict(take.parts[0].policy, now: now)
  }

  // MARK: The group

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
