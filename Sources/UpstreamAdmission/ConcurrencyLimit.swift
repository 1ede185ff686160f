/// Limits how many requests are upstream at a time, and decides whose turn it is. It keeps the team under its unknown
/// quota, and keeps callers from taking the quota from each other.
///
/// The limit adapts, see `AdaptiveLimit`. Apple counts requests of the whole team, so one value serves the whole process,
/// behind a lock.
///
/// Clients share it by turns, and each client's callers share the client's turns (surplus round robin: Adiseshu,
/// Parulkar, Varghese 1996, "A reliable and scalable striping protocol"): each client that waits is served one request a
/// round, however many callers it has, and within it each caller one, however many of its requests wait. A request may
/// cost more than one; the surplus is paid in rounds missed, by the client and by the caller.
///
/// A client gets at most its share of the limit, and one caller gets at most seven eighths of that, so that a request
/// of another caller goes at once. If there is only one client, it may use the whole limit.
///
/// Waiting requests share the waiting room, too: a caller's queue may grow to three times the room that is left, and a
/// client's to seven times that (dynamic thresholds: Choudhury, Hahne 1998). A single caller gets three quarters of the
/// room, and a single client among others gets seven eighths; there is always room for a newcomer.
///
/// The state is bounded: the limit knows a client or a caller only while one of its requests is under way or waits. All
/// operations take constant time. The exception is the rounds that a client or caller in debt misses, which are as many
/// as the turns that it had too many. A client or caller that has reached its limit leaves the round, and returns when
/// one of its requests ends.
public struct ConcurrencyLimit<Waiter: Sendable>: Sendable {
  /// The most that a request costs, and the deepest debt of a caller: 16 rounds.
  public static var highestCost: Int { 16 }

  let limits: ConcurrencyLimits
  var adaptive: AdaptiveLimit
  var pacer: RatePacer
  var known: [QuotaCaller: Caller] = [:]
  var clients: [String: Client] = [:]
  var queues = TicketQueues<WaitingRequest>()
  /// The callers' turns, a queue for each client.
  var callerTurns = TicketQueues<QuotaCaller>()
  var clientTurns = TicketQueues<String>()
  /// Clients that have a turn, in their order.
  var order = TicketQueues<String>.Queue()
  /// Clients with a share of the rate that have used it up for the moment.
  var held: [String] = []
  /// The time of the present operation, in seconds.
  var now = 0.0
  private var permits: [UInt64: (name: QuotaCaller, sent: Double)] = [:]
  private var serial: UInt64 = 0

  /// A limit that nothing counts against yet.
  public init(_ limits: ConcurrencyLimits = ConcurrencyLimits(), pacing: PacingLimits = PacingLimits()) {
    self.limits = limits
    adaptive = AdaptiveLimit(limits)
    pacer = RatePacer(pacing)
  }

  /// Requests that may be under way at a time, as it stands.
  public var limit: Int { adaptive.value }
  /// Requests under way.
  public var inFlight: Int { permits.count }
  /// Requests that wait.
  public var waiting: Int { queues.count }
  /// Callers of whom a request is under way or waits.
  public var callers: Int { known.count }

  /// The learned rate in requests a second; nil before the first 429.
  public var rate: Double? { pacer.rate }
  /// Whether nothing goes for a moment, after a 429.
  public func isPaused(now: Duration) -> Bool { pacer.isPaused(now: now.inSeconds) }

  /// Asks for a permit.
  ///
  /// - Parameter waiter: Handed back when its turn has come; dropped here if it may go at once, or is refused.
  public mutating func acquire(_ request: Request, waiter: Waiter, now: Duration) -> Admission {
    self.now = now.inSeconds
    let name = request.caller
    var client = clients[name.client] ?? Client()
    var caller = known[name] ?? Caller()
    client.share = name.share
    let cost = min(max(request.cost, 1), Self.highestCost)
    if caller.queue.isEmpty, mayGoAtOnce, mayGo(client), mayGo(caller, of: client) {
      caller.account.earn()
      client.account.earn()
      let permit = begin(name, &caller, &client, cost: cost)
      (clients[name.client], known[name]) = (client, caller)
      return .granted(permit)
    }
    if let delay = delay(of: request, caller, client) { return .refused(retryAfter: delay) }
    let waiting = WaitingRequest(caller: name, cost: cost, waiter: waiter)
    let ticket =
      request.isRetry ? queues.prepend(waiting, to: &caller.queue) : queues.append(waiting, to: &caller.queue)
    client.waiting += 1
    if request.isRetry { client.rested = min(client.rested, self.now) }
    line(up: name, &caller, &client)
    (clients[name.client], known[name]) = (client, caller)
    return .queued(ticket)
  }

