public import Bytes

/// Many first-in-first-out queues in one store, each element of which can be taken out of the middle: everything in
/// constant time, and nothing allocated for a queue.
struct TicketQueues<Element: Sendable>: Sendable {
  /// One queue. Means something only together with the store that its elements are in.
  struct Queue: Sendable {
    fileprivate var first: Int?
    fileprivate var last: Int?
    fileprivate(set) var count = 0

    var isEmpty: Bool { count == 0 }
  }

  private struct Node: Sendable {
    let element: Element
    let serial: UInt64
    var previous: Int?
    var next: Int?
  }

  private var nodes: [Node?] = []
  private var free: [Int] = []
  private var serial: UInt64 = 0

  /// Elements in all queues.
  var count: Int { nodes.count - free.count }

  /// The element at the front of a queue.
  func first(of queue: Queue) -> Element? {
    queue.first.flatMap { nodes[$0]?.element }
  }

  /// The element that a ticket names, if it still waits.
  func element(_ ticket: QueueTicket) -> Element? {
    guard ticket.index < nodes.count, let node = nodes[ticket.index], node.serial == ticket.serial else { return nil }
    return node.element
  }

  mutating func append(_ element: Element, to queue: inout Queue) -> QueueTicket {
    let ticket = store(element, previous: queue.last, next: nil)
    if let last = queue.last { nodes[last]?.next = ticket.index } else { queue.first = ticket.index }
    queue.last = ticket.index
    queue.count += 1
    return ticket
  }

  mutating func prepend(_ element: Element, to queue: inout Queue) -> QueueTicket {
    let ticket = store(element, previous: nil, next: queue.first)
    if let first = queue.first { nodes[first]?.previous = ticket.index } else { queue.last = ticket.index }
    queue.first = ticket.index
    queue.count += 1
    return ticket
  }

  private mutating func store(_ element: Element, previous: Int?, next: Int?) -> QueueTicket {
    serial += 1
    let node = Node(element: element, serial: serial, previous: previous, next: next)
    guard let index = free.popLast() else {
      nodes.append(node)
      return QueueTicket(index: nodes.count - 1, serial: serial)
    }
    nodes[index] = node
    return QueueTicket(index: index, serial: serial)
  }

  mutating func popFirst(of queue: inout Queue) -> Element? {
    queue.first.flatMap { remove($0, from: &queue) }
  }

  /// Takes the element that a ticket names out of its queue; nil if it waits no more.
  mutating func remove(_ ticket: QueueTicket, from queue: inout Queue) -> Element? {
    element(ticket) == nil ? nil : remove(ticket.index, from: &queue)
  }

  private mutating func remove(_ index: Int, from queue: inout Queue) -> Element? {
    guard let node = nodes[index] else { return nil }
    if let previous = node.previous { nodes[previous]?.next = node.next } else { queue.first = node.next }
    if let next = node.next { nodes[next]?.previous = node.previous } else { queue.last = node.previous }
    nodes[index] = nil
    free.append(index)
    queue.count -= 1
    return node.element
  }
}

/// Names one that waits for its turn; never used again for another.
public struct QueueTicket: Sendable, Hashable {
  let index: Int
  let serial: UInt64
}

/// One of a client's callers, for sharing the quota fairly. Two are equal if client and rateLimitPrefix are.
public struct QuotaCaller: Sendable {
  /// The client, by the name that the operator gave it.
  public let client: String
  /// The most of the limit that the client may have under way, above 0 to 1, at least one request; nil if it is the only
  /// client there is, for whose others nothing need be held back.
  public let share: Double?
  /// Which of the client's callers: an address, or the user whom a token names.
  public let rateLimitPrefix: ByteString

  /// What a client may have where the operator says nothing and there are others: seven eighths.
  public static let usualShare = 0.875

  /// A caller.
  public init(client: String, share: Double? = nil, rateLimitPrefix: ByteString) {
    self.client = client
    self.share = share
    self.rateLimitPrefix = rateLimitPrefix
  }
}

extension QuotaCaller: Hashable {
  /// Whether it is the same caller of the same client.
  public static func == (left: QuotaCaller, right: QuotaCaller) -> Bool {
    left.rateLimitPrefix == right.rateLimitPrefix && left.client == right.client
  }

  /// Feeds both names.
  public func hash(into hasher: inout Hasher) {
    hasher.combine(client)
    hasher.combine(rateLimitPrefix)
  }
}
