/// What has to end at its moment, whatever happens: waits for a turn, and turns that a slow reader holds.
struct DeadlineQueue {
  enum Item {
    case wait(QueueTicket)
    case turn(HeldPermit)
  }

  private var entries: [(end: Duration, item: Item)] = []
  private var first = 0
  /// Whether a task or timer watches for the next end.
  var isWatched = false

  /// Takes one in. Nearly all have the same time left, so that it belongs at the end, or near it.
  mutating func insert(_ item: Item, until end: Duration) {
    if first > 64, first > entries.count / 2 {
      entries.removeFirst(first)
      first = 0
    }
    var index = entries.count
    while index > first, entries[index - 1].end > end { index -= 1 }
    entries.insert((end, item), at: index)
  }

  /// Takes out those whose time is up.
  mutating func removeExpired(now: Duration) -> [Item] {
    var items: [Item] = []
    while first < entries.count, entries[first].end <= now {
      items.append(entries[first].item)
      first += 1
    }
    return items
  }

  /// When the next item ends; nil if there are no items.
  var next: Duration? { first < entries.count ? entries[first].end : nil }
}