  /// Gives a permit back. Does nothing if that was done before.
  ///
  /// - Returns: Those who may go now.
  public mutating func release(
    _ permit: ConcurrencyPermit, _ outcome: ConcurrencyOutcome, now: Duration
  ) -> [Grant] {
    self.now = now.inSeconds
    guard let (name, sent) = permits[permit.serial], var caller = known[name], var client = clients[name.client] else {
      return []
    }
    switch outcome {
    case .answered:
      adaptive.succeeded(inFlight: inFlight, isWanted: waiting > 0)
      pacer.answered(sentAt: sent, now: self.now)
    case .limited(let retryAfter):
      pacer.refused(sentAt: sent, retryAfter: retryAfter?.inSeconds, now: self.now)
    case .inconclusive: break
    }
    permits[permit.serial] = nil
    caller.account.end()
    client.account.end()
    line(up: name, &caller, &client)
    keep(name, caller, client)
    return grants()
  }

  /// A request goes that waits for no turn, because another one waits for its response. It counts against the rate.
  public mutating func sentWithoutTurn(now: Duration) {
    pacer.sent(now: now.inSeconds, isWanted: false)
  }

  /// Such a request was refused with 429.
  public mutating func refusedWithoutTurn(sentAt: Duration, retryAfter: Duration?, now: Duration) {
    pacer.refused(sentAt: sentAt.inSeconds, retryAfter: retryAfter?.inSeconds, now: now.inSeconds)
  }

  /// Lets go whom the pacer held back until now.
  public mutating func advance(now: Duration) -> [Grant] {
    self.now = now.inSeconds
    return grants()
  }

  /// When `advance` is to be called; nil if nothing waits for the pacer.
  public var opening: Duration? {
    guard pacer.rate != nil, inFlight < adaptive.value else { return nil }
    guard order.isEmpty else { return Duration(inSeconds: pacer.opening) }
    guard let next = held.lazy.compactMap({ clients[$0]?.opening }).min() else { return nil }
    return Duration(inSeconds: max(pacer.opening, next))
  }

  /// Waits no longer.
  ///
  /// - Returns: The waiter; nil if its turn has come already: then its permit is to be released.
  public mutating func cancel(_ ticket: QueueTicket) -> Waiter? {
    guard let name = queues.element(ticket)?.caller, var caller = known[name], var client = clients[name.client],
      let waiting = queues.remove(ticket, from: &caller.queue)
    else { return nil }
    client.waiting -= 1
    if caller.queue.isEmpty { leave(&caller, &client) }
    keep(name, caller, client)
    return waiting.waiter
  }

  /// Counts a request that goes.
  mutating func begin(
    _ name: QuotaCaller, _ caller: inout Caller, _ client: inout Client, cost: Int, hasWaited: Bool = false
  ) -> ConcurrencyPermit {
    caller.account.begin(cost: cost)
    client.account.begin(cost: cost)
    if pacer.rate != nil {
      let interval = 1 / pacer.pace
      client.rested = now + Double(order.count + 1) * interval
      if let share = client.shareOfRate { client.opening = max(client.opening, now - interval) + interval / share }
    }
    pacer.sent(now: now, isWanted: hasWaited || !order.isEmpty)
    serial += 1
    permits[serial] = (name, now)
    return ConcurrencyPermit(serial: serial)
  }

  /// Stores what has changed, unless there is nothing left to know.
  mutating func keep(_ name: QuotaCaller, _ caller: Caller, _ client: Client) {
    known[name] = caller.isIdle ? nil : caller
    clients[name.client] = client.isIdle(now: now) ? nil : client
  }

