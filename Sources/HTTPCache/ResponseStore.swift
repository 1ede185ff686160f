/// Responses by key, bounded in bytes, without a lock. Every operation takes amortised constant time.
///
/// S3-FIFO decides eviction (Yang et al., SOSP 2023; docs/decisions.md, 26). A small queue accepts new entries, and evicts
/// those that were not used again before they reach its end. Used entries move to the main queue, and an entry that returns
/// soon after eviction goes there at once. A hit counts up to three and moves nothing.
///
/// The main queue has equal shares for the clients, and within a client for its callers (77). An entry that moves there makes
/// room at the cost of its owner if the owner has more than its share, otherwise at the cost of the oldest entry. Entries
/// that no caller has used for five minutes leave first, so callers that have gone have no share.
struct ResponseStore {
  /// An entry: all variants of one key.
  private struct Entry {
    let key: CacheKey
    let owner: CacheOwner
    var responses: [StoredResponse]
    var cost: Int
    var isMain: Bool
    var hits: UInt8 = 0
    /// The time of its last use, in nanoseconds.
    var usedAt: Int
  }

  /// The hits that keep an entry when it leaves the small queue. One could be the second half of a `HEAD` and `GET`, or a
  /// retry.
  private static let worthKeeping: UInt8 = 2
  /// The most hits that are counted for an entry.
  private static let mostHits: UInt8 = 3
  /// The most entries that get another round before one is evicted anyway. Bounds the longest time under the lock.
  private static let mostRounds = 64
  /// The time after which an unused entry of the main queue leaves first, in nanoseconds: 5 min, the lifetime of a response
  /// that states none.
  static let idleTime = 300_000_000_000
  /// The size of an entry besides its responses, in bytes: the entry, its dictionary slot, and the array.
  private static let overhead = 256

  private let maxBytes: Int
  private var entries: [Entry] = []
  /// The places in `entries` without an entry.
  private var free: [Int] = []
  private var places: [CacheKey: Int] = [:]
  private var small = EntryQueue()
  private var main = EntryQueue()
  private var links = EntryLinks()
  /// The entries of the main queue again, by owner.
  private var owners = OwnerQueues()
  /// The owner of the entry that was last added to the main queue.
  private var lastOwner = CacheOwner.unknown
  /// The time of the last look-up, in nanoseconds.
  private var now = 0
  private var ghosts: GhostTable
  private(set) var evictions = 0

  init(maxBytes: Int) {
    self.maxBytes = max(maxBytes, 0)
    ghosts = GhostTable(maxBytes: self.maxBytes)
  }

  var count: Int { places.count }
  var bytes: Int { small.bytes + main.bytes }

  /// Returns all variants of `key`, the newest first, and counts a hit at a time in nanoseconds.
  mutating func find(_ key: CacheKey, now: Int = 0) -> [StoredResponse] {
    self.now = now
    guard let place = places[key] else { return [] }
    entries[place].hits = min(entries[place].hits + 1, Self.mostHits)
    entries[place].usedAt = now
    return entries[place].responses
  }

  func peek(_ key: CacheKey) -> [StoredResponse] { places[key].map { entries[$0].responses } ?? [] }

  /// Replaces the variants of `key`, or adds the key. Returns whether the store has them now. Responses that are larger than
  /// the store, and none, remove the key. An entry keeps its owner.
  @discardableResult
  mutating func put(_ responses: [StoredResponse], for key: CacheKey, of owner: CacheOwner = .unknown) -> Bool {
    let cost = responses.reduce(Self.overhead + 2 * key.bytes.count) { $0 + $1.cost }
    guard !responses.isEmpty, cost <= maxBytes else {
      remove(key)
      return false
    }
    if let place = places[key] {
      change(place, responses: responses, cost: cost)
    } else {
      let isMain = ghosts.remove(key.fingerprint)
      if isMain { lastOwner = owner }
      insert(Entry(key: key, owner: owner, responses: responses, cost: cost, isMain: isMain, usedAt: now))
    }
    guard bytes > maxBytes else { return true }
    while bytes > maxBytes, !places.isEmpty { evict() }
    return places[key] != nil
  }

  mutating func remove(_ key: CacheKey) {
    guard let place = places[key] else { return }
    _ = unlink(place)
    discard(place)
  }

  var recountedBytes: Int {
    places.reduce(0) { sum, place in
      entries[place.value].responses.reduce(sum + Self.overhead + 2 * place.key.bytes.count) { $0 + $1.cost }
    }
  }

