import Bytes
package import Cryptography
import Locks

/// Counts requests against the limits of clients, for all event loops together.
///
/// One limiter lives as long as the process. A reload brings other ``ClientRates`` and keeps the buckets, but in a
/// store a changed rate has new ones. ``RateLimits`` bounds the memory for any traffic, and requests allocate nothing.
///
/// The limiter of a group decides at once as well. Its owner settles every 100 ms (``settlement(now:)``), and passes on
/// what the store and the other replicas say. `docs/scaling.md` states the bound of what all replicas grant together.
public final class RateLimiter: Sendable {
  private let state: Locked<State>
  /// Whether replicas share the buckets, so that these have the same names on each.
  private let isShared: Bool
  private let failureBucket = TokenBucket(RateLimits.failures)
  /// The JWTs that were valid lately, which failed attempts of their address do not slow down.
  public let validJWTs = RecentCredentials()

  private struct State {
    var names: BucketNames?
    var buckets: RateBuckets
  }

  /// Creates a limiter of this process alone with full buckets.
  public convenience init() { self.init(nil) }

  /// Creates a limiter with full buckets, for this process only until ``changed(isTogether:replicas:now:)``. The
  /// authenticator makes names that tell the store no address and no user; nil without a group.
  package init(_ authenticator: MessageAuthenticator?, callers: Int = RateLimits.callers) {
    isShared = authenticator != nil
    let names = authenticator.map { BucketNames($0, maximum: callers) }
    state = Locked(State(names: names, buckets: RateBuckets(callers: callers, isShared: isShared)))
  }

  /// Takes a token of the caller's bucket and one of the client's total, or neither. `now` is in monotonic nanoseconds.
  public func take(_ rates: ClientRates, for caller: Caller, now: UInt64) -> RateVerdict {
    guard !rates.isUnlimited else { return .unlimited }
    let now = TokenBucket.moment(now)
    let (own, total) = buckets(of: rates, for: caller, now: now)
    let outcomes = state.withLock { $0.buckets.take(own, total, now: now) }
    return RateVerdict(caller: outcomes.own, total: outcomes.total, now: now)
  }

  /// Returns the tokens to take from the store; nil if the client is not strict, or there is no store now.
  package func strictTake(_ rates: ClientRates, for caller: Caller, now: UInt64) -> StrictTake? {
    guard isShared, rates.isStrict, !rates.isUnlimited else { return nil }
    let now = TokenBucket.moment(now)
    let (own, total) = buckets(of: rates, for: caller, now: now)
    return state.withLock { state in
      guard state.buckets.isTogether else { return nil }
      let parts = [(ServiceLimit.Policy.caller, own), (.total, total)].compactMap { policy, bucket in
        bucket.map { state.buckets.part(policy, $0, now: now) }
      }
      return StrictTake(parts: parts)
    }
  }

