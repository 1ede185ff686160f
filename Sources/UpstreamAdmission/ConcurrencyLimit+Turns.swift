public import Bytes

// The order of turns, the wait for one, and what a turn gives.
extension ConcurrencyLimit {
  /// Whether a client is below its limit of requests in flight, and the pacer allows its next request.
  func mayGo(_ client: Client) -> Bool {
    client.inFlight < adaptive.most(of: client.share) && (!isPaced || client.opening <= now)
  }

  /// Whether a caller is below its limit in flight: seven eighths of its client's limit.
  func mayGo(_ caller: Caller, of client: Client) -> Bool {
    caller.inFlight < AdaptiveLimit.lessAnEighth(of: adaptive.most(of: client.share))
  }

  /// Gives a turn to a caller with queued requests, and to its client, if their limits allow it: whenever a request of the
  /// caller arrives or ends. A caller at its limit has a request in flight, so another call will follow.
  mutating func line(up name: QuotaCaller, _ caller: inout Caller, _ client: inout Client, in slot: Int) {
    if caller.turn == nil, !caller.queue.isEmpty, mayGo(caller, of: client) {
      caller.turn = callerTurns.append(name, to: &client.order)
    }
    line(up: slot, &client)
  }

  private mutating func line(up slot: Int, _ client: inout Client) {
    guard client.turn == nil, !client.order.isEmpty else { return }
    guard mayGo(client) else {
      if client.opening > now, !client.isHeld {
        client.isHeld = true
        held.append(slot)
      }
      return
    }
    // A client that was not served in this round goes to the front.
    let isFirst = isPaced && client.rested <= now
    client.turn = isFirst ? clientTurns.prepend(slot, to: &order) : clientTurns.append(slot, to: &order)
  }

  /// Gives a turn to held clients whose rate share allows a request again.
  mutating func lineUpHeld() {
    guard !held.isEmpty else { return }
    let slots = held
    held.removeAll(keepingCapacity: true)
    for slot in slots {
      var client = clients[slot]
      client.isHeld = false
      line(up: slot, &client)
      clients[slot] = client
    }
  }

  /// Removes the turn of a caller without queued requests, and of its client if the client has no other caller queued.
  mutating func leave(_ caller: inout Caller, _ client: inout Client) {
    if let turn = caller.turn { _ = callerTurns.remove(turn, from: &client.order) }
    caller.turn = nil
    guard client.order.isEmpty, let turn = client.turn else { return }
    _ = clientTurns.remove(turn, from: &order)
    client.turn = nil
  }

  /// Serves the next client in the round. The loop ends, because a client at its limit leaves the round.
  mutating func next() -> Grant? {
    while let slot = clientTurns.popFirst(of: &order) {
      var client = clients[slot]
      client.turn = nil
      let grant = mayGo(client) ? serve(&client, in: slot) : nil
      line(up: slot, &client)
      clients[slot] = client
      if let grant { return grant }
    }
    return nil
  }

  /// Serves the next caller of a client.
  private mutating func serve(_ client: inout Client, in slot: Int) -> Grant? {
    while let name = callerTurns.popFirst(of: &client.order), var caller = known[name] {
      caller.turn = nil
      var grant: Grant?
      if mayGo(caller, of: client), let waiting = queues.popFirst(of: &caller.queue) {
        client.left()
        let permit = begin(name, &caller, &client, in: slot, hasWaited: true)
        grant = Grant(permit: permit, waiter: waiting.waiter, number: waiting.number)
      }
      if !caller.queue.isEmpty, mayGo(caller, of: client) {
        caller.turn = callerTurns.append(name, to: &client.order)
      }
      known[name] = caller
      if let grant { return grant }
    }
    return nil
  }
}

