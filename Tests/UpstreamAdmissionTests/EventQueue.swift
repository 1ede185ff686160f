/// The events of a simulation, in order of time. Events of one moment keep their order.
struct EventQueue<Event> {
  private var heap: [(time: Double, serial: Int, event: Event)] = []
  private var serial = 0

  mutating func push(_ time: Double, _ event: Event) {
    serial += 1
    heap.append((time, serial, event))
    var i = heap.count - 1
    while i > 0, less(i, (i - 1) / 2) {
      heap.swapAt(i, (i - 1) / 2)
      i = (i - 1) / 2
    }
  }

  private func less(_ a: Int, _ b: Int) -> Bool {
    (heap[a].time, heap[a].serial) < (heap[b].time, heap[b].serial)
  }

  mutating func pop() -> (time: Double, event: Event)? {
    guard !heap.isEmpty else { return nil }
    heap.swapAt(0, heap.count - 1)
    let entry = heap.removeLast()
    var i = 0
    while true {
      var child = 2 * i + 1
      guard child < heap.count else { break }
      if child + 1 < heap.count, less(child + 1, child) { child += 1 }
      guard less(child, i) else { break }
      heap.swapAt(i, child)
      i = child
    }
    return (entry.time, entry.event)
  }
}
