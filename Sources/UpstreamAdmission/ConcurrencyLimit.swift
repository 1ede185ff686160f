import Bytes

/// Limits the number of concurrent upstream requests, and serves clients and callers by turns. It keeps the team under
/// its unknown quota, and keeps callers from taking the quota from each other. The limit adapts (``AdaptiveLimit``). Apple
/// counts the requests of the whole team, so one value serves the process, behind a lock.
///
/// Each queued client is served one request a round, however many callers it has. Within the client, each caller is served
/// one, however many requests it has queued. A client gets at most its share of the limit, a single client all, and one
/// caller at most seven eighths of that, so that a request of another caller can be sent at once.
///
/// Queued requests also share the queue space. A caller's queue may grow to three times the free space, and a client's
/// queue to seven times (dynamic thresholds: Choudhury, Hahne 1998). A single caller gets three quarters of the space,
/// and a single client among others gets seven eighths, so there is always room for a newcomer.
///
/// A burst may wait. But if requests of a client have waited without a pause for longer than `ConcurrencyLimits.burst`, or
/// if one would wait for longer, more arrive than can be sent. Then a request whose turn would not come soon is refused at
/// once, until none was refused for as long: a longer queue makes all of them late and serves no more. Only a caller's
/// first queued request may still wait as long as a burst. The wait follows from the number of requests ahead and the
/// time for which a request is in flight (Little 1961).
///
/// A caller is stored only while one of its requests is in flight or queued. All operations take constant time. A client or
/// caller at its limit leaves the round, and returns when one of its requests ends.
public struct ConcurrencyLimit<Waiter: Sendable>: Sendable {
  let limits: ConcurrencyLimits
  var adaptive: AdaptiveLimit
  var pacing = Pacing()
  /// The number of replicas of which each has an equal part, as long as this one is alone.
  var divisor = 1
  /// The most requests in flight of the group, by the last reply of the store.
  var groupLimit = 0
  /// Whether there was a 429 since this replica was last in a group.
  var hasLearned = false
  /// The 429s of the last minute, in slots of ten seconds.
  private var refusals = RollingCounts(slots: 6)
  var known: [QuotaCaller: Caller] = [:]
  /// All clients that have sent a request, each in its slot.
  var clients: [Client] = []
  private var slots: [HashedText: Int] = [:]
  var queues = TicketQueues<WaitingRequest>()
  /// The places of each request that has more than one, by its number and by caller.
  var shared: [UInt64: [QuotaCaller: QueueTicket]] = [:]
  /// The number of places beyond the first of each request.
  var furtherPlaces = 0
  /// The number of the last request that was queued.
  private var lastQueued: UInt64 = 0
  /// The turns of the callers, a queue for each client.
  var callerTurns = TicketQueues<QuotaCaller>()
  var clientTurns = TicketQueues<Int>()
  /// The slots of the clients that have a turn, in order.
  var order = TicketQueues<Int>.Queue()
  /// The slots of the clients that have used up their share of the rate for now.
  var held: [Int] = []
  /// The time of the present operation, in seconds.
  var now = 0.0
  private(set) var timeInFlight = TimeInFlight()

  /// Creates a limit without requests.
  public init(_ limits: ConcurrencyLimits = ConcurrencyLimits()) {
    self.limits = limits
    adaptive = AdaptiveLimit(limits)
  }

  /// The most requests in flight at present.
  public var limit: Int { adaptive.value }
  /// The number of requests in flight.
  public private(set) var inFlight = 0
  /// The number of queued requests.
  package var waiting: Int { queues.count - furtherPlaces }
  /// The learned rate in requests a second, or that of a probe above it without a refusal. Nil before a first 429.
  package var rate: Double? { pacing.rate }
  /// The counts of each client that has sent requests, by its name.
  package var clientCounts: [String: ClientCounts] {
    let counts = clients.lazy.filter { $0.counts.attempts > 0 }.map { ($0.name.text, $0.counts) }
    return Dictionary(uniqueKeysWithValues: counts)
  }

  /// Whether all requests pause, after a 429.
  package func isPaused(now: Duration) -> Bool { pacing.isPaused(now: now.inSeconds) }

  /// Requests a permit.
  ///
  /// - Parameter waiter: Returned in a grant when its turn has come. Only made for a request that is queued.
  public mutating func acquire(_ request: Request, waiter: @autoclosure () -> Waiter, now: Duration) -> Acquisition {
    begin(now: now)
    let name = request.caller
    let (slot, place) = (slot(of: name.client), known.index(forKey: name))
    var client = clients[slot]
    var caller = place.map { known.values[$0] } ?? Caller()
    client.share = name.share
    if caller.queue.isEmpty, mayGoAtOnce, mayGo(client), mayGo(caller, of: client) {
      let permit = begin(name, &caller, &client, in: slot)
      keep(name, caller, at: place, client, in: slot)
      return .granted(permit)
    }
    if let delay = delay(of: request, caller, client) {
      // A client of which nothing waits is not the one that sends too many.
      if request.queuedAs == nil, !client.isIdle(now: self.now) { clients[slot].lastRefusal = self.now }
      return .refused(retryAfter: delay)
    }
    if request.queuedAs == nil { lastQueued += 1 }
    let waiting = WaitingRequest(number: request.queuedAs ?? lastQueued, caller: name, waiter: waiter())
    let ticket =
      request.isRetry ? queues.prepend(waiting, to: &caller.queue) : queues.append(waiting, to: &caller.queue)
    client.joined(now: self.now)
    if request.isRetry { client.rested = min(client.rested, self.now) }
    line(up: name, &caller, &client, in: slot)
    keep(name, caller, at: place, client, in: slot)
    return .queued(ticket)
  }