// The decision whether a request can wait, and for how long.
extension ConcurrencyLimit {
  /// Returns when to retry, or nil if the request can wait for its turn.
  func delay(of request: Request, _ caller: Caller, _ client: Client) -> Duration? {
    let wait = wait(request.isRetry ? Caller() : caller, client)
    if !request.isRetry, !hasRoom(caller, of: client) || !request.isRepeated && isLate(wait, request, caller, client) {
      return max(limits.retryAfter, wait ?? .zero)
    }
    guard let wait, wait > request.patience else { return nil }
    return wait
  }

  /// Whether there are too many requests of this client, and one of this caller with this wait is not sent soon. A known
  /// rate is no overload: the pacer uses all of it only if requests wait. A caller of which none waits is not the one that
  /// sends too many, so its request may wait as long as a burst.
  private func isLate(_ wait: Duration?, _ request: Request, _ caller: Caller, _ client: Client) -> Bool {
    let ofBurst = limits.burst - request.waited
    let late = caller.queue.isEmpty ? ofBurst : limits.late
    guard let wait, wait > late, !isPaced, let since = client.waitingSince else { return false }
    let burst = limits.burst.inSeconds
    return (wait > ofBurst || now - since > burst || now - client.lastRefusal <= burst)
      && client.waiting >= max(adaptive.most(of: client.share) / 8, 1)
  }

  private func hasRoom(_ caller: Caller, of client: Client) -> Bool {
    let room = limits.waiting - queues.count
    return caller.queue.count < limits.waitingOfCaller * room
      && (client.share == nil || client.waiting < limits.waitingOfClient * room)
  }

  /// Returns the approximate wait of a caller's next request if all queued requests stay. Nil before a request has ended,
  /// unless the rate is known. Ahead of it are the queued requests of its caller, as many of each other caller of the
  /// client, and for each other client as many as for this client; never more than there are requests, because a request
  /// may have several places.
  private func wait(_ caller: Caller, _ client: Client) -> Duration? {
    let own = caller.queue.count + 1
    let ofClient = min(own * max(client.order.count, 1), client.waiting + 1, waiting + 1)
    let clients = order.count + held.count + (client.turn == nil && !client.isHeld ? 1 : 0)
    let all = min(ofClient * max(clients, 1), waiting + 1)
    guard isPaced, pacing.rate != nil else {
      let wait = waitForOthers(all, ofClient: ofClient, own: own, client)
      // The first 429 of a group may pause it before it knows a rate.
      guard pacing.isPaused(now: now), let opening = pacing.opening else { return wait }
      return max(wait ?? .zero, Duration(inSeconds: opening - now))
    }
    let opening = max(pacing.opening ?? now, now)
    let before = pacing.opensWithTurn ? 1.0 : 0
    var turn = opening + (Double(all) - before) / pacing.expectedPace
    if let share = client.shareOfRate {
      let ofShare = (Double(ofClient) - before) / (pacing.pace(ofClient: client.name) * share)
      turn = max(turn, max(opening, client.opening) + ofShare)
    }
    return Duration(inSeconds: turn - now)
  }

  /// Returns the wait until so many requests have ended, of which a client and a caller can only replace their own.
  private func waitForOthers(_ all: Int, ofClient: Int, own: Int, _ client: Client) -> Duration? {
    guard let timeInFlight = timeInFlight.mean else { return nil }
    let most = adaptive.most(of: client.share)
    let ownTime = client.timeInFlight.mean ?? timeInFlight
    let wait = max(
      (Double(ofClient) * ownTime + Double(all - ofClient) * timeInFlight) / Double(adaptive.value),
      Double(ofClient) * ownTime / Double(most), Double(own) * ownTime / Double(AdaptiveLimit.lessAnEighth(of: most)))
    return Duration(inSeconds: wait)
  }
}

