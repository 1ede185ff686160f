/// Limits the number of concurrent upstream requests, and serves clients and callers by turns. It keeps the team under
/// its unknown quota, and keeps callers from taking the quota from each other.
///
/// The limit adapts, see `AdaptiveLimit`. Apple counts the requests of the whole team, so one value serves the whole
/// process, behind a lock.
///
/// Clients share the limit by turns, and each client's callers share the client's turns. Each queued client is served one
/// request a round, however many callers it has. Within the client, each caller is served one, however many requests it
/// has queued.
///
/// A client gets at most its share of the limit, and one caller gets at most seven eighths of that, so that a request
/// of another caller can be sent at once. A single client may use the whole limit.
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
/// The state is bounded: the limit stores a client or a caller only while one of its requests is in flight or queued.
/// All operations take constant time. A client or caller at its limit leaves the round, and returns when one of its
/// requests ends.
public struct ConcurrencyLimit<Waiter: Sendable>: Sendable {
  let limits: ConcurrencyLimits
  var adaptive: AdaptiveLimit
  var pacing: Pacing
  let pacingLimits: PacingLimits
  /// The number of replicas of which each has an equal part, as long as this one is alone.
  var divisor = 1
  /// The most requests in flight of the group, by the last reply of the store.
  var groupLimit = 0
  /// The number of 429s, and of those before this replica was alone.
  private(set) var refusals = 0
  var refusalsBefore = 0
  var known: [QuotaCaller: Caller] = [:]
  var clients: [String: Client] = [:]
  var queues = TicketQueues<WaitingRequest>()
  /// The places of each request that has more than one, by its number and by caller.
  var shared: [UInt64: [QuotaCaller: QueueTicket]] = [:]
  /// The number of places beyond the first of each request.
  var furtherPlaces = 0
  /// The number of the last request that was queued.
  private var lastQueued: UInt64 = 0
  /// The turns of the callers, a queue for each client.
  var callerTurns = TicketQueues<QuotaCaller>()
  var clientTurns = TicketQueues<String>()
  /// The clients that have a turn, in order.
  var order = TicketQueues<String>.Queue()
  /// The clients that have used up their share of the rate for now.
  var held: [String] = []
  /// The time of the present operation, in seconds.
  var now = 0.0
  private var permits: [UInt64: (name: QuotaCaller, sent: Double)] = [:]
  private var serial: UInt64 = 0
  private(set) var timeInFlight = TimeInFlight()

  /// Creates a limit without requests.
  public init(_ limits: ConcurrencyLimits = ConcurrencyLimits(), pacing: PacingLimits = PacingLimits()) {
    self.limits = limits
    adaptive = AdaptiveLimit(limits)
    self.pacing = Pacing(own: RatePacer(pacing))
    pacingLimits = pacing
  }

  /// The most requests in flight at present.
  public var limit: Int { adaptive.value }
  /// The number of requests in flight.
  public var inFlight: Int { permits.count }
  /// The number of queued requests.
  public var waiting: Int { queues.count - furtherPlaces }
  /// The number of callers with a request in flight or queued.
  public var callers: Int { known.count }

  /// The known rate in requests a second that the quota allows: the learned rate, or that of a probe which
  /// exceeds it and has not been refused. Nil before the first 429.
  public var rate: Double? { pacing.rate }
  /// Returns whether all requests pause, after a 429.
  public func isPaused(now: Duration) -> Bool { pacing.isPaused(now: now.inSeconds) }

  /// Requests a permit.
  ///
  /// - Parameter waiter: Returned in a grant when its turn has come. Only made for a request that is queued.
  public mutating func acquire(_ request: Request, waiter: @autoclosure () -> Waiter, now: Duration) -> Acquisition {
    begin(now: now)
    let name = request.caller
    let places = places(of: name)
    var client = places.client.map { clients.values[$0] } ?? Client()
    var caller = places.caller.map { known.values[$0] } ?? Caller()
    client.share = name.share
    if caller.queue.isEmpty, mayGoAtOnce, mayGo(client), mayGo(caller, of: client) {
      let permit = begin(name, &caller, &client)
      keep(name, caller, client, at: places)
      return .granted(permit)
    }
    if let delay = delay(of: request, caller, client) {
      if request.queuedAs == nil { clients[name.client]?.lastRefusal = self.now }
      return .refused(retryAfter: delay)
    }
    if request.queuedAs == nil { lastQueued += 1 }
    let waiting = WaitingRequest(number: request.queuedAs ?? lastQueued, caller: name, waiter: waiter())
    let ticket =
      request.isRetry ? queues.prepend(waiting, to: &caller.queue) : queues.append(waiting, to: &caller.queue)
    client.joined(now: self.now)
    if request.isRetry { client.rested = min(client.rested, self.now) }
    line(up: name, &caller, &client)
    keep(name, caller, client, at: places)
    return .queued(ticket)
  }

