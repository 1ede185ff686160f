/// Answers by key, bounded in bytes. Holds no lock and knows no clock; every operation takes constant time, spread over
/// all of them.
///
/// What has to go is chosen by S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023): a
/// small queue takes what is new, and lets go of what has not been used again by the time it reaches the end, so that a
/// crawl of the whole catalog passes through a tenth of the memory. What has been used goes over to the main queue, or
/// is put there at once if it comes again soon after it was let go. A hit counts up to three and moves nothing, unlike
/// in W-TinyLFU, the other candidate, whose hits move entries and count in a sketch.
struct ResponseStore {
  /// An entry: all variants of one key.
  private struct Entry {
    let key: CacheKey
    var responses: [StoredResponse]
    var cost: Int
    var isMain: Bool
    var hits: UInt8 = 0
    var newer = -1
    var older = -1
  }

  /// Hits that make an entry worth keeping when it leaves the small queue: one could be the second half of a `HEAD` and
  /// `GET`, or of a retry.
  private static let worthKeeping: UInt8 = 2
  /// How often one is counted.
  private static let mostHits: UInt8 = 3
  /// How many entries get another round before one goes regardless: what bounds the longest stay in the lock.
  private static let mostRounds = 64
  /// What an entry takes beside its responses: itself, its place in the dictionary, and the array.
  private static let overhead = 256

  private let maxBytes: Int
  private var entries: [Entry?] = []
  private var free: [Int] = []
  private var places: [CacheKey: Int] = [:]
  private var small = EntryQueue()
  private var main = EntryQueue()
  private var ghosts: GhostTable
  /// How many entries have had to go for others.
  private(set) var evictions = 0

  init(maxBytes: Int) {
    self.maxBytes = max(maxBytes, 0)
    ghosts = GhostTable(maxBytes: self.maxBytes)
  }

  var count: Int { places.count }
  var bytes: Int { small.bytes + main.bytes }

  /// All variants of `key`, the newest first, and a hit for them; none if there are none.
  mutating func find(_ key: CacheKey) -> [StoredResponse] {
    guard let place = places[key] else { return [] }
    if let hits = entries[place]?.hits, hits < Self.mostHits { entries[place]?.hits = hits + 1 }
    return entries[place]?.responses ?? []
  }

  /// All variants of `key`, without a hit.
  func peek(_ key: CacheKey) -> [StoredResponse] {
    places[key].flatMap { entries[$0]?.responses } ?? []
  }

  /// Makes `responses` the variants of `key`, in the place that it has or in a new one. Without responses the key goes.
  mutating func put(_ responses: [StoredResponse], for key: CacheKey) {
    let cost = responses.reduce(Self.overhead + 2 * key.bytes.count) { $0 + $1.cost }
    guard !responses.isEmpty, cost <= maxBytes else { return remove(key) }
    if let place = places[key] {
      change(place, responses: responses, cost: cost)
    } else {
      insert(Entry(key: key, responses: responses, cost: cost, isMain: ghosts.remove(key.fingerprint)))
    }
    while bytes > maxBytes, !places.isEmpty { evict() }
  }

  /// Forgets `key`.
  mutating func remove(_ key: CacheKey) {
    guard let place = places[key] else { return }
    unlink(place)
    discard(place)
  }

  /// The cost of all entries, recomputed.
  var recountedBytes: Int {
    entries.reduce(0) { sum, entry in
      guard let entry else { return sum }
      return entry.responses.reduce(sum + Self.overhead + 2 * entry.key.bytes.count) { $0 + $1.cost }
    }
  }

  // MARK: Eviction

  private mutating func evict() {
    if small.bytes > maxBytes / 10 || main.oldest < 0 { evictSmall() } else { evictMain() }
  }

  /// The oldest of the small queue goes over to the main one, or goes.
  private mutating func evictSmall() {
    let place = small.oldest
    guard let entry = unlink(place) else { return }
    if entry.hits >= Self.worthKeeping {
      entries[place]?.isMain = true
      entries[place]?.hits = 0
      link(place)
    } else {
      ghosts.insert(entry.key.fingerprint)
      discard(place)
      evictions += 1
    }
  }

  /// Evicts the oldest entry of the main queue. An entry with hits stays: it loses one hit and moves to the end of the
  /// queue. After several rounds the oldest entry goes in any case.
  private mutating func evictMain() {
    for round in 0...Self.mostRounds {
      let place = main.oldest
      guard let entry = unlink(place) else { return }
      if entry.hits == 0 || round == Self.mostRounds {
        discard(place)
        evictions += 1
        return
      }
      entries[place]?.hits -= 1
      link(place)
    }
  }

  // MARK: Places and links

  private mutating func insert(_ entry: Entry) {
    let place = free.popLast() ?? entries.count
    if place == entries.count { entries.append(entry) } else { entries[place] = entry }
    places[entry.key] = place
    link(place)
  }

  private mutating func change(_ place: Int, responses: [StoredResponse], cost: Int) {
    guard let entry = entries[place] else { return }
    entries[place]?.responses = responses
    entries[place]?.cost = cost
    if entry.isMain { main.bytes += cost - entry.cost } else { small.bytes += cost - entry.cost }
  }

  private mutating func discard(_ place: Int) {
    guard let entry = entries[place] else { return }
    places[entry.key] = nil
    entries[place] = nil
    free.append(place)
  }

  private mutating func link(_ place: Int) {
    guard let entry = entries[place] else { return }
    var queue = entry.isMain ? main : small
    entries[place]?.newer = -1
    entries[place]?.older = queue.newest
    if queue.newest >= 0 { entries[queue.newest]?.newer = place }
    queue.newest = place
    if queue.oldest < 0 { queue.oldest = place }
    queue.bytes += entry.cost
    if entry.isMain { main = queue } else { small = queue }
  }

  /// Removes the entry from its queue; nil if the place has no entry.
  @discardableResult
  private mutating func unlink(_ place: Int) -> Entry? {
    guard place >= 0, let entry = entries[place] else { return nil }
    var queue = entry.isMain ? main : small
    if entry.newer < 0 { queue.newest = entry.older } else { entries[entry.newer]?.older = entry.older }
    if entry.older < 0 { queue.oldest = entry.newer } else { entries[entry.older]?.newer = entry.newer }
    queue.bytes -= entry.cost
    if entry.isMain { main = queue } else { small = queue }
    return entry
  }
}

/// The ends of a first-in first-out queue whose links are in the entries themselves.
struct EntryQueue {
  /// The entry that came last; -1 if the queue is empty.
  var newest = -1
  /// The entry that goes first; -1 if the queue is empty.
  var oldest = -1
  /// What its entries cost together.
  var bytes = 0
}

/// The keys of entries that the cache evicted unused, so that it recognises one that returns.
///
/// A table of fixed size in which each fingerprint has one place. Its cost is constant, however many keys pass, and a
/// key that soon returns is most likely still there. If another key takes over a place early, the entry only starts
/// over.
struct GhostTable {
  private var fingerprints: [UInt64]

  /// With room for about as many keys as a store of `maxBytes` has entries.
  init(maxBytes: Int) {
    var count = 256
    while count < maxBytes / 4096, count < 65_536 { count *= 2 }
    fingerprints = Array(repeating: 0, count: count)
  }

  mutating func insert(_ fingerprint: UInt64) {
    fingerprints[place(of: fingerprint)] = fingerprint
  }

  /// Whether it was there; afterwards it is not.
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
