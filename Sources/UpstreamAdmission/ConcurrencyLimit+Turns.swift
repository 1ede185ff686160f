// The order of turns.
extension ConcurrencyLimit {
  /// Returns whether a client is below its limit of requests in flight, and the pacer allows its next request.
  func mayGo(_ client: Client) -> Bool {
    client.inFlight < adaptive.most(of: client.share) && (!isPaced || client.opening <= now)
  }

  /// Returns whether a caller is below its limit in flight: seven eighths of its client's limit.
  func mayGo(_ caller: Caller, of client: Client) -> Bool {
    caller.inFlight < AdaptiveLimit.lessAnEighth(of: adaptive.most(of: client.share))
  }

  /// Gives a turn to a caller with queued requests, and to its client, if their limits allow it.
  ///
  /// The function is called whenever a request of the caller arrives or ends, because the limit may have changed since.
  /// A caller at its limit has a request in flight, so another call will follow.
  mutating func line(up name: QuotaCaller, _ caller: inout Caller, _ client: inout Client) {
    if caller.turn == nil, !caller.queue.isEmpty, mayGo(caller, of: client) {
      caller.turn = callerTurns.append(name, to: &client.order)
    }
    line(up: name.client, &client)
  }

  private mutating func line(up name: String, _ client: inout Client) {
    guard client.turn == nil, !client.order.isEmpty else { return }
    guard mayGo(client) else {
      if client.opening > now, !client.isHeld {
        client.isHeld = true
        held.append(name)
      }
      return
    }
    // A client that was not served in this round goes to the front.
    let isFirst = isPaced && client.rested <= now
    client.turn = isFirst ? clientTurns.prepend(name, to: &order) : clientTurns.append(name, to: &order)
  }

