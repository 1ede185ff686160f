public import HTTPTypes
import Locks

/// The one cache of the process (RFC 9111), shared by all event loops.
///
/// A lock guards only the store. A lookup holds it for one dictionary access. All decisions happen outside of the lock,
/// on responses that never change.
public final class ResponseCache: @unchecked Sendable {
  // Sendable: `store` and `compressing` are touched within `mutex` only; the rest never changes.
  private let mutex = Mutex()
  private var store: AnswerStore
  /// Keys whose answer is being compressed; no more than there are threads.
  private var compressing: Set<CacheKey> = []

  /// How much it holds and for how long.
  public let settings: CacheSettings

  /// An empty cache.
  public init(settings: CacheSettings) {
    self.settings = settings
    store = AnswerStore(maxBytes: settings.maxBytes)
  }

  /// What there is for a request.
  ///
  /// - Parameters:
  ///   - key: Its target.
  ///   - sent: What would be sent upstream, without the credential; looked at only if the answers vary.
  ///   - request: What its `Cache-Control` asks for.
  ///   - now: The present.
  public func lookup(_ key: CacheKey, sending sent: HTTPFields, request: RequestDirectives, now: CacheTime) -> Lookup {
    guard let answers = mutex.withLock({ store.find(key) }) else {
      return request.onlyIfCached ? .unsatisfiable : .miss(.uriMiss)
    }
    guard let answer = answers.first(where: { $0.isSelected(by: sent) }) else {
      return request.onlyIfCached ? .unsatisfiable : .miss(.varyMiss)
    }
    return Selection(answer, now: now).use(for: request)
  }

  /// Takes an answer, in place of the one that the same request would have got. Whether it was stored.
  ///
  /// One that is refused although it tells of the target, rather than of a fault, still ends what was stored before it.
  @discardableResult
  public func store(_ answer: StoredAnswer, for key: CacheKey) -> Bool {
    guard answer.verdict == .store else {
      if StorageVerdict.mayStore(answer.status) { remove(key) }
      return false
    }
    return mutex.withLock {
      // The newest answer's Vary holds for all (RFC 9111 §4.1): those with another one are from before a change.
      let others = store.peek(key).filter { $0.varies(like: answer) && $0.selector != answer.selector }
      store.put([answer] + others.prefix(max(settings.maxVariants, 1) - 1), for: key)
      return store.peek(key).first === answer
    }
  }

  /// Renews an answer by the 304 that its ``StoredAnswer/validators`` got (RFC 9111 §4.3.4), and stores that.
  ///
  /// Nil if the 304 is about another version, which is not stored any more: ask again, without validators.
  ///
  /// - Parameter settings: Those that hold now.
  public func freshen(
    _ answer: StoredAnswer, for key: CacheKey, by notModified: ReceivedAnswer, settings: CacheSettings? = nil
  ) -> StoredAnswer? {
    guard let renewed = answer.freshened(by: notModified, settings: settings ?? self.settings) else {
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
  public func compress(_ answer: StoredAnswer, for key: CacheKey) -> StoredAnswer {
    guard answer.awaitsCompression, mutex.withLock({ compressing.insert(key).inserted }) else { return answer }
    let compressed = answer.compressed()
    mutex.withLock {
      compressing.remove(key)
      var answers = store.peek(key)
      guard let index = answers.firstIndex(where: { $0 === answer }) else { return }
      answers[index] = compressed
      store.put(answers, for: key)
    }
    return compressed
  }

  /// Forgets what is stored for a target.
  public func remove(_ key: CacheKey) {
    mutex.withLock { store.remove(key) }
  }

  /// Forgets everything.
  public func removeAll() {
    mutex.withLock { store = AnswerStore(maxBytes: settings.maxBytes) }
  }

  /// Figures for metrics.
  public var statistics: CacheStatistics {
    mutex.withLock { CacheStatistics(entries: store.count, bytes: store.bytes, evictions: store.evictions) }
  }
}

extension StoredAnswer {
  fileprivate func isSelected(by sent: HTTPFields) -> Bool { selector?.matches(sent) ?? false }

  fileprivate func varies(like other: StoredAnswer) -> Bool {
    Set(selector?.names ?? []) == Set(other.selector?.names ?? [])
  }
}
