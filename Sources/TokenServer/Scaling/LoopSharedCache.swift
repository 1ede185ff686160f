import CatalogProxy
import EventLoop
import HTTPCache
import Redis

/// The second-level cache on one event loop. Confined to it.
final class LoopSharedCache: SharedCache, @unchecked Sendable {
  // Sendable by confinement.
  let cache: RedisSharedCache
  let client: RedisClient
  /// The replies in a row that did not come in time.
  private var timeouts = 0
  private var pausedUntil = Deadline(nanoseconds: 0)

  /// The number of replies in a row that do not come in time, after which lookups pause: 3.
  private static let mostTimeouts = 3
  /// The pause: 1 s. A store that is always slow costs callers `shared.timeout` in each second, and not with each response.
  private static let pause = Duration.seconds(1)
  /// The time in which the store must have taken an entry, if `shared.timeout` is not longer: 1 s. No caller waits for it.
  private static let patience = Duration.seconds(1)

  init(_ cache: RedisSharedCache, _ client: RedisClient) { (self.cache, self.client) = (cache, client) }

  var codec: SharedEntryCodec { cache.codec }
  var isReady: Bool { client.isReady && client.loop.now >= pausedUntil }

  func count(_ result: SharedLookupResult) { cache.count { $0.lookups[result, default: 0] += 1 } }

  func look(
    up key: SharedEntryKey, patience: Duration, _ completion: @escaping @Sendable (SharedFinding) -> Void
  ) -> any SharedLookup {
    client.loop.assertCurrent()
    let lookup = RedisLookup(key, self, until: client.loop.now.elapsed + patience, completion)
    lookup.begin()
    return lookup
  }

  /// The lifetime of an announcement in milliseconds.
  static let lease = Array("\(SharedLookupState.lease.components.seconds * 1000)".utf8)
  private static let staleOffset = Array("\(SharedEntryCodec.staleOffset)".utf8)
  private static let mostBytes = Array("\(SharedEntryCodec.mostBytes)".utf8)

  /// Returns a fresh entry (0), or announces a fetch (1), or tells that another replica has announced it and for how long
  /// (2); a full store has no place for an announcement (3). An entry is stale when less time is left before its expiry
  /// than it says itself. A longer text does not count: its reply would end the connection (``RESPLimits``).
  private static let question = RedisScript(
    """
    local entry = redis.call('STRLEN', KEYS[1]) <= tonumber(ARGV[4]) and redis.call('GET', KEYS[1])
    if entry then
      local a, b, c, d = string.byte(entry, ARGV[3] + 1, ARGV[3] + 4)
      if d and redis.call('PTTL', KEYS[1]) > (((a * 256 + b) * 256 + c) * 256 + d) * 1000 then return {entry, 0, 0} end
    end
    local announced = redis.pcall('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2])
    if announced and announced.err then return {false, 3, 0} end
    if announced then return {entry, 1, 0} end
    if redis.call('STRLEN', KEYS[2]) <= #ARGV[1] then redis.pcall('APPEND', KEYS[2], '+') end
    return {false, 2, redis.call('PTTL', KEYS[2])}
    """)

  func ask(_ key: SharedEntryKey, _ completion: @escaping (SharedLookupState.Reply?) -> Void) {
    let keys = [cache.group.entryKey(key), cache.group.fetchKey(key)]
    let arguments = [cache.group.holder, Self.lease, Self.staleOffset, Self.mostBytes]
    // The time is the store's. A turn in which many callers miss is long, and its output leaves at its end.
    client.loop.atEndOfTurn { [self] in
      let deadline = Deadline.now.advanced(by: cache.group.timeout)
      client.run(Self.question, keys: keys, arguments: arguments, until: deadline) { [self] result in
        switch result {
        case .success: timeouts = 0
        case .failure(.timedOut):
          timeouts += 1
          if timeouts >= Self.mostTimeouts { pausedUntil = client.loop.now.advanced(by: Self.pause) }
        case .failure: break
        }
        completion((try? result.get()).flatMap { SharedLookupState.Reply($0) })
      }
    }
  }

  /// Stores an entry, or removes it, ends the announcement if it is this replica's, and tells those that wait.
  private static let end = RedisScript(
    """
    local outcome, isStored = ARGV[5], 0
    if ARGV[2] ~= '' then
      local reply = redis.pcall('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
      if reply and reply.err then outcome = ARGV[6] else isStored = 1 end
    elseif ARGV[7] == '1' then
      redis.call('DEL', KEYS[1])
    end
    local holder = redis.call('GET', KEYS[2])
    if holder and string.sub(holder, 1, #ARGV[1]) == ARGV[1] then
      redis.call('DEL', KEYS[2])
      if #holder > #ARGV[1] then redis.call('PUBLISH', ARGV[4], ARGV[8] .. outcome) end
    end
    return isStored
    """)

  func finish(_ key: SharedEntryKey, _ end: SharedFetchEnd) {
    client.loop.assertCurrent()
    let group = cache.group
    cache.forget(key)
    var (entry, lifetime, replaces) = ([] as [UInt8], 0, false)
    switch end {
    case .stored(let stored): (entry, lifetime) = (stored.bytes, stored.lifetime)
    case .unshared(let isReplacing): replaces = isReplacing
    case .failed: break
    }
    client.run(
      Self.end, keys: [group.entryKey(key), group.fetchKey(key)],
      arguments: [
        group.holder, entry, Array("\(lifetime * 1000)".utf8), group.channel, [end.outcome.rawValue],
        [SharedFetchOutcome.unshared.rawValue], [UInt8(ascii: replaces ? "1" : "0")], group.header(.cache) + key.bytes,
      ], until: client.loop.now.advanced(by: max(Self.patience, group.timeout))
    ) { [cache, isStoring = !entry.isEmpty] result in
      if isStoring {
        let isStored = (try? result.get())?.number == 1
        cache.count { if isStored { $0.stores += 1 } else { $0.failedStores += 1 } }
      }
      // The group has no messages of this replica for itself, where a new lookup may have met the old announcement.
      cache.tell(key, end.outcome)
    }
  }
}

extension SharedLookupState.Reply {
  fileprivate init?(_ value: RESPValue) {
    guard let parts = value.elements, parts.count == 3, let state = parts[1].number, let time = parts[2].number
    else { return nil }
    switch (state, parts[0].bytes) {
    case (0, let entry?): self = .entry(entry)
    case (1, let entry): self = .lead(stale: entry)
    case (2, _): self = .follow(lapsesIn: .milliseconds(min(max(time, 0), 1_000_000)))
    default: return nil
    }
  }
}
