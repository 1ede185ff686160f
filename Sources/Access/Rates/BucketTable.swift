/// Buckets that are not full, by their keys: small while there are few, and never larger than it was told.
///
/// An entry whose bucket is full again holds no information, so it is free. The table is set-associative: a key has one
/// set of eight places, two cache lines. When all eight are in use the table doubles. When it may not grow any more,
/// the server drops the bucket that would be full first. That caller gets some tokens early; it could get the same by
/// coming from another address. The server never refuses a request because the table is full.
struct BucketTable {
  private struct Entry {
    var key: UInt64
    var fullAt: Int64
  }

  private static let ways = 8
  private static let free = Entry(key: 0, fullAt: .min)

  private var entries: [Entry]
  private let maximum: Int

  /// A table of at most `maximum` entries, a power of two and at least 128.
  init(maximum: Int) {
    self.maximum = maximum
    entries = Array(repeating: Self.free, count: min(128, maximum))
  }

  /// How many entries it has room for now.
  var capacity: Int { entries.count }

  /// The memory that it takes.
  var bytes: Int { entries.count * MemoryLayout<Entry>.stride }

  /// When the bucket is full; long ago if it is not here.
  subscript(key: BucketKey) -> Int64 {
    for index in places(of: key.bits) where entries[index].key == key.bits { return entries[index].fullAt }
    return Self.free.fullAt
  }

  /// Remembers when a bucket is full.
  mutating func set(_ key: BucketKey, fullAt: Int64, now: Int64) {
    let entry = Entry(key: key.bits, fullAt: fullAt)
    var place = place(for: key.bits)
    while entries[place].key != key.bits, entries[place].fullAt > now, entries.count < maximum {
      grow(now: now)
      place = self.place(for: key.bits)
    }
    entries[place] = entry
  }

  /// Where the key is, or else the place in its set that is to be had first.
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

  /// Doubles. Every set falls into two, so all that is in use finds room.
  private mutating func grow(now: Int64) {
    let old = entries
    entries = Array(repeating: Self.free, count: old.count * 2)
    for entry in old where entry.fullAt > now { entries[place(for: entry.key)] = entry }
  }
}
