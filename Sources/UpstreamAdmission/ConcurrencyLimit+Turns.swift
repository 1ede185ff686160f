// Who takes turns, and whose turn it is.
extension ConcurrencyLimit {
  /// Whether a client has not all under way that it may have.
  func mayGo(_ client: Client) -> Bool {
    client.account.inFlight < adaptive.most(of: client.share) && (pacer.rate == nil || client.opening <= now)
  }

  /// Whether a caller has not all under way that it may have: of what its client may have, an eighth is left to others.
  func mayGo(_ caller: Caller, of client: Client) -> Bool {
    caller.account.inFlight < AdaptiveLimit.lessAnEighth(of: adaptive.most(of: client.share))
  }

  /// Sees to it that a caller of whom something waits has a turn, if it may go, and its client as well.
  ///
  /// It is called whenever a request of the caller's comes or ends, and the limit may have changed since. Who may not go
  /// has a request under way, so there will be another time.
  mutating func line(up name: QuotaCaller, _ caller: inout Caller, _ client: inout Client) {
    if caller.account.turn == nil, !caller.queue.isEmpty, mayGo(caller, of: client) {
      caller.account.turn = callerTurns.append(name, to: &client.order)
    }
    line(up: name.client, &client)
  }

  private mutating func line(up name: String, _ client: inout Client) {
    guard client.account.turn == nil, !client.order.isEmpty else { return }
    guard mayGo(client) else {
      if client.opening > now, !client.isHeld {
        client.isHeld = true
        held.append(name)
      }
      return
    }
    // One that has not been served in this round need not wait for its end.
    let isFirst = pacer.rate != nil && client.rested <= now
    client.account.turn = isFirst ? clientTurns.prepend(name, to: &order) : clientTurns.append(name, to: &order)
  }

  /// Sees to it that clients whose share of the rate lets them go again have a turn.
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

  /// A caller of whom nothing waits gives up its turn, and so does its client if it was the last.
  mutating func leave(_ caller: inout Caller, _ client: inout Client) {
    if let turn = caller.account.turn { _ = callerTurns.remove(turn, from: &client.order) }
    caller.account.turn = nil
    guard client.order.isEmpty, let turn = client.account.turn else { return }
    _ = clientTurns.remove(turn, from: &order)
    client.account.turn = nil
  }

  /// Serves the next client whose turn it is. Ends: who may not go leaves the round, and every other one gets out of debt
  /// in as many rounds as it is deep.
  mutating func next() -> Grant? {
    while let name = clientTurns.popFirst(of: &order), var client = clients[name] {
      client.account.turn = nil
      var grant: Grant?
      if mayGo(client) {
        client.account.earn()
        if client.account.isSolvent { grant = serve(&client) }
      }
      line(up: name, &client)
      clients[name] = client
      if let grant { return grant }
    }
    return nil
  }

  /// Serves the next of a client's callers.
  private mutating func serve(_ client: inout Client) -> Grant? {
    while let name = callerTurns.popFirst(of: &client.order), var caller = known[name] {
      caller.account.turn = nil
      var grant: Grant?
      if mayGo(caller, of: client) {
        caller.account.earn()
        if caller.account.isSolvent, let waiting = queues.popFirst(of: &caller.queue) {
          client.waiting -= 1
          let permit = begin(name, &caller, &client, cost: waiting.cost, hasWaited: true)
          grant = Grant(permit: permit, waiter: waiting.waiter)
        }
        if !caller.queue.isEmpty, mayGo(caller, of: client) {
          caller.account.turn = callerTurns.append(name, to: &client.order)
        }
      }
      known[name] = caller
      if let grant { return grant }
    }
    return nil
  }
}

// Whether a request can wait, and how long it would have to.
extension ConcurrencyLimit {
  /// When to come back; nil if the request can wait for its turn.
  func delay(of request: Request, _ caller: Caller, _ client: Client) -> Duration? {
    if !request.isRetry, !hasRoom(caller, of: client) { return max(limits.retryAfter, wait(caller, client) ?? .zero) }
    guard let wait = wait(request.isRetry ? Caller() : caller, client), wait > request.patience else { return nil }
    return wait
  }

  private func hasRoom(_ caller: Caller, of client: Client) -> Bool {
    let room = limits.waiting - queues.count
    return caller.queue.count < limits.waitingOfCaller * room
      && (client.share == nil || client.waiting < limits.waitingOfClient * room)
  }

