import Bytes
public import HTTP1
import HTTPTypes
import Locks
import Synchronization

/// The one cache of the process (RFC 9111), shared by all event loops. A lock guards only what is stored. All decisions
/// happen outside of it, on responses that never change.
public final class ResponseCache: Sendable {
  private let state: Locked<State>
  private let hits = Atomic(0)

  private struct State {
    var store: ResponseStore
    var unshared = UnsharedTargets()
    /// The keys of the responses that are being compressed, and how many of these are long.
    var compressing: Set<CacheKey> = []
    var longCompressions = 0
  }

  private let settings: CacheSettings

  /// The most responses to one key that differ by request fields (`Vary`). The oldest is evicted.
  private static let mostVariants = 8

  /// Creates an empty cache.
  public init(settings: CacheSettings) {
    self.settings = settings
    state = Locked(State(store: ResponseStore(maxBytes: settings.maxBytes)))
  }

  /// Returns what the cache has for a request. The fields of the upstream request count only if the responses vary.
  /// Eviction counts one use for each request, and none for a repeated lookup.
  public func lookup(
    _ key: CacheKey, sending sent: FieldLines, request: RequestDirectives, now: CacheTime, isRepeated: Bool = false
  ) -> Lookup {
    let responses = state.withLock { isRepeated ? $0.store.peek(key) : $0.store.find(key, now: now.monotonic) }
    guard let response = responses.first(where: { $0.judged.selector?.matches(sent) ?? false }) else {
      return request.onlyIfCached ? .unsatisfiable : .miss(responses.isEmpty ? .uriMiss : .varyMiss)
    }
    return Selection(response, now: now).use(for: request)
  }

  /// Counts a response that a caller gets from the cache.
  public func countHit() { hits.add(1, ordering: .relaxed) }

  /// Notes for ``isUnshared(_:now:)`` whether callers may share the upstream's response to a target.
  package func noteSharing(of response: StoredResponse, for key: CacheKey, now: CacheTime) {
    state.withLock { $0.unshared.note(key, isShareable: response.isShareable, now: now.monotonic) }
  }

  /// Returns whether the last response to a target was for one caller only, so that others should not wait for the next.
  package func isUnshared(_ key: CacheKey, now: CacheTime) -> Bool {
    state.withLock { $0.unshared.contains(key, now: now.monotonic) }
  }

  /// Stores a response in place of the matching one, at the cost of its owner's share. Returns whether it was stored. A
  /// refused response still removes the stored one if its status describes the target and not a failure.
  @discardableResult
  public func store(_ response: StoredResponse, for key: CacheKey, of owner: CacheOwner = .unknown) -> Bool {
    guard response.isStorable else {
      if response.replacesStored { remove(key) }
      return false
    }
    return state.withLock { state in
      // The newest Vary applies to all (RFC 9111 §4.1). Responses with another Vary are older than a change.
      let stored = state.store.peek(key)
      guard !stored.isEmpty else { return state.store.put([response], for: key, of: owner) }
      let names = Set(response.judged.selector?.names ?? [])
      let others = stored.filter { other in
        Set(other.judged.selector?.names ?? []) == names && other.judged.selector != response.judged.selector
      }
      return state.store.put([response] + others.prefix(Self.mostVariants - 1), for: key, of: owner)
    }
  }

  /// Renews a response by the 304 to its ``StoredResponse/validators`` (RFC 9111 §4.3.4), and stores the result unless the
  /// 304 forbids that. Returns nil if the 304 describes another version: repeat the request without validators.
  public func freshen(
    _ response: StoredResponse, for key: CacheKey, by notModified: ReceivedResponse, settings: CacheSettings? = nil,
    of owner: CacheOwner = .unknown
  ) -> (response: StoredResponse, isStored: Bool)? {
    guard let renewed = response.freshened(by: notModified, settings: settings ?? self.settings) else {
      remove(key)
      return nil
    }
    return (renewed, store(renewed, for: key, of: owner))
  }

  /// Returns the response with gzip, if compression is useful, in up to a millisecond. The first caller compresses it;
  /// concurrent callers get it without gzip, and so does every caller of a long response (``beginCompression(of:for:)``).
  public func compress(_ response: StoredResponse, for key: CacheKey) -> StoredResponse {
    // A response that is not long is one part.
    response.isLong ? response : beginCompression(of: response, for: key)?.advance() ?? response
  }

