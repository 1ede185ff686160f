import DequeModule
import UpstreamAdmission

/// A queue of deadlines: of waits for a turn, and of turns that a slow reader holds.
///
/// Nearly all items end long before their deadline, without a word to the queue. So it looks for ended ones whenever it
/// has grown to twice the items that were open at its last look, which costs each insertion a constant part of a look.
struct DeadlineQueue {
  enum Item {
    case wait(QueueTicket)
    case turn(CatalogAttempt)

    func isOpen(in limit: borrowing CatalogLimit) -> Bool {
      switch self {
      case .wait(let ticket): limit.isWaiting(ticket)
      case .turn(let attempt): !attempt.isOver
      }
    }
  }

  private var entries: Deque<(end: Duration, item: Item)> = []
  /// The number of entries at which the queue looks for ended items.
  private var full = Self.few
  /// Whether a task watches for the next deadline.
  var isWatched = false

  /// The number of entries that are not worth a look.
  static let few = 64

  /// The number of items that the queue keeps, with those that have ended.
  var count: Int { entries.count }

  /// Adds an item. Nearly all items have the same time left, so the new one belongs at the end or close to it.
  ///
  /// - Parameter isOpen: Whether an item has not ended. The queue forgets the others.
  mutating func insert(_ item: Item, until end: Duration, isOpen: (Item) -> Bool) {
    if entries.count >= full {
      // In memory of its own: that of a burst must not stay.
      entries = Deque(entries.filter { isOpen($0.item) })
      full = max(Self.few, 2 * entries.count)
    }
    var index = entries.count
    while index > 0, entries[index - 1].end > end { index -= 1 }
    entries.insert((end, item), at: index)
  }

  mutating func removeExpired(now: Duration) -> [Item] {
    let expired = entries.prefix { $0.end <= now }.map(\.item)
    entries.removeFirst(expired.count)
    return expired
  }

  /// The deadline of the next item, or nil if there are no items.
  var next: Duration? { entries.first?.end }
}