  /// Releases a permit. Does nothing if it was already released.
  ///
  /// - Returns: The waiters that may send now.
  public mutating func release(
    _ permit: ConcurrencyPermit, _ outcome: ConcurrencyOutcome, now: Duration
  ) -> [Grant] {
    begin(now: now)
    guard let held = permits.index(forKey: permit.serial) else { return [] }
    let (name, sent) = permits.values[held]
    let places = places(of: name)
    guard let callerPlace = places.caller, let clientPlace = places.client else { return [] }
    var (caller, client) = (known.values[callerPlace], clients.values[clientPlace])
    switch outcome {
    case .answered:
      adaptive.succeeded(inFlight: inFlight, isWanted: waiting > 0)
      pacing.answered(sentAt: sent, now: self.now)
    case .limited(let retryAfter):
      refusals += 1
      pacing.refused(sentAt: sent, retryAfter: retryAfter?.inSeconds, now: self.now)
    case .inconclusive: break
    }
    permits.remove(at: held)
    timeInFlight.add(self.now - sent)
    client.timeInFlight.add(self.now - sent)
    caller.inFlight -= 1
    client.inFlight -= 1
    line(up: name, &caller, &client)
    keep(name, caller, client, at: places)
    return grants()
  }

  /// Counts against the rate a request that takes no turn, because another request waits for its response.
  public mutating func sentWithoutTurn(now: Duration) {
    pacing.sent(now: now.inSeconds, isWanted: false)
  }

  /// Records a 429 for a request that took no turn.
  public mutating func refusedWithoutTurn(sentAt: Duration, retryAfter: Duration?, now: Duration) {
    refusals += 1
    pacing.refused(sentAt: sentAt.inSeconds, retryAfter: retryAfter?.inSeconds, now: now.inSeconds)
  }

  /// Returns the waiters that the pacer held back until now.
  public mutating func advance(now: Duration) -> [Grant] {
    begin(now: now)
    return grants()
  }

  /// When to call `advance`. Nil if no request waits for the pacer.
  ///
  /// Changes nothing. A getter that may not change the state gets a copy of all of it, which costs each request more than
  /// the rest.
  public var opening: Duration? {
    mutating get {
      guard isPaced, inFlight < adaptive.value, let opening = pacing.opening else { return nil }
      guard order.isEmpty else { return Duration(inSeconds: opening) }
      guard let next = held.compactMap({ clients[$0]?.opening }).min() else { return nil }
      return Duration(inSeconds: max(opening, next))
    }
  }

  /// Returns whether the request of a ticket still waits.
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
    let places = places(of: name)
    guard let callerPlace = places.caller, let clientPlace = places.client else { return }
    var (caller, client) = (known.values[callerPlace], clients.values[clientPlace])
    guard queues.remove(ticket, from: &caller.queue) != nil else { return }
    client.left()
    if caller.queue.isEmpty { leave(&caller, &client) }
    keep(name, caller, client, at: places)
  }

  /// Begins an operation.
  mutating func begin(now: Duration) {
    self.now = now.inSeconds
    pacing.group?.advance(now: self.now)
  }

  /// Records the start of a request.
  mutating func begin(
    _ name: QuotaCaller, _ caller: inout Caller, _ client: inout Client, hasWaited: Bool = false
  ) -> ConcurrencyPermit {
    caller.inFlight += 1
    client.inFlight += 1
    if isPaced {
      client.rested = now + Double(order.count + 1) / pacing.pace
      if let share = client.shareOfRate {
        let interval = 1 / pacing.pace(ofClient: name.client)
        client.opening = max(client.opening, now - interval) + interval / share
      }
    }
    pacing.sent(now: now, isWanted: hasWaited || !order.isEmpty)
    serial += 1
    permits[serial] = (name, now)
    return ConcurrencyPermit(serial: serial)
  }

  /// The places of a caller and its client in the dictionaries, until one of these changes: a look-up takes a hash, which
  /// costs more than the work on the state.
  private typealias Places = (caller: Dictionary<QuotaCaller, Caller>.Index?, client: Dictionary<String, Client>.Index?)

  private func places(of name: QuotaCaller) -> Places {
    (known.index(forKey: name), clients.index(forKey: name.client))
  }

  /// Stores the changed state, or removes it if idle.
  private mutating func keep(_ name: QuotaCaller, _ caller: Caller, _ client: Client, at places: Places) {
    known.set(caller.isIdle ? nil : caller, at: places.caller, for: name)
    clients.set(client.isIdle(now: now) ? nil : client, at: places.client, for: name.client)
  }

  mutating func grants() -> [Grant] {
    lineUpHeld()
    var grants: [Grant] = []
    while inFlight < adaptive.value, mayPass, let grant = next() {
      removeOtherPlaces(of: grant.number)
      grants.append(grant)
    }
    return grants
  }

  var isPaced: Bool { pacing.isActive(now: now) }

  private var mayPass: Bool { pacing.mayPass(now: now) }

  /// Whether a request may overtake the queue: other limits hold the queue back, and none waits for the pacer.
  private var mayGoAtOnce: Bool { inFlight < adaptive.value && (!isPaced || mayPass && order.isEmpty) }
}

