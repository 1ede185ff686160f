import TestSupport
import Testing

@testable import Access

@Suite("The table of buckets")
struct BucketTableTests {
  typealias Entry = RecentCredentials.Entry

  @Test("remembers every bucket that is not full while there is room")
  func remembers() {
    var random = SplitMix(seed: 1)
    var table = BucketTable<Entry>(maximum: 131_072)
    var model: [UInt64: Int64] = [:]
    for _ in 0..<20_000 {
      let key = UInt64.random(in: 0..<10_000, using: &random) &* 0x9e37_79b9_7f4a_7c15
      let fullAt = Int64.random(in: 1...1_000_000, using: &random)
      model[key] = fullAt
      table.set(Entry(key: key, fullAt: fullAt), now: 0)
    }
    #expect(model.allSatisfy { table[$0.key] == $0.value })
    #expect(table.capacity < 131_072)
  }

  @Test("returns full buckets for unknown keys")
  func strangers() {
    var table = BucketTable<Entry>(maximum: 128)
    table.set(Entry(key: 1, fullAt: 5), now: 0)
    #expect(table[2] == .min)
    #expect(table[0] == .min)
  }

  @Test("does not grow for successive callers, because a full bucket is reused")
  func reuse() {
    var table = BucketTable<Entry>(maximum: 131_072)
    var random = SplitMix(seed: 2)
    for now in 0..<Int64(20_000) {
      table.set(Entry(key: random.next(), fullAt: now + 10), now: now)
    }
    #expect(table.capacity == 128)
  }

  @Test("never exceeds its maximum, and keeps the emptiest buckets")
  func bounded() {
    var table = BucketTable<Entry>(maximum: 4096)
    var random = SplitMix(seed: 3)
    let emptiest = (0..<100).map { _ in random.next() }
    for key in emptiest { table.set(Entry(key: key, fullAt: 1_000_000), now: 0) }
    for _ in 0..<100_000 {
      table.set(Entry(key: random.next(), fullAt: .random(in: 1..<1_000_000, using: &random)), now: 0)
    }
    #expect(table.capacity == 4096)
    #expect(table.bytes == 65_536)
    #expect(emptiest.allSatisfy { table[$0] == 1_000_000 })
  }

  @Test("keeps every bucket when it grows")
  func growth() {
    var table = BucketTable<Entry>(maximum: 131_072)
    // All of one set until there are 32 sets.
    let keys = (0..<64).map { UInt64($0 * 16) }
    for (index, key) in keys.enumerated() { table.set(Entry(key: key, fullAt: Int64(index + 1)), now: 0) }
    #expect(keys.indices.allSatisfy { table[keys[$0]] == Int64($0 + 1) })
    #expect(table.capacity == 1024)
  }
}