  /// Begins the compression of a response. Returns nil if it needs none or is being compressed, or if it is long and four
  /// other long ones are.
  public func beginCompression(of response: StoredResponse, for key: CacheKey) -> ResponseCompression? {
    guard response.awaitsCompression else { return nil }
    let isFirst = state.withLock { state in
      guard !response.isLong || state.longCompressions < Self.mostLong, state.compressing.insert(key).inserted else {
        return false
      }
      if response.isLong { state.longCompressions += 1 }
      return true
    }
    return isFirst ? ResponseCompression(of: response, for: key, in: self) : nil
  }

  /// The most compressions of long responses at a time: each needs 268 kB for zlib, and up to 1 MiB for the result.
  private static let mostLong = 4

  fileprivate func endCompression(of response: StoredResponse, for key: CacheKey) {
    state.withLock { state in
      state.compressing.remove(key)
      if response.isLong { state.longCompressions -= 1 }
    }
  }

  fileprivate func replace(_ response: StoredResponse, by compressed: StoredResponse, for key: CacheKey) {
    state.withLock { state in
      var responses = state.store.peek(key)
      guard let index = responses.firstIndex(where: { $0 === response }) else { return }
      responses[index] = compressed
      state.store.put(responses, for: key)
    }
  }

  /// Removes all responses to a target.
  public func remove(_ key: CacheKey) { state.withLock { $0.store.remove(key) } }

  /// Removes all responses.
  public func removeAll() { state.withLock { $0.store = ResponseStore(maxBytes: settings.maxBytes) } }

  /// The figures for metrics.
  public var statistics: CacheStatistics {
    state.withLock { state in
      CacheStatistics(
        entries: state.store.count, bytes: state.store.bytes, hits: hits.load(ordering: .relaxed),
        evictions: state.store.evictions)
    }
  }
}

/// The compression of a stored response, part by part. It ends with the last reference to it.
public final class ResponseCompression: Sendable {
  private let response: StoredResponse
  private let key: CacheKey
  private let cache: ResponseCache
  private let work: Locked<GradualCompression>

  fileprivate init(of response: StoredResponse, for key: CacheKey, in cache: ResponseCache) {
    (self.response, self.key, self.cache) = (response, key, cache)
    work = Locked(GradualCompression(response.judged.content.identity))
  }

  deinit { cache.endCompression(of: response, for: key) }

  /// Compresses the next part, in about a millisecond. Returns the response with gzip, which is now stored, or nil while
  /// there is more to do.
  public func advance() -> StoredResponse? {
    guard case .finished(let gzip) = work.withLock({ $0.advance() }) else { return nil }
    let compressed = response.compressed(to: gzip)
    cache.replace(response, by: compressed, for: key)
    return compressed
  }
}

/// The key of a stored response: the normalised target of its request, byte for byte. The hash is computed once, before
/// the cache takes its lock, with a seed per process: callers choose the targets, and must not choose colliding ones.
public struct CacheKey: Hashable, Sendable {
  private let hash: Int
  let bytes: [UInt8]

  /// Creates a key with these bytes.
  public init(_ bytes: [UInt8]) {
    self.bytes = bytes
    var hasher = Hasher()
    // Safe: the hasher reads the bytes within the closure only.
    unsafe bytes.withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
    hash = hasher.finalize()
  }

  /// Creates a key with the UTF-8 bytes of `text`.
  public init(_ text: String) { self.init(Array(text.utf8)) }

  /// The hash, for the few places that store only a hash.
  package var fingerprint: UInt64 { UInt64(bitPattern: Int64(hash)) }

  /// Feeds the precomputed hash.
  public func hash(into hasher: inout Hasher) { hasher.combine(hash) }

  /// Returns whether both keys have the same bytes.
  public static func == (left: CacheKey, right: CacheKey) -> Bool {
    left.hash == right.hash && left.bytes == right.bytes
  }
}

/// The requests that a response matches, by its `Vary` (RFC 9111 §4.1): their upstream requests have the same values of
/// the named fields. A field that the proxy never forwards (Cookie, Origin) is always absent, so a response that varies by
/// it is the same for all callers.
struct VariantSelector: Sendable, Equatable {
  /// Each field that counts, with its value in the original request.
  private let values: [Value]

