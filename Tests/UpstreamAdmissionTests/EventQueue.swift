import HeapModule

/// The events of a simulation, in order of time. Events of one moment keep their order.
struct EventQueue<Event> {
  private var moments = Heap<Moment>()
  /// All events that were ever added; nil for those of the past.
  private var events: [Event?] = []

  mutating func push(_ time: Double, _ event: Event) {
    moments.insert(Moment(time: time, index: events.count))
    events.append(event)
  }

  mutating func pop() -> (time: Double, event: Event)? {
    guard let moment = moments.popMin(), let event = events[moment.index] else { return nil }
    events[moment.index] = nil
    return (moment.time, event)
  }
}

/// When an event occurs. It is not generic, so that the compiler specialises the heap for it.
private struct Moment: Comparable {
  let time: Double
  let index: Int

  static func < (a: Moment, b: Moment) -> Bool { (a.time, a.index) < (b.time, b.index) }
}