  /// Releases a permit. Does nothing if it was already released.
  ///
  /// - Returns: The waiters that may send now.
  public mutating func release(_ permit: ConcurrencyPermit, _ outcome: ConcurrencyOutcome, now: Duration) -> [Grant] {
    begin(now: now)
    guard !permit.isReleased else { return [] }
    let (name, sent, slot) = (permit.caller, permit.sent, permit.slot)
    guard let place = known.index(forKey: name) else { return [] }
    var (caller, client) = (known.values[place], clients[slot])
    switch outcome {
    case .answered:
      adaptive.succeeded(inFlight: inFlight, isWanted: waiting > 0)
      pacing.answered(sentAt: sent, now: self.now)
    case .limited(let retryAfter):
      client.counts.limited += 1
      refused(sentAt: sent, retryAfter: retryAfter, now: self.now)
    case .inconclusive: break
    }
    permit.isReleased = true
    inFlight -= 1
    timeInFlight.add(self.now - sent)
    client.timeInFlight.add(self.now - sent)
    caller.inFlight -= 1
    client.inFlight -= 1
    line(up: name, &caller, &client, in: slot)
    keep(name, caller, at: place, client, in: slot)
    return grants()
  }

  /// Counts a request that is sent.
  public mutating func sent(with permit: ConcurrencyPermit) { clients[permit.slot].counts.attempts += 1 }

  /// Counts against the rate a request that takes no turn, because another request waits for its response.
  public mutating func sentWithoutTurn(now: Duration) { pacing.sent(now: now.inSeconds, isWanted: false) }

  /// Records a 429 for a request that took no turn.
  public mutating func refusedWithoutTurn(sentAt: Duration, retryAfter: Duration?, now: Duration) {
    refused(sentAt: sentAt.inSeconds, retryAfter: retryAfter, now: now.inSeconds)
  }

  private mutating func refused(sentAt: Double, retryAfter: Duration?, now: Double) {
    hasLearned = true
    refusals.add(in: Int(now / 10))
    pacing.refused(sentAt: sentAt, retryAfter: retryAfter?.inSeconds, now: now)
  }

  /// Returns the number of 429s in the last minute.
  package func recentRefusals(now: Duration) -> Int {
    let slot = Int(now.inSeconds / 10)
    return refusals.sum(from: slot - 5, through: slot)
  }

  /// Returns the waiters that the pacer held back until now.
  public mutating func advance(now: Duration) -> [Grant] {
    begin(now: now)
    return grants()
  }

  /// When to call `advance`. Nil if no request waits for the pacer.
  ///
  /// Changes nothing. But a getter that may not would get a copy of all of the state, which costs more than the rest.
  public var opening: Duration? {
    mutating get {
      guard isPaced, inFlight < adaptive.value, let opening = pacing.opening else { return nil }
      guard order.isEmpty else { return Duration(inSeconds: opening) }
      guard let next = held.map({ clients[$0].opening }).min() else { return nil }
      return Duration(inSeconds: max(opening, next))
    }
  }

  /// Whether the request of a ticket still waits.
  public func isWaiting(_ ticket: QueueTicket) -> Bool { queues.element(ticket) != nil }

  /// Removes a queued request with all its places.
  ///
  /// - Returns: The waiter. Nil if its turn has already come: its permit must then be released.
  public mutating func cancel(_ ticket: QueueTicket) -> Waiter? {
    guard let waiting = queues.element(ticket) else { return nil }
    remove(ticket)
    removeOtherPlaces(of: waiting.number)
    return waiting.waiter
  }

  /// Removes one place from the queue of its caller, if it is still there.
  mutating func remove(_ ticket: QueueTicket) {
    guard let name = queues.element(ticket)?.caller else { return }
    let slot = slot(of: name.client)
    guard let place = known.index(forKey: name) else { return }
    var (caller, client) = (known.values[place], clients[slot])
    guard queues.remove(ticket, from: &caller.queue) != nil else { return }
    client.left()
    if caller.queue.isEmpty { leave(&caller, &client) }
    keep(name, caller, at: place, client, in: slot)
  }

  mutating func begin(now: Duration) {
    self.now = now.inSeconds
    pacing.group?.advance(now: self.now)
  }

