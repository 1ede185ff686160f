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
