/// Targets whose last response only one caller may have: `private`, `no-store`, `Vary: *` or with `Set-Cookie`.
///
/// Requests for such a target do not wait for each other, because the proxy would have to send them one by one
/// afterwards. The next response that callers may share removes the target, and so does time. The set keeps at most
/// ``most`` targets, by a hash. A forgotten or confused target costs only latency or one request.
struct UnsharedTargets: Sendable {
  /// How long a target is known: 30 s.
  static let lifetime: Duration = .seconds(30)

  /// The most targets that are known: 256, about 8 kB.
  static let most = 256

  /// When each ends.
  private var ends: [UInt64: Duration] = [:]

  /// How many are known.
  var count: Int { ends.count }

  /// Whether requests for a target are sent one by one.
  func contains(_ key: CacheKey, now: Duration) -> Bool {
    guard !ends.isEmpty, let end = ends[key.fingerprint] else { return false }
    return now < end
  }

  /// A response came for a target.
  mutating func note(_ key: CacheKey, isShareable: Bool, now: Duration) {
    guard !isShareable else {
      if !ends.isEmpty { ends[key.fingerprint] = nil }
      return
    }
    if ends.count >= Self.most, ends[key.fingerprint] == nil, let oldest = ends.min(by: { $0.value < $1.value }) {
      ends[oldest.key] = nil
    }
    ends[key.fingerprint] = now + Self.lifetime
  }
}