  /// Records the start of a request.
  mutating func begin(
    _ name: QuotaCaller, _ caller: inout Caller, _ client: inout Client, in slot: Int, hasWaited: Bool = false
  ) -> ConcurrencyPermit {
    caller.inFlight += 1
    client.inFlight += 1
    if isPaced {
      client.rested = now + Double(order.count + 1) / pacing.pace
      if let share = client.shareOfRate {
        let interval = 1 / pacing.pace(ofClient: client.name)
        client.opening = max(client.opening, now - interval) + interval / share
      }
    }
    pacing.sent(now: now, isWanted: hasWaited || !order.isEmpty)
    inFlight += 1
    return ConcurrencyPermit(name, of: slot, sent: now)
  }

  /// Returns the slot of a client. A slot is never given up, because the operator names the clients.
  private mutating func slot(of client: HashedText) -> Int {
    if let slot = slots[client] { return slot }
    slots[client] = clients.count
    clients.append(Client(client))
    return clients.count - 1
  }

  /// Stores the changed state, or removes it if it is idle. `place` is the caller's, because a look-up takes a hash.
  private mutating func keep(
    _ name: QuotaCaller, _ caller: Caller, at place: Dictionary<QuotaCaller, Caller>.Index?, _ client: Client,
    in slot: Int
  ) {
    clients[slot] = client.isIdle(now: now) ? Client(client.name, client.counts) : client
    switch (caller.isIdle, place) {
    case (false, let place?): known.values[place] = caller
    case (false, nil): known[name] = caller
    case (true, let place?): known.remove(at: place)
    case (true, nil): break
    }
  }

  mutating func grants() -> [Grant] {
    lineUpHeld()
    var grants: [Grant] = []
    while inFlight < adaptive.value, pacing.mayPass(now: now), let grant = next() {
      removeOtherPlaces(of: grant.number)
      grants.append(grant)
    }
    return grants
  }

  var isPaced: Bool { pacing.isActive(now: now) }

  /// Whether a request may overtake the queue: other limits hold the queue back, and none waits for the pacer.
  private var mayGoAtOnce: Bool { inFlight < adaptive.value && (!isPaced || pacing.mayPass(now: now) && order.isEmpty) }

  /// Whether a request may be sent now.
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
    /// Whether it was sent before and refused with 429. It then goes to the front of its caller's queue.
    public var isRetry = false
    /// Whether an attempt was made before. The request is then not refused because too many wait.
    public var isRepeated = false
    /// How long the request has waited elsewhere. With this the wait may take as long as a burst.
    public var waited: Duration = .zero
    /// The longest acceptable wait.
    public var patience: Duration = .seconds(3600)
    /// The number of the queued request that gets another place; nil for a new request.
    var queuedAs: UInt64?

    /// Creates a request of a caller.
    public init(_ caller: QuotaCaller) { self.caller = caller }
  }

  /// A waiter with a permit.
  public struct Grant: Sendable {
    /// Release it when the request has ended, even if the caller that would send it is gone.
    public let permit: ConcurrencyPermit
    /// The waiter that gets the permit.
    public let waiter: Waiter
    /// The number of the queued request.
    let number: UInt64
  }

  /// The state of a caller that has a request in flight or queued.
  struct Caller: Sendable {
    var inFlight = 0
    /// Its place in the round of its client, while one of its requests is queued and its limit allows that.
    var turn: QueueTicket?
    var queue = TicketQueues<WaitingRequest>.Queue()

    var isIdle: Bool { inFlight == 0 && queue.isEmpty }
  }

  /// The state of a client. All but its counts is for the time while it has a request in flight or queued.
  struct Client: Sendable {
    let name: HashedText
    var counts: ClientCounts
    var inFlight = 0
    /// Its place in the round, while one of its requests is queued and its limits allow that.
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

    init(_ name: HashedText, _ counts: ClientCounts = ClientCounts()) { (self.name, self.counts) = (name, counts) }

    /// Nil for the whole rate. Turns come one at a time, so they need no reserve for others, as requests in flight do.
    var shareOfRate: Double? { share.flatMap { $0 < QuotaCaller.usualShare ? max($0, 0.001) : nil } }

    mutating func joined(now: Double) {
      if waiting == 0 { waitingSince = now }
      waiting += 1
    }

    mutating func left() {
      waiting -= 1
      if waiting == 0 { waitingSince = nil }
    }

    func isIdle(now: Double) -> Bool { inFlight == 0 && waiting == 0 && opening <= now && rested <= now }
  }

  /// The mean time in seconds for which the last requests were in flight, however they ended.
  struct TimeInFlight: Sendable {
    /// The mean, with more weight for the last 32 requests. Nil before the first end.
    private(set) var mean: Double?

    mutating func add(_ time: Double) { mean = mean.map { $0 + (time - $0) / 32 } ?? time }
  }

  /// A queued request, or another place of it.
  struct WaitingRequest: Sendable {
    let number: UInt64
    let caller: QuotaCaller
    let waiter: Waiter
  }
}
