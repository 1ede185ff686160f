import Memory
import TestSupport
import Testing

@Suite("A memory budget")
struct MemoryBudgetTests {
  /// Ten times this is more than a small charge.
  private static let unit = 10_000
  private static let greedy: MemoryBudget.Holder = 1
  private static let modest: MemoryBudget.Holder = 2

  @Test("grants charges up to its limit and grants released bytes again")
  func bound() {
    let budget = MemoryBudget(limit: 800 * Self.unit)
    #expect(budget.charge(700 * Self.unit, to: nil, for: .response))
    #expect(!budget.charge(10 * Self.unit, to: nil, for: .response))
    #expect(budget.used == 700 * Self.unit)
    budget.release(300 * Self.unit, of: nil)
    #expect(budget.charge(300 * Self.unit, to: nil, for: .response))
    #expect(budget.refusals(for: .response) == 1)
  }

  @Test("refuses the largest holder first")
  func greediest() {
    let budget = MemoryBudget(limit: 8000 * Self.unit)
    while budget.charge(10 * Self.unit, to: Self.greedy, for: .request) {}
    // Two thirds of the memory that is not reserved.
    #expect((4600...4670).contains(budget.held(by: Self.greedy) / Self.unit))
    #expect(budget.charge(1000 * Self.unit, to: Self.modest, for: .request))
    #expect(!budget.charge(10 * Self.unit, to: Self.greedy, for: .response))
  }

  @Test("keeps a reserve for small holders and refuses the reserve to a large holder")
  func reserve() {
    let budget = MemoryBudget(limit: 8000 * Self.unit)
    while budget.charge(10 * Self.unit, to: Self.greedy, for: .request) {}
    budget.force(7000 * Self.unit - budget.used, to: nil)
    #expect(!budget.charge(100 * Self.unit, to: Self.modest, for: .request))
    #expect(budget.charge(10 * Self.unit, to: Self.modest, for: .connection))
    #expect(budget.charge(10 * Self.unit, to: nil, for: .connection))
    #expect(!budget.charge(1000, to: nil, for: .upstream))
    #expect(budget.charge(1000, to: Self.modest, for: .request))
    #expect(!budget.charge(1000, to: Self.greedy, for: .request))
    #expect(!budget.charge(1000, to: Self.greedy, for: .connection))
    budget.force(1000 * Self.unit, to: nil)
    #expect(!budget.charge(1000, to: Self.modest, for: .connection))
  }

  @Test("serves a small holder beside up to a hundred large holders", arguments: [1, 4, 6, 20, 100])
  func manyGreedy(_ count: Int) {
    let budget = MemoryBudget(limit: 64 << 20)
    // Random charges for connections and waiting callers, until every large holder is refused.
    var random = SplitMix(seed: UInt64(count))
    var refusals = 0
    while refusals < 20 * count {
      let holder = MemoryBudget.Holder(random.next() % UInt64(count) + 10)
      let (bytes, purpose): (Int, MemoryBudget.Purpose) =
        random.next() % 4 == 0 ? (4096, .connection) : (24_000, .waiting)
      refusals = budget.charge(bytes, to: holder, for: purpose) ? 0 : refusals + 1
    }
    #expect(budget.used > budget.limit / 2)
    // The size of a few TLS handshakes.
    for _ in 0..<4 { #expect(budget.charge(49_152, to: Self.modest, for: .connection)) }
  }

  @Test("charges a shared array once, until its last holder releases the array")
  func shared() {
    let budget = MemoryBudget(limit: 80_000)
    let array = [UInt8](repeating: 1, count: 30_000)
    for _ in 0..<100 { #expect(budget.charge(shared: array, to: Self.greedy)) }
    #expect(budget.used == 30_000)
    for _ in 0..<99 { budget.release(shared: array) }
    #expect(budget.used == 30_000)
    budget.release(shared: array)
    #expect(budget.used == 0)
    #expect(budget.held(by: Self.greedy) == 0)
    #expect(!budget.charge(shared: [UInt8](repeating: 1, count: 70_001), to: Self.greedy))
  }

  @Test("regains the bytes of a hold when the hold is released")
  func hold() {
    let budget = MemoryBudget(limit: 8000)
    do {
      let hold = MemoryHold(budget, for: Self.modest)
      #expect(hold.resize(to: 2000, for: .request))
      #expect(hold.resize(to: 500, for: .request))
      #expect(!hold.resize(to: 8000, for: .request))
      #expect(hold.bytes == 500)
      #expect(budget.used == 500)
      hold.force(to: 9000)
      #expect(budget.used == 9000)
    }
    #expect(budget.used == 0)
  }

  @Test("reports each fall of its use by a quarter of the peak once")
  func fall() {
    nonisolated(unsafe) var falls = 0
    let budget = MemoryBudget(limit: 1 << 30) { unsafe falls += 1 }
    for _ in 0..<3 {
      #expect(budget.charge(100 << 20, to: nil, for: .response))
      for _ in 0..<100 { budget.release(1 << 20, of: nil) }
    }
    // From 100 MB, falls are reported at 75, 56, 42, 31, 23, 17, 12, 8, 4 and 0 MB. A fall of less than 4 MB does not count.
    #expect(unsafe falls == 30)
    #expect(budget.charge(1 << 20, to: nil, for: .response))
    budget.release(1 << 20, of: nil)
    #expect(unsafe falls == 30)
  }
}
