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

extension RateLimiter {
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
}
