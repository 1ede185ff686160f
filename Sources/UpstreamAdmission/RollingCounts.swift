/// The numbers of events in slots of time, of which only the newest are kept. Slots are numbered from 0.
package struct RollingCounts: Sendable {
  private var counts: [Int32]
  private(set) var newest = 0

  package init(slots: Int) {
    counts = [Int32](repeating: 0, count: slots)
  }

  var kept: ClosedRange<Int> { max(newest - counts.count + 1, 0)...newest }

  subscript(slot: Int) -> Int { kept.contains(slot) ? Int(counts[slot % counts.count]) : 0 }

  /// Changes the number of a slot. A later one than the newest replaces the oldest ones; one that is not kept any more stays
  /// forgotten.
  package mutating func add(_ change: Int32 = 1, in slot: Int) {
    if slot > newest {
      for stale in max(newest + 1, slot - counts.count + 1)...slot { counts[stale % counts.count] = 0 }
      newest = slot
    }
    if kept.contains(slot) { counts[slot % counts.count] &+= change }
  }

  package func sum(from first: Int, through last: Int) -> Int {
    var sum = 0
    for slot in stride(from: max(first, kept.lowerBound), through: min(last, newest), by: 1) {
      sum += Int(counts[slot % counts.count])
    }
    return sum
  }
}
