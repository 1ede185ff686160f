import Bytes
import Locks

protocol BucketTableEntry {
  /// 64 bits of SipHash, under a new key in each process, or of an HMAC.
  var key: UInt64 { get }
  /// The table may give the place to another key after this moment. In a full table, the earliest goes first.
  var fullAt: Int64 { get }
  /// An entry that is no key's.
  static var free: Self { get }
}

/// A table of the buckets that are not full, by key. It starts small and grows to a fixed maximum.
struct BucketTable<Entry: BucketTableEntry> {
  private static var ways: Int { 8 }

  private var entries: [Entry]
  let maximum: Int

  /// A table of at most `maximum` entries, a power of two and at least 128.
  init(maximum: Int) {
    self.maximum = maximum
    entries = Array(repeating: Entry.free, count: min(128, maximum))
  }

  var capacity: Int { entries.count }
  var bytes: Int { entries.count * MemoryLayout<Entry>.stride }
  /// The moment when the bucket is full; in the distant past if the table does not contain it.
  subscript(key: UInt64) -> Int64 { place(of: key).map { entries[$0].fullAt } ?? Entry.free.fullAt }

  func place(of key: UInt64) -> Int? {
    for index in places(of: key) where entries[index].key == key { return index }
    return nil
  }

  subscript(place place: Int) -> Entry {
    get { entries[place] }
    _modify { yield &entries[place] }
  }

  /// Stores an entry. In a full table it replaces the one in its set that goes first.
  mutating func set(_ entry: Entry, now: Int64) {
    var place = place(for: entry.key)
    while entries[place].key != entry.key, entries[place].fullAt > now, entries.count < maximum {
      grow(now: now)
      place = self.place(for: entry.key)
    }
    entries[place] = entry
  }

  /// Returns the place of the key or, if it is absent, the place in its set to evict first.
  private func place(for key: UInt64) -> Int {
    let places = places(of: key)
    var best = places.lowerBound
    for index in places {
      if entries[index].key == key { return index }
      if entries[index].fullAt < entries[best].fullAt { best = index }
    }
    return best
  }

  private func places(of key: UInt64) -> Range<Int> {
    let sets = UInt64(entries.count / Self.ways)
    let first = Int(key & (sets - 1)) * Self.ways
    return first..<first + Self.ways
  }

  /// Doubles the table. Every set splits into two, so all buckets in use fit.
  private mutating func grow(now: Int64) {
    let old = entries
    entries = Array(repeating: Entry.free, count: old.count * 2)
    for entry in old where entry.fullAt > now { entries[place(for: entry.key)] = entry }
  }
}

/// The credentials that were valid lately.
///
/// An address with many failed attempts has to wait before the server judges another credential of it. A caller who
/// shares the address, and whose credential was valid before, does not have to wait. The memory grants nothing: the
/// server judges a remembered credential like any other. So it needs 64 bits of each, and never the credential.
public final class RecentCredentials: Sendable {
  struct Entry: BucketTableEntry {
    let key: UInt64
    let fullAt: Int64

    static let free = Entry(key: 0, fullAt: .min)
  }

  private let table: Locked<BucketTable<Entry>>

  init(maximum: Int = RateLimits.validCredentials) { table = Locked(BucketTable(maximum: maximum)) }

  /// Remembers a credential that was valid at `now`, in nanoseconds of the monotonic clock.
  public func remember(_ credential: ArraySlice<UInt8>, now: UInt64) {
    let (key, now) = (Self.key(credential), TokenBucket.moment(now))
    table.withLock { $0.set(Entry(key: key, fullAt: now + RateLimits.memoryOfCredentials), now: now) }
  }

  /// Returns whether the credential was valid within the hour before `now`.
  public func remembers(_ credential: ArraySlice<UInt8>, now: UInt64) -> Bool {
    let key = Self.key(credential)
    return table.withLock { $0[key] } > TokenBucket.moment(now)
  }

  private static func key(_ credential: ArraySlice<UInt8>) -> UInt64 {
    Hasher.hash { hasher in unsafe credential.withUnsafeBytes { unsafe hasher.combine(bytes: $0) } }
  }
}