// Requests that several callers wait for.
extension ConcurrencyLimit {
  /// Gives a queued request another place, in the queue of a caller that waits for the same request. The first turn takes
  /// it, its caller pays, and the other places are removed. So no caller waits longer than it would alone because another
  /// one, whose turns are used up, was the first to send the request.
  ///
  /// A caller has one place for a request, and none if its own request would be refused now. All places count as one queued
  /// request, except for the queue space, because each takes memory.
  ///
  /// - Parameter ticket: The ticket that `acquire` returned for the request.
  /// - Returns: The turn if the caller may send at once. Nil if the request waits, or if its turn has already come.
  public mutating func addPlace(for ticket: QueueTicket, of request: Request, now: Duration) -> Grant? {
    guard let first = queues.element(ticket), first.caller != request.caller,
      shared[first.number]?[request.caller] == nil
    else { return nil }
    var request = request
    request.queuedAs = first.number
    switch acquire(request, waiter: first.waiter, now: now) {
    case .refused: return nil
    case .queued(let place):
      shared[first.number, default: [first.caller: ticket]][request.caller] = place
      furtherPlaces += 1
      return nil
    case .granted(let permit):
      remove(ticket)
      removeOtherPlaces(of: first.number)
      return Grant(permit: permit, waiter: first.waiter, number: first.number)
    }
  }

  /// Removes the places of a request that has left the queue at one of them. The work is that of adding them.
  mutating func removeOtherPlaces(of number: UInt64) {
    guard !shared.isEmpty, let places = shared.removeValue(forKey: number) else { return }
    furtherPlaces -= places.count - 1
    for place in places.values { remove(place) }
  }
}

/// Many first-in, first-out queues in one store, with removal from the middle. All operations take constant time, and a
/// queue allocates no memory of its own.
struct TicketQueues<Element: Sendable>: Sendable {
  /// Valid only together with the store that has its elements.
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

  mutating func popFirst(of queue: inout Queue) -> Element? { queue.first.flatMap { remove($0, from: &queue) } }

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
  /// The client in the operator's settings.
  public let client: HashedText
  /// The client's largest part of the limit, above 0 to 1, but at least one request. Nil for the only client.
  public let share: Double?
  /// The identity of the caller within its client: an address, or the user that a token names.
  public let identity: ByteString

  /// The default share of a client if there are other clients: seven eighths.
  public static let usualShare = 0.875

  /// Creates a caller.
  public init(client: HashedText, share: Double? = nil, identity: ByteString) {
    (self.client, self.share, self.identity) = (client, share, identity)
  }
}

extension QuotaCaller: Hashable {
  /// Whether both are the same caller of the same client.
  public static func == (left: QuotaCaller, right: QuotaCaller) -> Bool {
    left.identity == right.identity && left.client == right.client
  }

  /// Feeds client and caller.
  public func hash(into hasher: inout Hasher) {
    hasher.combine(client)
    hasher.combine(identity)
  }
}

/// The right to have one request in flight, until ``ConcurrencyLimit/release(_:_:now:)``.
public final class ConcurrencyPermit: @unchecked Sendable {
  // Sendable: only the limit that has granted it changes it.

  /// The caller that pays for the turn.
  public let caller: QuotaCaller
  /// The slot of its client in the limit.
  let slot: Int
  /// The time at which the request was sent, in seconds.
  let sent: Double
  var isReleased = false

  init(_ caller: QuotaCaller, of slot: Int, sent: Double) { (self.caller, self.slot, self.sent) = (caller, slot, sent) }
}

/// The outcome of a request with a permit, with regard to the quota.
public enum ConcurrencyOutcome: Sendable, Equatable {
  /// Apple responded with a status other than 429.
  case answered
  /// Apple refused the request with 429 and this `Retry-After`, if any.
  case limited(retryAfter: Duration?)
  /// No response, a 5xx, or the request was given up. This is no evidence about the quota.
  case inconclusive
}

/// The part of the team's quota that one client has used since the start.
public struct ClientCounts: Sendable, Equatable {
  /// Requests of the client that were sent to the upstream, including retries.
  public var attempts = 0
  /// Responses with 429 to these requests.
  public var limited = 0

  /// Creates counts.
  public init(attempts: Int = 0, limited: Int = 0) { (self.attempts, self.limited) = (attempts, limited) }
}
