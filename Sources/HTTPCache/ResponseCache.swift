public import HTTPTypes
import Locks

/// The one cache of the process (RFC 9111), shared by all event loops.
///
/// A lock guards only the store. A lookup holds it for one dictionary access. All decisions happen outside of the lock,
/// on responses that never change.
public final class ResponseCache: Sendable {
  private let state: Locked<State>

  private struct State {
    var store: ResponseStore
    /// Keys whose response is being compressed; no more than there are threads.
    var compressing: Set<CacheKey> = []
  }

  /// How much it holds and for how long.
  public let settings: CacheSettings

  /// An empty cache.
  public init(settings: CacheSettings) {
    self.settings = settings
    state = Locked(State(store: ResponseStore(maxBytes: settings.maxBytes)))
  }

  /// What there is for a request.
  ///
  /// - Parameters:
  ///   - key: Its target.
  ///   - sent: What would be sent upstream, without the credential; looked at only if the responses vary.
  ///   - request: What its `Cache-Control` asks for.
  ///   - now: The present.
  ///   - isRepeated: Whether the same request has looked before. Eviction counts one use for each request.
  public func lookup(
    _ key: CacheKey, sending sent: HTTPFields, request: RequestDirectives, now: CacheTime, isRepeated: Bool = false
  ) -> Lookup {
    let responses = state.withLock { isRepeated ? $0.store.peek(key) : $0.store.find(key) }
    guard !responses.isEmpty else {
      return request.onlyIfCached ? .unsatisfiable : .miss(.uriMiss)
    }
    guard let response = responses.first(where: { $0.isSelected(by: sent) }) else {
      return request.onlyIfCached ? .unsatisfiable : .miss(.varyMiss)
    }
    return Selection(response, now: now).use(for: request)
  }

  /// Takes a response, in place of the one that the same request would have got. Whether it was stored.
  ///
  /// One that is refused although it tells of the target, rather than of a fault, still ends what was stored before it.
  @discardableResult
  public func store(_ response: StoredResponse, for key: CacheKey) -> Bool {
    guard response.verdict == .store else {
      if StorageVerdict.mayStore(response.status) { remove(key) }
      return false
    }
    return state.withLock { state in
      // The newest response's Vary holds for all (RFC 9111 §4.1): those with another one are from before a change.
      let others = state.store.peek(key).filter { $0.varies(like: response) && $0.selector != response.selector }
      state.store.put([response] + others.prefix(max(settings.maxVariants, 1) - 1), for: key)
      return state.store.peek(key).first === response
    }
  }

  /// Renews a response by the 304 that its ``StoredResponse/validators`` got (RFC 9111 §4.3.4), and stores that.
  ///
  /// Nil if the 304 is about another version, which is not stored any more: ask again, without validators.
  ///
  /// - Parameter settings: Those that hold now.
  public func freshen(
    _ response: StoredResponse, for key: CacheKey, by notModified: ReceivedResponse, settings: CacheSettings? = nil
  ) -> StoredResponse? {
    guard let renewed = response.freshened(by: notModified, settings: settings ?? self.settings) else {
      remove(key)
      return nil
    }
    store(renewed, for: key)
    return renewed
  }

  /// Returns the response with gzip, if compression is useful. The first caller compresses it; other callers meanwhile
  /// get it without gzip.
  ///
  /// This takes milliseconds for a large response, outside of the lock.
  public func compress(_ response: StoredResponse, for key: CacheKey) -> StoredResponse {
    guard response.awaitsCompression, state.withLock({ $0.compressing.insert(key).inserted }) else { return response }
    let compressed = response.compressed()
    state.withLock { state in
      state.compressing.remove(key)
      var responses = state.store.peek(key)
      guard let index = responses.firstIndex(where: { $0 === response }) else { return }
      responses[index] = compressed
      state.store.put(responses, for: key)
    }
    return compressed
  }

