import Bytes
import CatalogProxy
import EventLoop
import HTTPCache
import Locks
import Redis

/// The second-level cache at the store of a group: entries, and announcements of fetches.
///
/// `{prefix}:cache:<key>` has an entry, `{prefix}:fetch:<key>` the ID of the replica that fetches it, and a mark behind the
/// ID once another replica waits. The end of a fetch is a message only then.
final class RedisSharedCache: GroupParticipant, Sendable {
  let kind = GroupMessage.Kind.cache
  let group: ReplicaGroup
  private let state: Locked<State>

  /// The most announcements that one settlement renews: 500. Others lapse, and replicas may send a request twice.
  private static let mostRenewals = 500
  /// The time without the store after which no lookup waits for another replica: 0.5 s. One settlement may be late.
  private static let mostSilence = Duration.milliseconds(500)

  private struct State {
    var codec: SharedEntryCodec
    /// The lookups that ask or wait, by their keys.
    var lookups: [SharedEntryKey: [Place]] = [:]
    /// When the announcements of this replica were last renewed.
    var led: [SharedEntryKey: Deadline] = [:]
    /// Since when the store has been of no use; nil while it is.
    var aloneSince: Deadline?
    var counts = SharedCacheCounts()
  }

  private struct Place {
    let lookup: RedisLookup
    /// When the lookup stops to wait and asks again; nil while it asks.
    var until: Duration?
  }

  init(_ group: ReplicaGroup, _ secret: GroupSecret) {
    self.group = group
    state = Locked(State(codec: secret.cache))
  }

  /// The form of the entries. On any thread.
  var codec: SharedEntryCodec { state.withLock { $0.codec } }
  /// The counts since the start. On any thread.
  var counts: SharedCacheCounts { state.withLock { $0.counts } }

  /// Returns the cache for one event loop; nil for a loop without a client. On any thread.
  func cache(on loop: IOLoop) -> LoopSharedCache? { group.client(on: loop).map { LoopSharedCache(self, $0) } }

  func count(_ change: (inout SharedCacheCounts) -> Void) { state.withLock { change(&$0.counts) } }

  func add(_ lookup: RedisLookup) {
    state.withLock { $0.lookups[lookup.key, default: []].append(Place(lookup: lookup)) }
  }

  func note(_ lookup: RedisLookup, waitsUntil time: Duration?) {
    state.withLock { state in
      guard let index = state.lookups[lookup.key]?.firstIndex(where: { $0.lookup === lookup }) else { return }
      state.lookups[lookup.key]?[index].until = time
    }
  }

  func remove(_ lookup: RedisLookup, leadsSince time: Deadline?) {
    state.withLock { state in
      state.lookups[lookup.key]?.removeAll { $0.lookup === lookup }
      if state.lookups[lookup.key]?.isEmpty == true { state.lookups[lookup.key] = nil }
      if let time { state.led[lookup.key] = time }
    }
  }

  func forget(_ key: SharedEntryKey) { state.withLock { $0.led[key] = nil } }

  /// Tells the lookups of this replica about the end of a fetch.
  func tell(_ key: SharedEntryKey, _ outcome: SharedFetchOutcome) {
    for place in state.withLock({ $0.lookups[key] ?? [] }) { place.lookup.ended(outcome) }
  }

  private static let renewal = RedisScript(
    """
    for _, key in ipairs(KEYS) do
      local holder = redis.call('GET', key)
      if holder and string.sub(holder, 1, #ARGV[1]) == ARGV[1] then redis.call('PEXPIRE', key, ARGV[2]) end
    end
    return #KEYS
    """)

  /// Renews the announcements that are half used up, and wakes the lookups whose wait is over.
  func settlement(at now: Deadline) -> ScriptCall? {
    let (keys, isLost, waiting) = state.withLock { state in
      let due = state.led.filter { now.duration(since: $0.value) >= SharedLookupState.lease / 2 }
      let keys = Array(due.keys.prefix(Self.mostRenewals))
      for key in keys { state.led[key] = now }
      let isLost = state.aloneSince.map { now.duration(since: $0) >= Self.mostSilence } ?? false
      return (keys, isLost, state.lookups.values.joined().filter { $0.until != nil })
    }
    for place in waiting {
      if let until = place.until, until <= now.elapsed { place.lookup.timePassed() }
      if isLost { place.lookup.cancel() }
    }
    guard !keys.isEmpty else { return nil }
    return ScriptCall(
      script: Self.renewal, keys: keys.map { group.fetchKey($0) }, arguments: [group.holder, LoopSharedCache.lease])
  }

  func changed(_ state: GroupState) {
    let now = Deadline.now
    self.state.withLock { $0.aloneSince = state.isTogether ? nil : $0.aloneSince ?? now }
  }

  func use(_ secret: GroupSecret) { state.withLock { $0.codec = secret.cache } }

  func received(_ payload: ArraySlice<UInt8>, now: Deadline) {
    guard let key = SharedEntryKey(payload.dropLast()), let outcome = payload.last.flatMap(SharedFetchOutcome.init)
    else { return }
    tell(key, outcome)
  }
}

struct SharedCacheCounts: Sendable, Equatable {
  var lookups: [SharedLookupResult: Int] = [:]
  var stores = 0
  /// The responses that it has not taken, or not in time.
  var failedStores = 0
}

extension ReplicaGroup {
  /// What stands in this replica's announcements.
  var holder: [UInt8] {
    var text: [UInt8] = []
    text.append(hexadecimal: id)
    return text
  }

  func entryKey(_ key: SharedEntryKey) -> [UInt8] { self.key("cache:\(String(hexadecimal: key.bytes.span))") }

  func fetchKey(_ key: SharedEntryKey) -> [UInt8] { self.key("fetch:\(String(hexadecimal: key.bytes.span))") }
}

extension Deadline {
  /// The time on the monotonic clock, as the catalog's clock has it.
  var elapsed: Duration { .nanoseconds(Int64(clamping: nanoseconds)) }
}
