/// A first-in, first-out list. Any element may leave early, at the same small cost.
struct WaitingList<Element> {
  /// A place in the list.
  struct Ticket: Sendable { fileprivate let number: UInt64 }

  private var elements: [UInt64: Element] = [:]
  private var first: UInt64 = 0
  private var next: UInt64 = 0

  var count: Int { elements.count }
  var isEmpty: Bool { elements.isEmpty }

  /// Lines up behind all others.
  mutating func append(_ element: Element) -> Ticket {
    defer { next += 1 }
    elements[next] = element
    return Ticket(number: next)
  }

  /// The one that has waited longest.
  var oldest: Element? {
    mutating get {
      while first < next {
        if let element = elements[first] { return element }
        first += 1
      }
      return nil
    }
  }

  /// Takes out the one that has waited longest.
  mutating func popFirst() -> Element? {
    while first < next {
      defer { first += 1 }
      if let element = elements.removeValue(forKey: first) { return element }
    }
    return nil
  }

  /// Removes the element of `ticket`, if it is still in the list.
  mutating func remove(_ ticket: Ticket) {
    elements[ticket.number] = nil
  }
}
