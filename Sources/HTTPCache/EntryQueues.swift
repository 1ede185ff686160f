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
///
/// Clients have equal shares, and within a client its callers do. Only those count that have entries. An owner is one of
/// 64 slots of its client, which is one of 64, by hash: about 100 kB, however many there are. Owners in one slot share it.
struct OwnerQueues {
  fileprivate static let slots = 64

  private var queues = [EntryQueue](repeating: EntryQueue(), count: slots * slots)
  /// The number of slots with entries, of each client.
  private var callers = [Int](repeating: 0, count: slots)
  /// The number of clients with entries.
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

  /// Notes that an entry has another size.
  mutating func resize(by bytes: Int, of owner: CacheOwner) {
    queues[owner.slot].bytes += bytes
  }

  private mutating func count(_ owner: CacheOwner, _ change: Int) {
    let client = owner.slot / Self.slots
    let before = callers[client]
    callers[client] += change
    if before == 0 { clients += 1 } else if callers[client] == 0 { clients -= 1 }
  }
}