  private mutating func evict() {
    if small.bytes > maxBytes / 10 || main.oldest < 0 { evictSmall() } else { evictMain() }
  }

  private mutating func evictSmall() {
    let place = small.oldest
    let entry = unlink(place)
    if entry.hits >= Self.worthKeeping {
      entries[place].isMain = true
      entries[place].hits = 0
      lastOwner = entry.owner
      link(place)
    } else {
      ghosts.insert(entry.key.fingerprint)
      evict(place)
    }
  }

  /// Evicts an entry of the main queue: of all, or of the owner that has added the last one to it if that owner has more than
  /// its share and no entry is idle.
  private mutating func evictMain() {
    guard owners.isAboveShare(lastOwner, of: main.bytes) else { return evictOldest() }
    let place = main.oldest
    guard now - unlink(place).usedAt < Self.idleTime else { return evict(place) }
    // It moves to the end of the queue, or it would hide idle entries.
    link(place)
    evictOldest(of: lastOwner)
  }

  /// Evicts the oldest entry of the main queue, or the oldest one of an owner. An entry with hits stays: it loses one hit and
  /// moves to the end of the queue. After `mostRounds` the oldest entry is evicted anyway.
  private mutating func evictOldest(of owner: CacheOwner? = nil) {
    for round in 0...Self.mostRounds {
      let place = owner.map { owners.oldest(of: $0) } ?? main.oldest
      if unlink(place).hits == 0 || round == Self.mostRounds { return evict(place) }
      entries[place].hits -= 1
      link(place)
    }
  }

  private mutating func evict(_ place: Int) {
    discard(place)
    evictions += 1
  }

  private mutating func insert(_ entry: Entry) {
    let place = free.popLast() ?? entries.count
    if place == entries.count { entries.append(entry) } else { entries[place] = entry }
    places[entry.key] = place
    link(place)
  }

  private mutating func change(_ place: Int, responses: [StoredResponse], cost: Int) {
    let growth = cost - entries[place].cost
    (entries[place].responses, entries[place].cost) = (responses, cost)
    guard entries[place].isMain else { return small.bytes += growth }
    main.bytes += growth
    owners.resize(by: growth, of: entries[place].owner)
  }

  private mutating func discard(_ place: Int) {
    places[entries[place].key] = nil
    entries[place].responses = []
    free.append(place)
  }

  private mutating func link(_ place: Int) {
    let entry = entries[place]
    guard entry.isMain else { return links.append(place, bytes: entry.cost, to: &small) }
    links.append(place, bytes: entry.cost, to: &main)
    owners.append(place, bytes: entry.cost, of: entry.owner)
  }

  private mutating func unlink(_ place: Int) -> Entry {
    let entry = entries[place]
    if entry.isMain {
      links.remove(place, bytes: entry.cost, from: &main)
      owners.remove(place, bytes: entry.cost, of: entry.owner)
    } else {
      links.remove(place, bytes: entry.cost, from: &small)
    }
    return entry
  }
}

/// The keys of entries that were evicted unused, so that the cache recognises a key that returns soon. Each fingerprint has
/// one slot. If another key overwrites it early, the entry only starts in the small queue again.
struct GhostTable {
  private var fingerprints: [UInt64]

  /// Creates a table for about as many keys as a store of `maxBytes` has entries.
  init(maxBytes: Int) {
    var count = 256
    while count < maxBytes / 4096, count < 65_536 { count *= 2 }
    fingerprints = Array(repeating: 0, count: count)
  }

  mutating func insert(_ fingerprint: UInt64) { fingerprints[place(of: fingerprint)] = fingerprint }

  mutating func remove(_ fingerprint: UInt64) -> Bool {
    let place = place(of: fingerprint)
    guard fingerprint != 0, fingerprints[place] == fingerprint else { return false }
    fingerprints[place] = 0
    return true
  }

  private func place(of fingerprint: UInt64) -> Int {
    Int(truncatingIfNeeded: fingerprint & UInt64(fingerprints.count - 1))
  }
}

/// The ends of a first-in first-out queue of entries.
struct EntryQueue {
  /// The newest entry. -1 if the queue is empty.
  fileprivate(set) var newest = -1
  /// The oldest entry, which leaves first. -1 if the queue is empty.
  fileprivate(set) var oldest = -1
  /// The total size of its entries, in bytes.
  var bytes = 0
}

