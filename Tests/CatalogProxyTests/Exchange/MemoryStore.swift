import Cryptography
import HTTPCache
import Locks

@testable import CatalogProxy
@testable import TokenServer

/// A store in memory that the replicas of a test share, with the rules of the real one except for expiry.
final class MemoryStore: Sendable {
  struct State {
    var entries: [SharedEntryKey: [UInt8]] = [:]
    /// The replicas that have announced a fetch.
    var fetches: [SharedEntryKey: ObjectIdentifier] = [:]
    /// Whether the entries count as stale.
    var isStale = false
    /// Whether the store does not respond.
    var isSilent = false
    var questions = 0
    fileprivate var lookups: [MemoryLookup] = []
  }

  let state = Locked(State())

  var entries: [SharedEntryKey: [UInt8]] { state.withLock { $0.entries } }
  var questions: Int { state.withLock { $0.questions } }

  fileprivate func reply(to key: SharedEntryKey, _ replica: ObjectIdentifier) -> SharedLookupState.Reply? {
    state.withLock { state in
      state.questions += 1
      if state.isSilent { return nil }
      let entry = state.entries[key]
      if let entry, !state.isStale { return .entry(entry) }
      guard state.fetches[key] == nil else { return .follow(lapsesIn: .seconds(1)) }
      state.fetches[key] = replica
      return .lead(stale: entry)
    }
  }

  /// Removes the announcements, as if their replicas had died.
  func lapse() {
    let lookups = state.withLock { state in
      state.fetches = [:]
      return state.lookups
    }
    for lookup in lookups { lookup.timePassed() }
  }

  /// The number of lookups that have no finding.
  var waiting: Int { state.withLock { $0.lookups.count } }

  fileprivate func add(_ lookup: MemoryLookup) { state.withLock { $0.lookups.append(lookup) } }
  fileprivate func remove(_ lookup: MemoryLookup) { state.withLock { $0.lookups.removeAll { $0 === lookup } } }

  fileprivate func finish(_ key: SharedEntryKey, _ end: SharedFetchEnd, _ replica: ObjectIdentifier) {
    let lookups = state.withLock { state in
      switch end {
      case .stored(let entry):
        state.entries[key] = entry.bytes
        state.isStale = false
      case .unshared(replaces: true): state.entries[key] = nil
      case .unshared(replaces: false), .failed: break
      }
      if state.fetches[key] == replica { state.fetches[key] = nil }
      return state.lookups.filter { $0.key == key }
    }
    for lookup in lookups { lookup.ended(end.outcome) }
  }
}

/// One replica's view of the store.
final class MemorySharedCache: SharedCache {
  let codec: SharedEntryCodec
  let store: MemoryStore
  let time: ManualTime
  private let counts = Locked<[SharedLookupResult: Int]>([:])
  private let ready = Locked(true)

  init(_ store: MemoryStore, _ time: ManualTime) throws {
    let secret = SecretBytes(copying: [UInt8](repeating: 1, count: 32).span)
    codec = SharedEntryCodec(
      authenticator: try MessageAuthenticator(key: secret), upstream: "http://localhost", team: "TEAM123456")
    (self.store, self.time) = (store, time)
  }

  var isReady: Bool {
    get { ready.withLock { $0 } }
    set { ready.withLock { $0 = newValue } }
  }

  var results: [SharedLookupResult: Int] { counts.withLock { $0 } }

  func count(_ result: SharedLookupResult) {
    counts.withLock { $0[result, default: 0] += 1 }
  }

  func look(
    up key: SharedEntryKey, patience: Duration, _ completion: @escaping @Sendable (SharedFinding) -> Void
  ) -> any SharedLookup {
    let lookup = MemoryLookup(key, self, until: time.clock.elapsed + patience, completion)
    store.add(lookup)
    Task { lookup.perform(.ask) }
    return lookup
  }

  func finish(_ key: SharedEntryKey, _ end: SharedFetchEnd) {
    store.finish(key, end, ObjectIdentifier(self))
  }

  fileprivate func ask(_ key: SharedEntryKey) -> SharedLookupState.Reply? {
    store.reply(to: key, ObjectIdentifier(self))
  }
}

final class MemoryLookup: SharedLookup {
  let key: SharedEntryKey
  private let cache: MemorySharedCache
  private let state: Locked<SharedLookupState>
  private let completion: @Sendable (SharedFinding) -> Void

  fileprivate init(
    _ key: SharedEntryKey, _ cache: MemorySharedCache, until end: Duration,
    _ completion: @escaping @Sendable (SharedFinding) -> Void
  ) {
    (self.key, self.cache, self.completion) = (key, cache, completion)
    state = Locked(SharedLookupState(until: end))
  }

  fileprivate func perform(_ step: SharedLookupState.Step) {
    switch step {
    case .none, .wait: break
    case .ask:
      let (reply, now) = (cache.ask(key), cache.time.clock.elapsed)
      perform(state.withLock { $0.replied(reply, now: now) })
    case .done(let finding):
      cache.store.remove(self)
      completion(finding)
    }
  }

  func cancel() {
    let step = state.withLock { $0.cancel() }
    Task { perform(step) }
  }

  fileprivate func ended(_ outcome: SharedFetchOutcome) {
    let step = state.withLock { $0.ended(outcome) }
    Task { perform(step) }
  }

  fileprivate func timePassed() {
    let now = cache.time.clock.elapsed
    let step = state.withLock { $0.passed(now: now) }
    Task { perform(step) }
  }
}
