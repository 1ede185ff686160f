public import Bytes

/// Many first-in, first-out queues in one store. Any element can be removed from the middle. All operations take
/// constant time, and a queue allocates no memory of its own.
struct TicketQueues<Element: Sendable>: Sendable {
  /// One queue. Valid only together with the store that has its elements.
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

  /// The number of elements in all queues.
  var count: Int { nodes.count - free.count }

  /// Returns the element of a ticket, or nil if it has left its queue.
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

  /// Removes the element of a ticket from its queue, and returns it. Returns nil if it has already left the queue.
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

/// The identity of a queued element. A ticket is never reused for another element.
public struct QueueTicket: Sendable, Hashable {
  let index: Int
  let serial: UInt64
}

/// A caller of a client, for fair sharing of the quota. Equality compares `client` and `identity` only.
public struct QuotaCaller: Sendable {
  /// The name of the client in the operator's configuration.
  public let client: String
  /// The client's largest part of the limit, above 0 to 1, but at least one request. Nil for the only client, because
  /// no part is reserved for other clients then.
  public let share: Double?
  /// The identity of the caller within its client: an address, or the user that a token names.
  public let identity: ByteString

  /// The default share of a client if there are other clients: seven eighths.
  public static let usualShare = 0.875

  /// Creates a caller.
  public init(client: String, share: Double? = nil, identity: ByteString) {
    (self.client, self.share, self.identity) = (client, share, identity)
  }
}

extension QuotaCaller: Hashable {
  /// Returns whether both are the same caller of the same client.
  public static func == (left: QuotaCaller, right: QuotaCaller) -> Bool {
    left.identity == right.identity && left.client == right.client
  }

  /// Feeds the client and the caller.
  public func hash(into hasher: inout Hasher) {
    hasher.combine(client)
    hasher.combine(identity)
  }
}
