import HTTPCache
import HTTPMessages
import Locks

/// The upstream request of a flight. It waits for its turn and for Apple's response without a task, because a task would
/// keep the frames of five functions for as long as that takes. What is rare goes on in a task.
///
/// Confined to the loop of the flight's first caller. Only ``cancel()`` may run on any thread.
final class FlightRun: CancellableWork, UpstreamReceiver, @unchecked Sendable {
  // Sendable by confinement; what `cancel` uses is behind a lock.
  private let gateway: CatalogGateway
  private let miss: CatalogMiss
  private let flight: FlightID
  private let leader: CatalogWaiter
  private var exchange: CatalogExchange?
  private var attempt: CatalogAttempt?
  /// The key of the response at the store; nil if it is not shared.
  private var sharedKey: SharedEntryKey?

  private struct Cancellation {
    var isCancelled = false
    var current: Wait?
  }

  /// What the flight waits for.
  private enum Wait: Sendable {
    case store(any SharedLookup)
    case turn(CatalogGateway.QueuePlace)
    case response(any UpstreamCall)
    case task(Task<Void, Never>)
  }

  private let cancellation = Locked(Cancellation())

  init(as flight: FlightID, leader: CatalogWaiter, on gateway: CatalogGateway) {
    (self.gateway, miss, self.flight, self.leader) = (gateway, leader.miss, flight, leader)
  }

  /// Asks the replicas' store if there is one, and then Apple.
  func begin(at now: CacheTime) {
    if let shared = miss.route.shared, look(in: shared) { return }
    fetch(validating: miss.stored?.response, at: now)
  }

  /// Goes on after the state has decided about the request.
  func begin(_ exchange: CatalogExchange, _ step: CatalogGateway.Step) {
    self.exchange = exchange
    proceed(step, of: exchange, at: exchange.requestedAt)
  }

  /// Takes a turn and sends the request, or waits for the turn.
  private func fetch(validating stored: StoredResponse?, at now: CacheTime) {
    let exchange = CatalogExchange(fetching: miss, validating: stored, as: flight, at: now)
    begin(exchange, gateway.enter(exchange, at: now))
  }

  // MARK: The store

  /// Begins a lookup in the store. Returns false if Apple must be asked at once.
  private func look(in shared: any SharedCache) -> Bool {
    guard let key = gateway.sharedKey(of: miss.call, at: shared) else { return false }
    sharedKey = key
    // The caller wants Apple's response, so another replica's is of no use.
    guard !miss.call.directives.noCache else { return false }
    guard shared.isReady else {
      shared.count(.skipped)
      return false
    }
    waits(for: .store(shared.look(up: key, patience: gateway.sharedPatience(of: miss)) { self.found($0, in: shared) }))
    return true
  }

  private func found(_ finding: SharedFinding, in shared: any SharedCache) {
    guard let sharedKey, !cancellation.withLock({ $0.isCancelled }) else { return complete(.cancelled) }
    switch gateway.judge(finding, of: miss, sharedKey, from: shared) {
    case .usable(let response): complete(.shared(response))
    case .fetch(let stored): fetch(validating: stored, at: gateway.clock.now)
    }
  }

  func received(_ result: Result<UpstreamResponse, UpstreamError>) {
    guard let exchange, let attempt = attempt.take() else { return }
    let now = gateway.clock.now
    proceed(gateway.step(after: result, to: exchange, attempt, at: now), of: exchange, at: now)
  }

  /// Takes a step, and those after it that need no wait.
  private func proceed(_ step: CatalogGateway.Step, of exchange: CatalogExchange, at now: CacheTime) {
    switch step {
    case .ready(let attempt): send(exchange, attempt)
    case .done(let result): evaluate(result, of: exchange, at: now)
    case .queued(let place): waitForTurn(place)
    case .unauthorized, .failed, .again: wait { await $0.fetch(exchange, from: step) }
    }
  }

  private func waitForTurn(_ place: CatalogGateway.QueuePlace) {
    waits(for: .turn(place))
    // Another loop may grant the turn.
    place.waiting.whenSet { admission in
      Task(executorPreference: self.miss.route.executor) { self.entered(admission) }
    }
  }

  private func entered(_ admission: Admission) {
    guard let exchange else { return }
    proceed(gateway.step(after: admission, of: exchange), of: exchange, at: gateway.clock.now)
  }

  private func send(_ exchange: CatalogExchange, _ attempt: CatalogAttempt) {
    self.attempt = attempt
    let call = gateway.call(exchange, attempt)
    waits(for: .response(call))
    call.start(self)
  }

  private func evaluate(_ result: CatalogExchange.Result, of exchange: CatalogExchange, at now: CacheTime) {
    switch gateway.evaluate(result, of: exchange, at: now) {
    case .outcome(let outcome, let attempt): complete(outcome, attempt)
    case .again(let whole): wait { await $0.fetch(whole, from: $0.enter(whole, at: $0.clock.now)) }
    case .content(var arriving):
      if let (outcome, attempt) = gateway.storeAtOnce(&arriving, of: exchange) { return complete(outcome, attempt) }
      let rest = arriving
      wait { await $0.store(rest, of: exchange) }
    }
  }

  /// - Parameter attempt: The attempt that ends with the flight; nil if it has ended.
  private func complete(_ outcome: Outcome, _ attempt: CatalogAttempt? = nil) {
    gateway.complete(flight, outcome, attempt, leader: leader)
    if let sharedKey, let shared = miss.route.shared {
      gateway.share(outcome, of: miss, as: sharedKey, at: shared)
    }
  }

  // MARK: Waits