  /// Forgets what is stored for a target.
  public func remove(_ key: CacheKey) {
    state.withLock { $0.store.remove(key) }
  }

  /// Forgets everything.
  public func removeAll() {
    state.withLock { $0.store = ResponseStore(maxBytes: settings.maxBytes) }
  }

  /// Figures for metrics.
  public var statistics: CacheStatistics {
    state.withLock { state in
      CacheStatistics(entries: state.store.count, bytes: state.store.bytes, evictions: state.store.evictions)
    }
  }
}

extension StoredResponse {
  fileprivate func isSelected(by sent: HTTPFields) -> Bool { selector?.matches(sent) ?? false }

  fileprivate func varies(like other: StoredResponse) -> Bool {
    Set(selector?.names ?? []) == Set(other.selector?.names ?? [])
  }
}

/// How much the cache holds and for how long. Lengths of time in seconds, sizes in bytes.
public struct CacheSettings: Sendable, Equatable {
  /// What all responses together may take, with what it costs to keep them; 0 turns the cache off.
  public var maxBytes = 64_000_000
  /// The longest content of one response, decoded. Beyond it, one response would push out too many others.
  public var largestContent = 1 << 20
  /// How long a response is fresh that says nothing about it: the catalog changes by the day.
  public var lifetime = 300
  /// The same for 404 and 410: an album may be released any minute.
  public var negativeLifetime = 60
  /// How long beyond `lifetime` such a response is still served while a new one is fetched (RFC 5861 §3). Does not apply
  /// to responses that say how long they are fresh: those have to allow it (RFC 9111 §4.2.4).
  public var staleWhileRevalidate = 60
  /// How long a stale response stands in when the upstream fails (RFC 5861 §4), unless it forbids that or says otherwise.
  public var staleIfError = 86_400
  /// Responses to one key that differ by request fields (`Vary`); the oldest goes.
  public var maxVariants = 8
  /// Whether all callers may have the responses. Otherwise the server marks them `private`, so that no CDN gives them
  /// to a client that the access policy would refuse.
  public var isPublic = false

  /// The defaults.
  public init() {}

  /// The longest content that is kept: with a small `maxBytes`, an eighth of that.
  var largestStored: Int { min(largestContent, maxBytes / 8) }
}

/// Figures about a cache.
public struct CacheStatistics: Sendable, Equatable {
  /// How many targets it has responses to.
  public let entries: Int
  /// What they take, in bytes.
  public let bytes: Int
  /// How many had to go for others since the start.
  public let evictions: Int
}

/// What the cache has for a request.
public enum Lookup: Sendable {
  /// The server sends the response: it is fresh, or no more stale than the caller allows (`max-stale`).
  case hit(Selection)
  /// The response is stale, but the server sends it while a background request validates it (RFC 5861 §3).
  case staleWhileRevalidate(Selection)
  /// The proxy must validate the response upstream, with its ``StoredResponse/validators``. With the reason
  /// ``ForwardReason/request`` the response is fresh, but does not satisfy the directives of the request.
  case validate(Selection, ForwardReason)
  /// The cache has no response.
  case miss(ForwardReason)
  /// The cache cannot serve the request, and the caller forbids asking upstream (`only-if-cached`): 504 (RFC 9111
  /// §5.2.1.7).
  case unsatisfiable
}

/// Why a request went upstream. The raw value is that of the parameter `fwd` (RFC 9211 §2.2).
public enum ForwardReason: String, Sendable, CaseIterable {
  /// The cache is not for such requests.
  case bypass
  /// The method.
  case method
  /// Nothing is stored for the target.
  case uriMiss = "uri-miss"
  /// What is stored for the target is for other request fields.
  case varyMiss = "vary-miss"
  /// Nothing usable is stored, for another reason.
  case miss
  /// A fresh response is stored, but the request does not allow its use: the caller forces validation.
  case request
  /// A stale response is stored.
  case stale
}
