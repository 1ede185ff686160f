import Locks

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

extension BucketKey {
  fileprivate init(credential: ArraySlice<UInt8>) {
    self.init { hasher in unsafe credential.withUnsafeBytes { unsafe hasher.combine(bytes: $0) } }
  }
}
