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
