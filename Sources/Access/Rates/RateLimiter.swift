import Locks

/// Counts requests against the limits of clients, for all event loops together.
///
/// There is one as long as the process lives: a reload brings other ``ClientRates``, not empty buckets. Its memory is
/// bounded, whatever comes from wherever (``RateLimits``), and it takes none from one request to the next.
public final class RateLimiter: @unchecked Sendable {
  // Sendable: the tables are touched only under `lock`.
  private let lock = Mutex()
  private var callers: BucketTable
  private var totals: BucketTable
  private var failures: BucketTable
  private let failureBucket = TokenBucket(RateLimits.failures)

  /// One with full buckets.
  public convenience init() {
    self.init(callers: RateLimits.callers)
  }

  init(callers: Int) {
    self.callers = BucketTable(maximum: callers)
    totals = BucketTable(maximum: RateLimits.clients)
    failures = BucketTable(maximum: RateLimits.failedAddresses)
  }

  /// Takes a token of the caller's bucket and one of the client's total, or neither.
  ///
  /// - Parameters:
  ///   - rates: The client's limits.
  ///   - caller: The caller.
  ///   - now: In nanoseconds of the monotonic clock.
  public func take(_ rates: ClientRates, for caller: Caller, now: UInt64) -> RateVerdict {
    let now = TokenBucket.moment(now)
    switch (rates.caller, rates.total) {
    case (nil, nil):
      return .unlimited
    case (let own?, nil):
      let key = BucketKey(client: rates.key, caller: caller)
      return lock.withLock { callers.take(own, key, now: now) }.verdict(.caller, now: now)
    case (nil, let total?):
      return lock.withLock { totals.take(total, rates.key, now: now) }.verdict(.total, now: now)
    case (let own?, let total?):
      let key = BucketKey(client: rates.key, caller: caller)
      return takeBoth(own, key, total, rates.key, now: now)
    }
  }

  /// Counts a failed credential. The server does not count valid credentials here, so it never slows them down.
  ///
  /// - Returns: Nil if the address may go on; else for how many seconds it may not: the value of `Retry-After`.
  public func takeFailure(from address: String, now: UInt64) -> Int? {
    let now = TokenBucket.moment(now)
    let key = BucketKey(address: address)
    let wait = lock.withLock { failures.take(failureBucket, key, now: now) }.wait
    return wait > 0 ? ServiceLimit.seconds(wait) : nil
  }

  /// The memory of its tables.
  var bytes: Int { lock.withLock { callers.bytes + totals.bytes + failures.bytes } }

  private func takeBoth(
    _ own: TokenBucket, _ key: BucketKey, _ total: TokenBucket, _ client: BucketKey, now: Int64
  ) -> RateVerdict {
    let (mine, all) = lock.withLock {
      let mine = own.take(fullAt: callers[key], now: now)
      let all = total.take(fullAt: totals[client], now: now)
      let isTaken = mine.wait == 0 && all.wait == 0
      callers.settle(key, mine, isTaken: isTaken, now: now)
      totals.settle(client, all, isTaken: isTaken, now: now)
      return (mine, all)
    }
    // The one that binds most: who must wait longer, else who has less left.
    let isMine = mine.wait != all.wait ? mine.wait > all.wait : mine.remaining <= all.remaining
    return isMine ? mine.verdict(.caller, now: now) : all.verdict(.total, now: now)
  }
}

extension BucketTable {
  /// Takes a token if there is one.
  fileprivate mutating func take(_ bucket: TokenBucket, _ key: BucketKey, now: Int64) -> TokenBucket.Outcome {
    let outcome = bucket.take(fullAt: self[key], now: now)
    settle(key, outcome, isTaken: outcome.wait == 0, now: now)
    return outcome
  }

  /// Remembers what has become of a bucket.
  fileprivate mutating func settle(_ key: BucketKey, _ outcome: TokenBucket.Outcome, isTaken: Bool, now: Int64) {
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