extension Dictionary {
  /// Sets or removes the value of a key, which is at this index if it has one.
  fileprivate mutating func set(_ value: Value?, at index: Index?, for key: Key) {
    switch (value, index) {
    case (let value?, let index?): values[index] = value
    case (let value?, nil): self[key] = value
    case (nil, let index?): remove(at: index)
    case (nil, nil): break
    }
  }
}

/// The limits of a ``ConcurrencyLimit``: name, default, unit and reason.
public struct ConcurrencyLimits: Sendable, Equatable {
  /// The initial limit: 200. It equals the streams of two connections, because Apple's servers allow 100 on each.
  public var initial = 200

  /// The highest limit: 400. It equals the streams of four connections. Beyond that, requests wait in the client.
  public var maximum = 400

  /// The most queued requests of all callers: 16 384. Each costs about 100 bytes here.
  public var waiting = 16_384

  /// The most queued requests of one caller, as a multiple of the free space: 3. So a single caller gets three quarters
  /// of all space, more than ten thousand, and there is always room for a newcomer.
  public var waitingOfCaller = 3
  /// The most queued requests of one client among others, as a multiple of the free space: 7. So a single client gets
  /// seven eighths of all space, the same part as of the requests in flight.
  public var waitingOfClient = 7

  /// The longest time for which requests of a client may wait, or one of them with its wait elsewhere, before it counts
  /// as overload: 1 s. The setting is `server.limits.burst`.
  public var burst: Duration = .seconds(1)
  /// The longest wait under overload: 150 ms, as `ServerLimits.lateWork`. An eighth of the limit may always wait, at least
  /// one request, because requests in flight end together at times.
  public var late: Duration = .milliseconds(150)

  /// The retry time when the queue is full: 1 s. Long waits caused the damage that was observed.
  public var retryAfter: Duration = .seconds(1)

  /// Creates the default limits.
  public init() {}
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

/// The right to have one request in flight, until ``ConcurrencyLimit/release(_:_:now:)``.
public struct ConcurrencyPermit: Sendable, Hashable {
  let serial: UInt64
}

/// The most requests in flight. It grows while it is in use and the upstream responds.
///
/// The limit keeps an upstream that hangs from using every connection and all memory. ``RatePacer`` handles the quota.
struct AdaptiveLimit: Sendable {
  private let limits: ConcurrencyLimits
  private(set) var value: Int
  /// The number of replicas of which each has an equal part of the bounds.
  private var divisor = 1
  /// Whether the value is a part of the limit of a group of replicas, and how often the traffic has tested it.
  private(set) var isShared = false
  private(set) var grown: UInt32 = 0

  init(_ limits: ConcurrencyLimits) {
    self.limits = limits
    value = limits.bounded(limits.initial)
  }

  /// The limit for a greedy caller. An eighth, at least one, is reserved for other callers, so that their requests need
  /// not wait until one of the greedy caller's requests ends.
  var share: Int { Self.lessAnEighth(of: value) }

  static func lessAnEighth(of count: Int) -> Int { max(count - max(count / 8, 1), 1) }

  /// Returns a part of the limit, at least one. Returns the whole limit for nil.
  func most(of share: Double?) -> Int {
    guard let share else { return value }
    return min(max(Int(exactly: (Double(value) * share).rounded(.down)) ?? 1, 1), value)
  }

  /// Counts a request that the upstream answered, and raises the limit by one if the traffic has tested it. That is so
  /// if as many requests were in flight as one greedy caller may have. It is also so if a request waits because its
  /// client's share is smaller, while at least half of the limit is in use (half also validates TCP's window: RFC
  /// 7661). Below its initial value the limit needs no such proof, because the initial value was untested, too. The
  /// limit grows like TCP's slow start (RFC 5681 §3.1): only our own maximum is above it, and if the quota doubles,
  /// requests should use it within 5 s.
  mutating func succeeded(inFlight: Int, isWanted: Bool) {
    let isTried = inFlight >= share || isWanted && (inFlight >= value / 2 || value < limits.bounded(limits.initial))
    guard isTried else { return }
    if isShared { grown &+= 1 } else if value < max(limits.maximum / divisor, 1) { value += 1 }
  }

  mutating func use(part: Int) {
    isShared = true
    value = limits.bounded(part)
  }

  /// Uses an equal part of the limit, and changes it without the others from now on.
  mutating func leave(group limit: Int, of replicas: Int) {
    isShared = false
    divisor = max(replicas, 1)
    value = limits.bounded(limit / divisor)
  }
}

extension ConcurrencyLimits {
  fileprivate func bounded(_ value: Int) -> Int { max(min(value, maximum), 1) }
}