  /// Counts the store's decision. Returns the verdict; nil if the reply makes no sense.
  package func verdict(_ reply: StrictReply, on take: StrictTake, now: UInt64) -> RateVerdict? {
    guard reply.debts.count == take.parts.count, reply.debts.allSatisfy({ $0 >= 0 }) else { return nil }
    let now = TokenBucket.moment(now)
    let outcomes = zip(reply.debts, take.parts).map { debt, part in
      let fullAt = now + min(debt, part.mostDebt.microseconds) * 1000
      return part.bucket.take(fullAt: fullAt, now: now, mostDebt: part.mostDebt)
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

  /// Counts a failed credential; valid ones are not counted, so never slowed down. Returns the seconds until the
  /// address may try again, for `Retry-After`; nil if it may continue now.
  public func takeFailure(from address: String, now: UInt64) -> Int? {
    let now = TokenBucket.moment(now)
    let key = Hasher.hash { $0.combine(address) }
    let id = id(.failure, key, .failure(from: address, failureBucket), now: now)
    let wait = state.withLock { $0.buckets.take((failureBucket, id), nil, now: now).own?.wait ?? 0 }
    return wait > 0 ? ServiceLimit.seconds(wait) : nil
  }

  /// Returns the seconds until the address may try a credential again; nil if it may now. Counts nothing.
  public func failureWait(of address: String, now: UInt64) -> Int? {
    let now = TokenBucket.moment(now)
    let key = Hasher.hash { $0.combine(address) }
    let wait = state.withLock { state -> Int64 in
      // An address whose bucket has no known name has not failed here lately.
      guard let id = isShared ? state.names?.id(of: key, now: now) : BucketID(.failure, code: key) else { return 0 }
      return state.buckets.wait((failureBucket, id), now: now)
    }
    return wait > 0 ? ServiceLimit.seconds(wait) : nil
  }

  private func buckets(
    of rates: ClientRates, for caller: Caller, now: Int64
  ) -> (own: RateBuckets.Bucket?, total: RateBuckets.Bucket?) {
    let own = rates.caller.map { rate -> RateBuckets.Bucket in
      let key = Hasher.hash {
        $0.combine(isShared ? rates.callersKey : rates.key)
        $0.combine(caller)
      }
      return (rate, id(.caller, key, .caller(caller, of: rates.id, rate), now: now))
    }
    let total = rates.total.map { rate -> RateBuckets.Bucket in
      (rate, id(.total, isShared ? rates.totalKey : rates.key, .total(of: rates.id, rate), now: now))
    }
    return (own, total)
  }

  /// Returns the ID of a bucket. An unknown one of a group takes a tenth of a request's time, outside of the lock.
  private func id(_ kind: BucketID.Kind, _ key: UInt64, _ name: @autoclosure () -> BucketName, now: Int64) -> BucketID {
    guard isShared else { return BucketID(kind, code: key) }
    if let known = state.withLock({ $0.names?.id(of: key, now: now) }) { return known }
    guard let authenticator = state.withLock({ $0.names?.authenticator }) else { return BucketID(kind, code: key) }
    let id = name().id(authenticator)
    state.withLock { $0.names?.remember(id, of: key, by: authenticator, now: now) }
    return id
  }

  var bytes: Int { state.withLock { $0.buckets.bytes + ($0.names?.bytes ?? 0) } }
}

/// The exchange with the store and the other replicas of a group.
extension RateLimiter {
  /// The grants so far that the store was not told of, because too many buckets waited.
  package var unrecorded: Int { state.withLock { $0.buckets.unrecorded } }

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

  /// Takes the state of the group. While the store does not work, this replica grants its part of each rate.
  package func changed(isTogether: Bool, replicas: Int, now: UInt64) {
    state.withLock { $0.buckets.changed(isTogether: isTogether, replicas: replicas, now: TokenBucket.moment(now)) }
  }

  /// Uses another authenticator. If its key is another one, all buckets have other names, and begin full.
  package func use(_ authenticator: MessageAuthenticator) { state.withLock { $0.names?.use(authenticator) } }
}

/// The names of a group's buckets that were used lately, by the keys of this process.
private struct BucketNames {
  /// The time for which a name is kept without a request: 60 s.
  private static let memory = 60 * RateBuckets.second

  private struct Known: BucketTableEntry {
    let key: UInt64
    var fullAt: Int64
    let id: BucketID

    static let free = Known(key: 0, fullAt: .min, id: BucketID(.caller, code: 0))
  }

  private(set) var authenticator: MessageAuthenticator
  private var known: BucketTable<Known>

  var bytes: Int { known.bytes }

  init(_ authenticator: MessageAuthenticator, maximum: Int) {
    self.authenticator = authenticator
    known = BucketTable(maximum: maximum)
  }

  mutating func use(_ authenticator: MessageAuthenticator) { self = BucketNames(authenticator, maximum: known.maximum) }

  mutating func id(of key: UInt64, now: Int64) -> BucketID? {
    guard let place = known.place(of: key) else { return nil }
    known[place: place].fullAt = now + Self.memory
    return known[place: place].id
  }

  /// Remembers an ID, unless another authenticator has been in use since it was made.
  mutating func remember(_ id: BucketID, of key: UInt64, by maker: MessageAuthenticator, now: Int64) {
    guard maker === authenticator else { return }
    known.set(Known(key: key, fullAt: now + Self.memory, id: id), now: now)
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