  /// Completes the flight in a task.
  private func wait(_ work: @escaping @Sendable (CatalogGateway) async -> Outcome) {
    waits(for: .task(Task(executorPreference: miss.route.executor) { self.complete(await work(self.gateway)) }))
  }

  private func waits(for wait: Wait) {
    let isCancelled = cancellation.withLock { state in
      state.current = wait
      return state.isCancelled
    }
    if isCancelled { end(wait) }
  }

  func cancel() {
    let current = cancellation.withLock { state in
      state.isCancelled = true
      return state.current
    }
    if let current { end(current) }
  }

  private func end(_ wait: Wait) {
    switch wait {
    case .store(let lookup): lookup.cancel()
    case .turn(let place): gateway.leave(place)
    // Apple works on a request that was sent, so it keeps its turn, and its response is stored.
    case .response(let call): call.cancelUnlessSent()
    case .task(let task): task.cancel()
    }
  }
}

/// A caller that waits for the outcome of a flight, without a task. It is resumed once. A request of its own, which is
/// rare, goes on in a task.
final class CatalogWaiter: CancellableWork, @unchecked Sendable {
  // Sendable, because `place` is written under the gateway's lock, before any other thread can have this object.
  let miss: CatalogMiss
  /// Whether the wait lasts to the end even if the caller may have a stale response.
  let waitsForAll: Bool
  private let gateway: CatalogGateway
  private let state: Locked<State>
  /// The place in the flight, and whether this caller has started the flight; nil outside of a flight.
  private var place: (ticket: FlightTicket, isLeader: Bool)?

  /// What the outcome is for.
  enum Purpose: Sendable {
    /// A reply to a caller.
    case reply(@Sendable (CatalogReply) -> Void)
    /// The cache. The function is called at the end.
    case refresh(@Sendable () -> Void)
  }

  private struct State {
    /// Nil once the caller is resumed: a flight that goes on must not keep the caller's connection.
    var purpose: Purpose?
    var isCancelled = false
    /// What ends the wait after `staleAfter`.
    var alarm: (any CancellableWork)?
    var ownRequest: OwnRequest?
  }

  init(_ miss: CatalogMiss, for purpose: Purpose, on gateway: CatalogGateway) {
    (self.miss, self.gateway) = (miss, gateway)
    waitsForAll = if case .refresh = purpose { true } else { false }
    state = Locked(State(purpose: purpose))
  }

  /// Takes note of the place in the flight. Under the lock with which the caller joins the flight.
  func waits(at ticket: FlightTicket, isLeader: Bool) {
    place = (ticket, isLeader)
  }

  /// Takes note of what ends the wait.
  func waits(atMost alarm: any CancellableWork) {
    let isResumed = state.withLock { state in
      state.alarm = alarm
      return state.purpose == nil
    }
    if isResumed { alarm.cancel() }
  }

  /// Ends the wait with an outcome. Returns false if it has ended before.
  ///
  /// - Parameter isElsewhere: Whether the caller of this method is not on the route's loop.
  @discardableResult
  func resume(_ outcome: Outcome, isElsewhere: Bool = false) -> Bool {
    let (purpose, alarm) = state.withLock { ($0.purpose.take(), $0.alarm.take()) }
    guard let purpose else { return false }
    alarm?.cancel()
    let isCollapsed = !(place?.isLeader ?? false)
    if isElsewhere {
      Task(executorPreference: miss.route.executor) { self.finish(purpose, outcome, isCollapsed: isCollapsed) }
    } else {
      finish(purpose, outcome, isCollapsed: isCollapsed)
    }
    return true
  }

  private func finish(_ purpose: Purpose, _ outcome: Outcome, isCollapsed: Bool) {
    switch purpose {
    case .reply(let receive):
      if gateway.needsOwnRequest(miss, outcome) { return fetchAlone(purpose) }
      if isCollapsed, gateway.mayEnterAgain(miss, outcome) {
        return run(receive) { await self.gateway.enterAgain(self.miss) }
      }
      if case .alone = outcome {
        return run(receive) {
          let exchange = CatalogExchange(forwarding: self.miss, at: self.gateway.clock.now)
          return await self.gateway.forward(exchange, because: self.miss.reason)
        }
      }
      receive(gateway.reply(to: miss, outcome, isCollapsed: isCollapsed))
    case .refresh(let done):
      if case .stream(let response) = outcome { response.content.cancel() }
      done()
    }
  }

  /// Sends a request that no other caller shares.
  func fetchAlone() {
    if let purpose = state.withLock({ $0.purpose.take() }) { fetchAlone(purpose) }
  }

  private func fetchAlone(_ purpose: Purpose) {
    switch purpose {
    case .reply(let receive):
      run(receive) { self.gateway.reply(to: self.miss, await self.gateway.fetch(self.miss), isCollapsed: false) }
    case .refresh:
      run({ _ in }) {
        self.finish(purpose, await self.gateway.fetch(self.miss), isCollapsed: false)
        return .cancelled
      }
    }
  }

  private func run(
    _ receive: @escaping @Sendable (CatalogReply) -> Void, _ work: @escaping @Sendable () async -> CatalogReply
  ) {
    let request = OwnRequest(by: miss.route, then: receive, work)
    let isCancelled = state.withLock { state in
      state.ownRequest = request
      return state.isCancelled
    }
    if isCancelled { request.cancel() }
  }

  func cancel() {
    let request = state.withLock { state in
      state.isCancelled = true
      return state.ownRequest
    }
    if let place { gateway.leave(place.ticket) }
    request?.cancel()
  }
}