  private mutating func grants() -> [Grant] {
    lineUpHeld()
    var grants: [Grant] = []
    while inFlight < adaptive.value, mayPass, let grant = next() { grants.append(grant) }
    return grants
  }

  /// Whether the pacer lets a request go now.
  private var mayPass: Bool { pacer.rate == nil || now >= pacer.opening }

  /// Whether a request may go past those who wait: none of them may go now. What waits for the pacer comes first.
  private var mayGoAtOnce: Bool { inFlight < adaptive.value && (pacer.rate == nil || mayPass && order.isEmpty) }
}

/// The bounds of a ``ConcurrencyLimit``: name, default, unit and reason.
public struct ConcurrencyLimits: Sendable, Equatable {
  /// Requests upstream at a time to begin with: 200. Two connections' worth of streams; Apple's peers allow 100 on each.
  public var initial = 200

  /// The most that it grows to: 400. Four connections' worth of streams; beyond that, requests wait in the client.
  public var maximum = 400

  /// Requests that wait for their turn, of all callers: 16 384. Each costs about 100 bytes here.
  public var waiting = 16_384

  /// How many times the room that is left one caller's requests may wait: 3 times, so that a caller alone has three
  /// quarters of all, more than ten thousand, and there is always room for a newcomer.
  public var waitingOfCaller = 3
  /// How many times the room that is left one client's callers may wait among other clients: 7 times, so that a client
  /// alone has seven eighths of all, as it has of the requests at once.
  public var waitingOfClient = 7

  /// When a request that finds no room to wait may come back: 1 s. Long waits did the damage that was observed.
  public var retryAfter: Duration = .seconds(1)

  /// The defaults.
  public init() {}
}

/// How a request with a permit ended, for the quota.
public enum ConcurrencyOutcome: Sendable, Equatable {
  /// It was answered with anything but 429.
  case answered
  /// It was refused with 429; and what its `Retry-After` says.
  case limited(retryAfter: Duration?)
  /// It was not answered, was answered with 5xx, or was given up: this says nothing about the quota.
  case inconclusive
}

/// The right to have one request under way. It ends with ``ConcurrencyLimit/release(_:_:now:)``.
public struct ConcurrencyPermit: Sendable, Hashable {
  let serial: UInt64
}

/// A number of requests that may be under way: it grows while it is in use and the upstream answers.
///
/// It keeps an upstream that hangs from taking every connection and all memory. The quota is the ``RatePacer``'s.
struct AdaptiveLimit: Sendable {
  private let limits: ConcurrencyLimits
  private(set) var value: Int

  init(_ limits: ConcurrencyLimits) {
    self.limits = limits
    value = limits.bounded(limits.initial)
  }

  /// What those who want everything may have: an eighth is left to others, at least one, so that another's request does
  /// not have to wait until one of the greedy one's ends.
  var share: Int { Self.lessAnEighth(of: value) }

  /// That, of a number of requests.
  static func lessAnEighth(of count: Int) -> Int { max(count - max(count / 8, 1), 1) }

  /// A part of the limit, at least one; all of it for nil.
  func most(of share: Double?) -> Int {
    guard let share else { return value }
    return min(max(Int(exactly: (Double(value) * share).rounded(.down)) ?? 1, 1), value)
  }

  /// Counts a request that the upstream answered. The limit grows by one if the traffic has tried it. That is so if as
  /// many requests were in flight as one greedy caller may have. It is also so if a request waits because its client's
  /// share is smaller, while at least half of the limit is in use (half also validates TCP's window: RFC 7661). Below
  /// its initial value the limit needs no such proof of use, because the initial value was untested, too. The limit
  /// grows like TCP's slow start (RFC 5681 §3.1): only our own maximum is above it, and if the quota doubles, requests
  /// should use it within 5 s.
  mutating func succeeded(inFlight: Int, isWanted: Bool) {
    let isTried = inFlight >= share || isWanted && (inFlight >= value / 2 || value < limits.bounded(limits.initial))
    if isTried, value < limits.maximum { value += 1 }
  }
}

extension ConcurrencyLimits {
  /// The value that the limit may have.
  fileprivate func bounded(_ value: Int) -> Int { max(min(value, maximum), 1) }
}
