/// How much the cache holds and for how long. Lengths of time in seconds, sizes in bytes.
public struct CacheSettings: Sendable, Equatable {
  /// What all answers together may take, with what it costs to keep them; 0 turns the cache off.
  public var maxBytes = 64_000_000
  /// The longest content of one answer, decoded. Beyond it, one answer would push out too many others.
  public var largestContent = 1 << 20
  /// How long an answer is fresh that says nothing about it: the catalog changes by the day.
  public var lifetime = 300
  /// The same for 404 and 410: an album may be released any minute.
  public var negativeLifetime = 60
  /// How long beyond `lifetime` such an answer is still served while a new one is fetched (RFC 5861 §3). Does not apply
  /// to answers that say how long they are fresh: those have to allow it (RFC 9111 §4.2.4).
  public var staleWhileRevalidate = 60
  /// How long a stale answer stands in when the upstream fails (RFC 5861 §4), unless it forbids that or says otherwise.
  public var staleIfError = 86_400
  /// Answers to one key that differ by request fields (`Vary`); the oldest goes.
  public var maxVariants = 8
  /// Whether all callers may have the responses. Otherwise the server marks them `private`, so that no CDN gives them
  /// to a client that the access policy would refuse.
  public var isPublic = false

  /// The defaults.
  public init() {}

  /// The longest content that is kept: with a small `maxBytes`, an eighth of that.
  var largestStored: Int { min(largestContent, maxBytes / 8) }
}