  /// About how long a caller's next request would wait for its turn, if all who wait now stay; nil if no rate is known.
  ///
  /// Before it go those of its caller's that wait, as many of each other caller of the client in the same rounds, and as
  /// many of each other client in theirs.
  private func wait(_ caller: Caller, _ client: Client) -> Duration? {
    guard let rate = pacer.rate else { return nil }
    let own = caller.queue.count + 1
    let ofClient = min(own * max(client.order.count, 1), client.waiting + 1)
    let clients = order.count + held.count + (client.account.turn == nil && !client.isHeld ? 1 : 0)
    let all = min(ofClient * max(clients, 1), queues.count + 1)
    let pace = rate * pacer.limits.holdFactor
    var wait = Double(all) / pace
    if let share = client.shareOfRate { wait = max(wait, Double(ofClient) / (pace * share)) }
    return Duration(inSeconds: max(pacer.opening - now, 0) + wait)
  }
}

extension ConcurrencyLimit.Client {
  /// The most of the rate that it may have; nil for all. Places under way cannot be taken back, so an eighth of them is
  /// left to others; the pacer's turns come one at a time, and need not be.
  var shareOfRate: Double? { share.flatMap { $0 < QuotaCaller.usualShare ? max($0, 0.001) : nil } }
}

extension ConcurrencyLimit {
  /// What a client, or one of its callers, has had and may have.
  struct Account: Sendable {
    /// Requests under way.
    private(set) var inFlight = 0
    /// Turns that it has to its credit; never more than one, in debt below zero.
    private var credit = 0
    /// Its place in the round. It has a place while a request of its waits and its own limits let that request go.
    var turn: QueueTicket?

    /// Whether its turn counts, and is not a round that it misses.
    var isSolvent: Bool { credit > 0 }

    /// It is its turn.
    mutating func earn() { credit = min(credit + 1, 1) }

    /// A request goes.
    mutating func begin(cost: Int) {
      credit = max(credit - cost, -highestCost)
      inFlight += 1
    }

    /// A request has ended.
    mutating func end() { inFlight -= 1 }
  }

  /// One of a client's callers, while it has a request under way or waiting.
  struct Caller: Sendable {
    var account = Account()
    var queue = TicketQueues<WaitingRequest>.Queue()

    var isIdle: Bool { account.inFlight == 0 && queue.isEmpty }
  }

  /// A client, while one of its callers has a request under way or waiting.
  struct Client: Sendable {
    var account = Account()
    var share: Double?
    /// When the pacer lets its next request go, if its share is of the rate, too.
    var opening = 0.0
    /// When as many requests have gone since its last one as there were clients in the round.
    var rested = 0.0
    /// Whether it waits for `opening`, outside of the round.
    var isHeld = false
    /// Requests that wait.
    var waiting = 0
    /// Its callers of whom one has a turn, in their order.
    var order = TicketQueues<QuotaCaller>.Queue()

    func isIdle(now: Double) -> Bool {
      account.inFlight == 0 && waiting == 0 && opening <= now && rested <= now
    }
  }

  /// A request that waits.
  struct WaitingRequest: Sendable {
    let caller: QuotaCaller
    let cost: Int
    let waiter: Waiter
  }
}

extension ConcurrencyLimit {
  /// Whether a request may go now.
  public enum Admission: Sendable {
    /// It may: release the permit when it has ended.
    case granted(ConcurrencyPermit)
    /// It waits. Its waiter comes with a grant out of a later `release` or `advance`, unless the ticket is cancelled.
    case queued(QueueTicket)
    /// Too many wait already, of this caller or in all, or its turn would come too late.
    case refused(retryAfter: Duration)
  }

  /// A request for a permit.
  public struct Request: Sendable {
    /// Who pays for it. The share that it names is its client's from now on.
    public var caller: QuotaCaller
    /// How many turns it takes, 1 to ``ConcurrencyLimit/highestCost``. A caller that forces a validation of a fresh
    /// response pays more than one that needs a fetch anyway.
    public var cost = 1
    /// Whether it was sent before and refused with 429: then it is the first of its caller's.
    public var isRetry = false
    /// The longest that it can wait.
    public var patience: Duration = .seconds(3600)

    /// A request of a caller.
    public init(_ caller: QuotaCaller) {
      self.caller = caller
    }
  }

  /// A waiter whose turn has come.
  public struct Grant: Sendable {
    /// Release it when the request has ended, even if the caller that would send the request is gone.
    public let permit: ConcurrencyPermit
    /// The waiter that gets the permit.
    public let waiter: Waiter
  }
}
