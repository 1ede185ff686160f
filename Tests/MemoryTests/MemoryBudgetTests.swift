import Memory
import TestSupport
import Testing

@Suite("A memory budget")
struct MemoryBudgetTests {
  /// More than a small charge, ten times.
  private static let unit = 10_000
  private static let greedy: MemoryBudget.Holder = 1
  private static let modest: MemoryBudget.Holder = 2

  @Test("grants until it is used up, and again what was released")
  func bound() {
    let budget = MemoryBudget(limit: 800 * Self.unit)
    #expect(budget.charge(700 * Self.unit, to: nil, for: .response))
    #expect(!budget.charge(10 * Self.unit, to: nil, for: .response))
    #expect(budget.used == 700 * Self.unit)
    budget.release(300 * Self.unit, of: nil)
    #expect(budget.charge(300 * Self.unit, to: nil, for: .response))
    #expect(budget.refusals(for: .response) == 1)
  }

  @Test("refuses the holder of most of it first")
  func greediest() {
    let budget = MemoryBudget(limit: 8000 * Self.unit)
    while budget.charge(10 * Self.unit, to: Self.greedy, for: .request) {}
    // Two thirds of what is not reserved.
    #expect((4600...4670).contains(budget.held(by: Self.greedy) / Self.unit))
    #expect(budget.charge(1000 * Self.unit, to: Self.modest, for: .request))
    #expect(!budget.charge(10 * Self.unit, to: Self.greedy, for: .response))
  }

  @Test("keeps a reserve for those who hold little, which the greedy do not get")
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

  @Test("serves one who holds little beside a hundred greedy ones", arguments: [1, 4, 6, 20, 100])
  func manyGreedy(_ count: Int) {
    let budget = MemoryBudget(limit: 64 << 20)
    // In any order, with connections and waiting callers, until all of them are refused.
    var random = SplitMix(seed: UInt64(count))
    var refusals = 0
    while refusals < 20 * count {
      let holder = MemoryBudget.Holder(random.next() % UInt64(count) + 10)
      let (bytes, purpose): (Int, MemoryBudget.Purpose) =
        random.next() % 4 == 0 ? (4096, .connection) : (24_000, .waiting)
      refusals = budget.charge(bytes, to: holder, for: purpose) ? 0 : refusals + 1
    }
    #expect(budget.used > budget.limit / 2)
    // A few TLS handshakes.
    for _ in 0..<4 { #expect(budget.charge(49_152, to: Self.modest, for: .connection)) }
  }

  @Test("charges an array that several hold once, until the last has released it")
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

  @Test("gets back what an owner held when the owner goes")
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

  @Test("tells when its use has fallen below half of the peak, once for each fall")
  func fall() {
    nonisolated(unsafe) var falls = 0
    let budget = MemoryBudget(limit: 1 << 30) { unsafe falls += 1 }
    for _ in 0..<3 {
      #expect(budget.charge(100 << 20, to: nil, for: .response))
      for _ in 0..<100 { budget.release(1 << 20, of: nil) }
    }
    // From 100 MB at 50, 25, 12 and 4 MB; below that a fall is too small to count.
    #expect(unsafe falls == 12)
    #expect(budget.charge(1 << 20, to: nil, for: .response))
    budget.release(1 << 20, of: nil)
    #expect(unsafe falls == 12)
  }
}