  /// Gives a turn to held clients whose rate share allows a request again.
  mutating func lineUpHeld() {
    guard !held.isEmpty else { return }
    let names = held
    held.removeAll(keepingCapacity: true)
    for name in names {
      guard var client = clients[name] else { continue }
      client.isHeld = false
      line(up: name, &client)
      clients[name] = client
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
    while let name = clientTurns.popFirst(of: &order), var client = clients[name] {
      client.turn = nil
      let grant = mayGo(client) ? serve(&client) : nil
      line(up: name, &client)
      clients[name] = client
      if let grant { return grant }
    }
    return nil
  }

  /// Serves the next caller of a client.
  private mutating func serve(_ client: inout Client) -> Grant? {
    while let name = callerTurns.popFirst(of: &client.order), var caller = known[name] {
      caller.turn = nil
      var grant: Grant?
      if mayGo(caller, of: client), let waiting = queues.popFirst(of: &caller.queue) {
        client.left()
        let permit = begin(name, &caller, &client, hasWaited: true)
        grant = Grant(permit: permit, waiter: waiting.waiter, caller: name, number: waiting.number)
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
    let wait = wait(request.isRetry ? Caller() : caller, client, named: request.caller.client)
    if !request.isRetry, !hasRoom(caller, of: client) || !request.isRepeated && isLate(wait, request, caller, client) {
      return max(limits.retryAfter, wait ?? .zero)
    }
    guard let wait, wait > request.patience else { return nil }
    return wait
  }

  /// Whether there are too many requests of this client, and one of this caller with this wait is not sent soon. A known
  /// rate is no overload: the pacer uses all of it only if requests wait.
  ///
  /// A caller of which none waits is not the one that sends too many, so its request may wait as long as a burst.
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
  /// unless the rate is known.
  ///
  /// Ahead of it are the queued requests of its caller, as many of each other caller of the client, and for each other
  /// client as many as for this client; never more than there are requests, because a request may have several places.
  private func wait(_ caller: Caller, _ client: Client, named name: String) -> Duration? {
    let own = caller.queue.count + 1
    let ofClient = min(own * max(client.order.count, 1), client.waiting + 1, waiting + 1)
    let clients = order.count + held.count + (client.turn == nil && !client.isHeld ? 1 : 0)
    let all = min(ofClient * max(clients, 1), waiting + 1)
    guard isPaced, pacing.rate != nil else { return waitForOthers(all, ofClient: ofClient, own: own, client) }
    let opening = max(pacing.opening ?? now, now)
    let before = pacing.opensWithTurn ? 1.0 : 0
    var turn = opening + (Double(all) - before) / pacing.expectedPace
    if let share = client.shareOfRate {
      let ofShare = (Double(ofClient) - before) / (pacing.pace(ofClient: name) * share)
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

extension ConcurrencyLimit.Client {
  /// The client's share of the rate. Nil for the whole rate. Requests in flight cannot be revoked, so an eighth of them
  /// is reserved for other clients. Turns of the pacer come one at a time, so they need no reserve.
  var shareOfRate: Double? { share.flatMap { $0 < QuotaCaller.usualShare ? max($0, 0.001) : nil } }
}

extension ConcurrencyLimit {
  /// The state of a caller that has a request in flight or queued.
  struct Caller: Sendable {
    var inFlight = 0
    /// Its place in the round of its client. It has one while one of its requests is queued and its limit allows that.
    var turn: QueueTicket?
    var queue = TicketQueues<WaitingRequest>.Queue()

    var isIdle: Bool { inFlight == 0 && queue.isEmpty }
  }

  /// The state of a client that has a request in flight or queued.
  struct Client: Sendable {
    var inFlight = 0
    /// Its place in the round. It has one while one of its requests is queued and its limits allow that.
    var turn: QueueTicket?
    var share: Double?
    /// When the pacer allows its next request, if its share also limits its rate.
    var opening = 0.0
    /// When a full round of requests, one for each client in it, has been sent since its last request.
    var rested = 0.0
    /// Whether the client waits for `opening`, outside of the round.
    var isHeld = false
    /// The number of queued requests.
    private(set) var waiting = 0
    /// Since when there has always been a queued request. Nil without one.
    private(set) var waitingSince: Double?
    /// When a request was refused because of those that wait.
    var lastRefusal = -Double.infinity
    /// The time in flight of its requests. Another client's may take much longer, for example if that one reads slowly.
    var timeInFlight = TimeInFlight()
    /// The callers of the client that have a turn, in order.
    var order = TicketQueues<QuotaCaller>.Queue()

    mutating func joined(now: Double) {
      if waiting == 0 { waitingSince = now }
      waiting += 1
    }

    mutating func left() {
      waiting -= 1
      if waiting == 0 { waitingSince = nil }
    }

    func isIdle(now: Double) -> Bool {
      inFlight == 0 && waiting == 0 && opening <= now && rested <= now
    }
  }

  /// The mean time in seconds for which the last requests were in flight, however they ended.
  struct TimeInFlight: Sendable {
    /// The mean, with more weight for the last 32 requests. Nil before the first end.
    private(set) var mean: Double?

    mutating func add(_ time: Double) {
      mean = mean.map { $0 + (time - $0) / 32 } ?? time
    }
  }

  /// A queued request, or another place of it.
  struct WaitingRequest: Sendable {
    let number: UInt64
    let caller: QuotaCaller
    let waiter: Waiter
  }
}

extension ConcurrencyLimit {
  /// The answer to whether a request may be sent now.
  public enum Acquisition: Sendable {
    /// The request may be sent. The permit must be released when the request has ended.
    case granted(ConcurrencyPermit)
    /// The request is queued. A later `release` or `advance` returns a grant with its waiter, unless it is cancelled.
    case queued(QueueTicket)
    /// The queue of the caller or the whole queue is full, or the turn would come too late.
    case refused(retryAfter: Duration)
  }

  /// A request for a permit.
  public struct Request: Sendable {
    /// The caller that pays for the request. Its client has the share in this value from now on.
    public var caller: QuotaCaller
    /// Whether the request was sent before and refused with 429. It then goes to the front of its caller's queue.
    public var isRetry = false
    /// Whether an attempt at the request was made before. It is then not refused because too many requests wait.
    public var isRepeated = false
    /// How long the request has waited elsewhere. With this the wait may take as long as a burst.
    public var waited: Duration = .zero
    /// The longest acceptable wait.
    public var patience: Duration = .seconds(3600)
    /// The number of the queued request that gets another place; nil for a new request.
    var queuedAs: UInt64?

    /// Creates a request of a caller.
    public init(_ caller: QuotaCaller) {
      self.caller = caller
    }
  }

  /// A waiter with a permit.
  public struct Grant: Sendable {
    /// The permit. Release it when the request has ended, even if the caller that would send the request is gone.
    public let permit: ConcurrencyPermit
    /// The waiter that gets the permit.
    public let waiter: Waiter
    /// The caller that pays for the turn.
    public let caller: QuotaCaller
    /// The number of the queued request.
    let number: UInt64
  }
}