  private struct Value: Sendable, Equatable {
    let name: HTTPField.Name
    let value: String?
  }

  /// The most names in a `Vary`. Real responses have fewer.
  private static let mostNames = 16

  /// Returns nil if no request matches the response (`Vary: *`), or if the field is malformed. Two names do not count:
  /// `Accept-Encoding`, because the store converts between both codings, and `Authorization`, because all tokens of the
  /// proxy have the same meaning.
  init?(_ fields: FieldLines, sent: FieldLines) {
    var values: [Value] = []
    for line in fields.lines where fields.bytes.span.equalsIgnoringCase(line.name, "vary") {
      let bytes = Array(fields.bytes[line.value])
      var scanner = FieldScanner()
      while let element = scanner.directive(in: bytes.span) {
        let text = String(decoding: bytes[element.name], as: UTF8.self)
        guard element.argument == .absent, text != "*", let name = HTTPField.Name(text), values.count < Self.mostNames
        else { return nil }
        if name == .acceptEncoding || name == .authorization || values.contains(where: { $0.name == name }) { continue }
        values.append(Value(name: name, value: sent[name]))
      }
    }
    self.values = values
  }

  func matches(_ sent: FieldLines) -> Bool { values.allSatisfy { sent[$0.name] == $0.value } }

  var names: [HTTPField.Name] { values.map(\.name) }

  /// The approximate size in memory, in bytes.
  var cost: Int { values.reduce(0) { $0 + 96 + ($1.value?.utf8.count ?? 0) } }
}

/// The sizes and lifetimes of a cache. Lifetimes are in seconds, sizes in bytes.
public struct CacheSettings: Sendable, Equatable {
  /// The most memory for all responses, overhead included. 0 turns the cache off.
  public var maxBytes = 64_000_000
  /// The most decoded content of one response. A larger one would evict too many other responses.
  public var largestContent = 1 << 20
  /// The lifetime of a response that states none. The catalog changes daily.
  public var lifetime = 300
  /// The same for 404 and 410, because an album may be released at any time.
  public var negativeLifetime = 60
  /// The time after `lifetime` in which such a response is still served while a new one is fetched (RFC 5861 §3). A
  /// response that states its own lifetime must allow this itself (RFC 9111 §4.2.4).
  public var staleWhileRevalidate = 60
  /// The time in which a stale response is served if the upstream fails (RFC 5861 §4), unless the response overrides it.
  public var staleIfError = 86_400
  /// Whether all callers may have the responses. Otherwise the server marks them `private`, so that no CDN gives them
  /// to a client that the access policy would refuse.
  public var isPublic = false

  /// Creates the default settings.
  public init() {}

  /// The most content of a stored response: at most an eighth of `maxBytes`.
  var largestStored: Int { min(largestContent, maxBytes / 8) }
}

/// The figures of a cache for metrics.
public struct CacheStatistics: Sendable, Equatable {
  /// The targets with responses.
  public let entries: Int
  /// The memory of all responses.
  public let bytes: Int
  /// The responses that callers got from the cache since the start, fresh or stale.
  public let hits: Int
  /// The entries evicted since the start.
  public let evictions: Int
}

/// The result of a lookup.
public enum Lookup: Sendable {
  /// The server sends the response: it is fresh, or no more stale than the caller allows (`max-stale`).
  case hit(Selection)
  /// The response is stale, but the server sends it while a background request validates it (RFC 5861 §3).
  case staleWhileRevalidate(Selection)
  /// The proxy must validate the response upstream, with its ``StoredResponse/validators``.
  case validate(Selection, ForwardReason)
  case miss(ForwardReason)
  /// The caller forbids the upstream request that it needs (`only-if-cached`): 504 (RFC 9111 §5.2.1.7).
  case unsatisfiable
}

/// The reason for an upstream request. The raw value is that of the parameter `fwd` (RFC 9211 §2.2).
public enum ForwardReason: String, Sendable, CaseIterable {
  /// The cache does not handle such requests.
  case bypass
  /// The method of the request is not cacheable.
  case method
  /// The cache has no response to the target.
  case uriMiss = "uri-miss"
  /// The cache has responses to the target, but with other request fields.
  case varyMiss = "vary-miss"
  /// The cache has no usable response for another reason.
  case miss
  /// A fresh response is stored, but the directives of the request force validation.
  case request
  case stale
}
