/// What a stored answer is found by: the normalised target of its request, byte for byte.
///
/// The hash is computed once, before the cache takes its lock, by the hasher that each process seeds differently.
/// Callers choose the targets, so they must not be able to choose ones that collide. The key compares bytes, not
/// strings: Swift treats texts that differ in Unicode normalisation as equal, but an origin does not.
public struct CacheKey: Hashable, Sendable {
  private let hash: Int
  let bytes: [UInt8]

  /// The key with these bytes.
  public init(_ bytes: [UInt8]) {
    self.bytes = bytes
    var hasher = Hasher()
    // Safe: the hasher reads the bytes within the closure only.
    unsafe bytes.withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
    hash = hasher.finalize()
  }

  /// The key with the UTF-8 bytes of `text`.
  public init(_ text: String) {
    self.init(Array(text.utf8))
  }

  /// A hash for the few places that keep no more than that.
  var fingerprint: UInt64 { UInt64(bitPattern: Int64(hash)) }

  /// Feeds the hash that stands ready.
  public func hash(into hasher: inout Hasher) {
    hasher.combine(hash)
  }

  /// Whether the bytes are the same.
  public static func == (left: CacheKey, right: CacheKey) -> Bool {
    left.hash == right.hash && left.bytes == right.bytes
  }
}