/// The links of queues whose entries are places of an array. A place is in one of these queues at most.
struct EntryLinks {
  private var links: [(newer: Int, older: Int)] = []

  mutating func append(_ place: Int, bytes: Int, to queue: inout EntryQueue) {
    while links.count <= place { links.append((-1, -1)) }
    links[place] = (-1, queue.newest)
    if queue.newest >= 0 { links[queue.newest].newer = place } else { queue.oldest = place }
    queue.newest = place
    queue.bytes += bytes
  }

  mutating func remove(_ place: Int, bytes: Int, from queue: inout EntryQueue) {
    let (newer, older) = links[place]
    if newer < 0 { queue.newest = older } else { links[newer].older = older }
    if older < 0 { queue.oldest = newer } else { links[older].newer = newer }
    queue.bytes -= bytes
  }
}

/// The caller for which a response was fetched, and its client, as hashes.
public struct CacheOwner: Sendable, Equatable {
  fileprivate let slot: Int

  /// Creates an owner.
  public init(client: UInt64, caller: UInt64) {
    let slots = UInt64(OwnerQueues.slots)
    slot = Int(client % slots * slots + caller % slots)
  }

  /// The owner of responses without a caller.
  public static let unknown = CacheOwner(client: 0, caller: 0)
}

/// The entries of the main queue by owner, each in the order of the main queue.
/// Clients have equal shares, and within a client its callers do. Only those count that have entries. An owner is one of
/// 64 slots of its client, which is one of 64, by hash: about 100 kB, however many there are. Owners in one slot share it.
struct OwnerQueues {
  fileprivate static let slots = 64

  private var queues = [EntryQueue](repeating: EntryQueue(), count: slots * slots)
  /// The number of slots with entries, of each client.
  private var callers = [Int](repeating: 0, count: slots)
  private var clients = 0
  private var links = EntryLinks()

  /// The oldest entry of an owner. -1 without entries.
  func oldest(of owner: CacheOwner) -> Int { queues[owner.slot].oldest }

  /// Returns whether an owner's entries take more than its share of `total` bytes.
  func isAboveShare(_ owner: CacheOwner, of total: Int) -> Bool {
    queues[owner.slot].bytes > total / max(clients * callers[owner.slot / Self.slots], 1)
  }

  mutating func append(_ place: Int, bytes: Int, of owner: CacheOwner) {
    if queues[owner.slot].oldest < 0 { count(owner, 1) }
    links.append(place, bytes: bytes, to: &queues[owner.slot])
  }

  mutating func remove(_ place: Int, bytes: Int, of owner: CacheOwner) {
    links.remove(place, bytes: bytes, from: &queues[owner.slot])
    if queues[owner.slot].oldest < 0 { count(owner, -1) }
  }

  mutating func resize(by bytes: Int, of owner: CacheOwner) { queues[owner.slot].bytes += bytes }

  private mutating func count(_ owner: CacheOwner, _ change: Int) {
    let client = owner.slot / Self.slots
    let before = callers[client]
    callers[client] += change
    if before == 0 { clients += 1 } else if callers[client] == 0 { clients -= 1 }
  }
}

/// Targets whose latest response was for one caller only: `private`, `no-store`, `Vary: *` or with `Set-Cookie`.
/// Requests for such a target do not wait for each other, because the proxy would send a request for each of them
/// afterwards. The next response that callers may share removes the target, or its lifetime ends. An evicted target, or a
/// collision of hashes, costs only latency or one request.
struct UnsharedTargets: Sendable {
  /// The time for which a target stays in the set, in nanoseconds: 30 s.
  static let lifetime = 30_000_000_000
  /// The most targets in the set: 256, about 8 kB.
  static let maximumCount = 256

  /// The expiry of each target on the monotonic clock, by its hash.
  private var ends: [UInt64: Int] = [:]

  var count: Int { ends.count }

  func contains(_ key: CacheKey, now: Int) -> Bool {
    guard !ends.isEmpty, let end = ends[key.fingerprint] else { return false }
    return now < end
  }

  /// Adds or removes a target according to its last response.
  mutating func note(_ key: CacheKey, isShareable: Bool, now: Int) {
    guard !isShareable else {
      if !ends.isEmpty { ends[key.fingerprint] = nil }
      return
    }
    if ends.count >= Self.maximumCount, ends[key.fingerprint] == nil, let oldest = ends.min(by: { $0.value < $1.value })
    {
      ends[oldest.key] = nil
    }
    ends[key.fingerprint] = now + Self.lifetime
  }
}
