import EventLoop
import Memory

/// The connections whose TLS handshake waits for its turn, in a line for each address.
///
/// A handshake costs as much processor time as fifty requests, and any client can cause one. So handshakes wait until
/// the requests of a turn are done. The addresses take turns, so an address with many connections delays only its own.
/// A connection that waits too long in a line that does not get shorter is refused: that costs nearly nothing before the
/// handshake. So is one that waits too long because there are too many lines.
struct HandshakeQueue<Element> {
  /// Connections of one address, in order of arrival.
  private struct Line {
    var waiting = FIFO<(element: Element, since: Deadline)>()
    var lateness = Lateness()
    /// Whether the last connection that left the line was refused.
    var isRefusing = false
  }

  private var lines: [Holder?: Line] = [:]
  /// The addresses with a line, in order of their next turn: those that have not had one yet, and all others. The two
  /// alternate, so that an address with few connections need not wait for all those with many (RFC 8290 §4.2).
  private var turns = (new: FIFO<Holder?>(), old: FIFO<Holder?>())
  private var prefersNew = true
  private var lateness = Lateness()

  /// The bits of an IPv6 address or network.
  typealias Holder = MemoryBudget.Holder

  var isEmpty: Bool { lines.isEmpty }

  /// Returns whether the line of `address` is so long at present that a new connection has no prospect.
  func refuses(_ address: Holder?) -> Bool { lines[address]?.isRefusing ?? false }

  /// Adds a connection at the end of the line of `address`, which is nil for all trusted proxies.
  mutating func add(_ element: Element, of address: Holder?, at now: Deadline) {
    if lines[address] == nil { turns.new.append(address) }
    lines[address, default: Line()].waiting.append((element, now))
  }

  /// Removes the next connection. Returns it, and whether to do its handshake; nil if none waits.
  mutating func next(at now: Deadline, limits: ServerLimits) -> (element: Element, isTimely: Bool)? {
    guard let address = nextAddress(), let (element, since) = lines[address]?.waiting.popFirst() else { return nil }
    let delay = now.duration(since: since)
    let isTimelyForAll = lateness.admits(delay, at: now, limits: limits)
    let isTimelyInLine = lines[address]?.lateness.admits(delay, at: now, limits: limits) ?? true
    let isTimely = isTimelyInLine && isTimelyForAll
    lines[address]?.isRefusing = !isTimely
    if lines[address]?.waiting.isEmpty ?? true {
      lines[address] = nil
    } else {
      turns.old.append(address)
    }
    return (element, isTimely)
  }

  private mutating func nextAddress() -> Holder?? {
    prefersNew.toggle()
    return prefersNew ? turns.new.popFirst() ?? turns.old.popFirst() : turns.old.popFirst() ?? turns.new.popFirst()
  }
}

/// A queue in an array, whose front moves up when half of it is empty.
private struct FIFO<Element> {
  private var elements: [Element?] = []
  private var front = 0

  var isEmpty: Bool { front == elements.count }

  mutating func append(_ element: Element) {
    elements.append(element)
  }

  mutating func popFirst() -> Element? {
    guard front < elements.count else { return nil }
    defer {
      elements[front] = nil
      front += 1
      if front * 2 >= elements.count {
        elements.removeFirst(front)
        front = 0
      }
    }
    return elements[front]
  }
}
