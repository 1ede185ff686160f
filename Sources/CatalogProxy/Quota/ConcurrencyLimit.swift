/// How many requests are upstream at a time, and whose turn it is: keeps the team under its unknown quota, and callers
/// from taking it from each other.
///
/// The limit adapts, see `AdaptiveLimit`. Apple counts requests of the whole team, so one value serves the whole process,
/// behind a lock.
///
/// Callers share it by turns (surplus round robin: Adiseshu, Parulkar, Varghese 1996, "A reliable and scalable striping
/// protocol"): each caller who waits is served one request a round, however many of its requests wait. A request may
/// cost more than one; the surplus is paid in rounds missed. One caller alone gets seven eighths of the limit at most,
/// so that somebody else's request goes at once.
///
/// Those who wait share the waiting room, too: a caller's queue may grow to three times the room that is left (dynamic
/// thresholds: Choudhury, Hahne 1998). A single one gets three quarters of it; there is always room for a newcomer.
///
/// What is kept is bounded: a caller is known only while a request of its is under way or waits. All operations take
/// constant time, but for the rounds that a caller in debt misses, which are as many as it was served too much.
public struct ConcurrencyLimit<Caller: Hashable & Sendable, Waiter: Sendable>: Sendable {
  /// The most that a request costs, and the deepest debt of a caller: 16 rounds.
  public static var highestCost: Int { 16 }

  private struct Account: Sendable {
    var inFlight = 0
    /// Turns that it has to its credit; never more than one, in debt below zero.
    var credit = 0
    var queue = TicketQueues<Waiting>.Queue()
    /// Its place among those who take turns, while something of its waits.
    var turn: QueueTicket?

    /// The caller pays for a request that goes.
    mutating func pay(_ cost: Int) {
      credit = max(credit - cost, -highestCost)
      inFlight += 1
    }
  }

  private struct Waiting: Sendable {
    let caller: Caller
    let cost: Int
    let waiter: Waiter
  }

  private let limits: ConcurrencyLimits
  private var adaptive: AdaptiveLimit
  private var accounts: [Caller: Account] = [:]
  private var queues = TicketQueues<Waiting>()
  private var turns = TicketQueues<Caller>()
  private var order = TicketQueues<Caller>.Queue()
  private var permits: [UInt64: Caller] = [:]
  private var serial: UInt64 = 0

  /// A limit that nothing counts against yet.
  public init(_ limits: ConcurrencyLimits = ConcurrencyLimits()) {
    self.limits = limits
    adaptive = AdaptiveLimit(limits)
  }

  /// Requests that may be under way at a time, as it stands.
  public var limit: Int { adaptive.value }
  /// Requests under way.
  public var inFlight: Int { permits.count }
  /// Requests that wait.
  public var waiting: Int { queues.count }
  /// Callers of whom a request is under way or waits.
  public var callers: Int { accounts.count }

  /// Asks for a permit.
  ///
  /// - Parameters:
  ///   - caller: Who pays for it.
  ///   - cost: How many turns it takes, 1 to ``highestCost``. A caller who forces a validation of a fresh answer pays
  ///     more than one who asks for what has to be fetched anyway.
  ///   - waiter: Handed back when its turn has come; dropped here if it may go at once, or is refused.
  public mutating func acquire(for caller: Caller, cost: Int = 1, waiter: Waiter) -> Admission {
    var account = accounts[caller] ?? Account()
    let cost = min(max(cost, 1), Self.highestCost)
    if account.queue.isEmpty, inFlight < adaptive.value, account.inFlight < adaptive.share {
      account.credit += 1
      account.pay(cost)
      accounts[caller] = account
      return .granted(permit(for: caller))
    }
    guard account.queue.count < 3 * (limits.waiting - queues.count) else {
      return .refused(retryAfter: limits.retryAfter)
    }
    let ticket = queues.append(Waiting(caller: caller, cost: cost, waiter: waiter), to: &account.queue)
    if account.turn == nil { account.turn = turns.append(caller, to: &order) }
    accounts[caller] = account
    return .queued(ticket)
  }

  /// Gives a permit back. Does nothing if that was done before.
  ///
  /// - Returns: Those who may go now.
  public mutating func release(
    _ permit: ConcurrencyPermit, _ outcome: ConcurrencyOutcome, now: Duration
  ) -> [Grant] {
    guard let caller = permits[permit.serial] else { return [] }
    switch outcome {
    case .answered: adaptive.succeeded(inFlight: inFlight)
    case .limited: adaptive.refused(inFlight: inFlight, now: now)
    case .inconclusive: break
    }
    permits[permit.serial] = nil
    accounts[caller]?.inFlight -= 1
    forgetIfIdle(caller)
    var grants: [Grant] = []
    while inFlight < adaptive.value, let grant = next() { grants.append(grant) }
    return grants
  }

  /// Waits no longer.
  ///
  /// - Returns: The waiter; nil if its turn has come already: then its permit is to be released.
  public mutating func cancel(_ ticket: QueueTicket) -> Waiter? {
    guard let caller = queues.element(ticket)?.caller, var account = accounts[caller] else { return nil }
    let waiting = queues.remove(ticket, from: &account.queue)
    if account.queue.isEmpty, let turn = account.turn {
      _ = turns.remove(turn, from: &order)
      account.turn = nil
    }
    accounts[caller] = account
    forgetIfIdle(caller)
    return waiting?.waiter
  }

  /// Serves the next caller whose turn it is. Ends: at most one caller has its whole share under way while the limit is
  /// not reached, and every other one gets out of debt in as many rounds as it is deep.
  private mutating func next() -> Grant? {
    while let caller = turns.popFirst(of: &order), var account = accounts[caller] {
      let hasShare = account.inFlight >= adaptive.share
      let isLast = order.isEmpty
      account.turn = nil
      if !hasShare { account.credit += 1 }
      let isServed = !hasShare && account.credit > 0
      let waiting = isServed ? queues.popFirst(of: &account.queue) : nil
      if let waiting { account.pay(waiting.cost) }
      if !account.queue.isEmpty { account.turn = turns.append(caller, to: &order) }
      accounts[caller] = account
      if let waiting { return Grant(permit: permit(for: caller), waiter: waiting.waiter) }
      if hasShare, isLast { return nil }
    }
    return nil
  }

  private mutating func permit(for caller: Caller) -> ConcurrencyPermit {
    serial += 1
    permits[serial] = caller
    return ConcurrencyPermit(serial: serial)
  }

  private mutating func forgetIfIdle(_ caller: Caller) {
    guard let account = accounts[caller], account.inFlight == 0, account.queue.isEmpty else { return }
    accounts[caller] = nil
  }
}
