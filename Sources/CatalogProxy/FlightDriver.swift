import HTTP1
import HTTPCache
import HTTPMessages
import Locks
import Memory
import UpstreamAdmission

/// The driver of a ``Flight``: reports events to it, and performs its actions. It waits for a turn and for Apple's response
/// without a task, because a task keeps its frames for as long as that takes. Tasks are for what is rare: content that has
/// not arrived, a pause before another attempt, the end of a wait for a turn, a new token, and `/v1/test`.
/// Confined to the loop of the flight's first caller, the leader. Any thread may call ``cancel()`` and ``take(_:)``.
final class FlightDriver: CancellableWork, UpstreamReceiver, @unchecked Sendable {
  // Sendable by confinement; what `cancel` uses is behind a lock.
  let gateway: CatalogGateway
  let leader: CatalogWaiter
  var flight: Flight
  /// The present attempt; nil before it, and once its turn is released or belongs to the content of the response.
  var attempt: CatalogAttempt?
  var response: UpstreamResponse?
  /// When its head arrived, and its `Date` in seconds since 1970; nil without a valid one.
  var receivedAt: CacheTime
  var date: Int?
  /// The key of the response at the store; nil if it is not shared.
  private var sharedKey: SharedEntryKey?
  /// What ends the wait for a turn at its deadline.
  private var alarm: (any CancellableWork)?

  private struct Cancellation {
    var isCancelled = false
    var current: Wait?
  }

  private enum Wait: Sendable {
    case store(any SharedLookup)
    case turn(QueueTicket)
    case response(any UpstreamCall)
    case task(Task<Void, Never>)
    /// The content of a response that is stored, also when no caller waits for it any more.
    case content
  }

  private let cancellation = Locked(Cancellation())

  init(
    _ kind: Flight.Kind, leader: CatalogWaiter, content: (any ContentReader)? = nil, contentLength: Int? = nil,
    on gateway: CatalogGateway
  ) {
    (self.leader, self.gateway) = (leader, gateway)
    flight = Flight(kind, of: leader.miss, content: content, contentLength: contentLength)
    receivedAt = gateway.clock.now
  }

  var miss: CatalogMiss { leader.miss }
  var nextHop: String { gateway.configuration.nextHop }

  /// Begins. `admitted`: what admission has decided about the request; nil if it has not been asked yet.
  func begin(after admitted: consuming Admission.Result? = nil) {
    if let admitted { return go(on: event(after: admitted)) }
    go(on: perform(flight.begin(asksStore: flight.id != nil && miss.route.shared != nil)))
  }

  func received(_ result: Result<UpstreamResponse, UpstreamError>) { resume { evaluate(result) } }

  private func resume(_ event: () -> Flight.Event?) {
    flight.isCancelled = cancellation.withLock { state in
      state.current = nil
      return state.isCancelled
    }
    go(on: event())
  }

  /// Reports an event, and those that follow from it without a wait.
  private func go(on event: Flight.Event?) {
    var next = event
    while let event = next.take() { next = perform(flight.on(event)) }
  }

  /// Performs an action. Returns the event that it leads to, or nil if the flight waits for one, or has ended.
  private func perform(_ action: Flight.Action) -> Flight.Event? {
    switch action {
    case .collect: return wait { await self.collect() }
    case .lookUp: return lookUp()
    case .admit:
      let now = gateway.clock.now
      return event(after: gateway.withState { $0.enter(&flight, of: self, at: now) })
    case .mint(let permit, let pass): return mint(permit, pass)
    case .send: send()
    case .test: return test()
    case .renew: return renew()
    case .pause(let delay): return pause(for: delay)
    case .fail401(let isOfToken): return fail401(isOfToken: isOfToken)
    case .readWords(let failure): return readWords(failure)
    case .store: return store()
    case .pass: return .stored(pass())
    case .giveUp:
      response?.content.cancel()
      let failure = UpstreamFailure(
        UpstreamError(.cancelled, .unanswered, ""), nextHop: nextHop, isChange: flight.isChange)
      complete(.failure(failure, mayBeReplaced: !flight.isPassed))
    case .complete(let outcome): complete(outcome)
    }
    return nil
  }

  /// Waits until the content has arrived, or as much of it as the server keeps, so that the request takes its turn when it
  /// can be sent at Apple's pace.
  private func collect() async -> Flight.Event {
    guard let arriving = flight.arriving else { return .collected }
    var content = PartialContent(
      arriving, length: nil, upTo: CatalogGateway.contentAhead, gateway.configuration.memory,
      chargedTo: miss.call.holder, for: .request)
    do throws(ContentError) {
      if case .refused = try await content.read() { return .failed(.overMemory) }
    } catch { return .interrupted(byCaller: true) }
    flight.content = content.readAgain()
    return .collected
  }

  /// Asks the replicas' store, unless Apple must be asked at once.
  private func lookUp() -> Flight.Event? {
    guard let shared = miss.route.shared, let key = gateway.sharedKey(of: miss.call, at: shared) else {
      return .notFound(validating: miss.stored?.response)
    }
    sharedKey = key
    // The caller wants Apple's response, so another replica's is of no use.
    guard !miss.call.directives.noCache else { return .notFound(validating: miss.stored?.response) }
    guard shared.isReady else {
      shared.count(.skipped)
      return .notFound(validating: miss.stored?.response)
    }
    // Half of the time that is left, so that this replica can still send a request of its own.
    let patience = max(miss.end - gateway.clock.elapsed, .zero) / 2
    let lookup = shared.look(up: key, patience: patience) { finding in
      self.resume {
        // A flight that has no callers any more needs no response.
        self.flight.isCancelled
          ? .interrupted(byCaller: true) : self.gateway.event(after: finding, of: self.miss, key, from: shared)
      }
    }
    waits(for: .store(lookup))
    return nil
  }

  private func event(after result: Admission.Result) -> Flight.Event? {
    switch result {
    case .ready(let attempt):
      self.attempt = attempt
      return .admitted
    case .withoutToken(let permit, let pass): return .lacksToken(permit, pass)
    case .queued(let ticket):
      // A request with less time left is not sent, so its turn would be lost.
      let patience = miss.end - gateway.leastTime - gateway.clock.elapsed
      alarm = miss.route.upstream.alarm(after: patience) { self.gateway.leaveQueue(ticket, .timedOut) }
      waits(for: .turn(ticket))
      return nil
    case .rejected(let retryAfter):
      guard let limited = flight.limited else { return .failed(.overloaded(retryAfter: retryAfter)) }
      return .failed(.rateLimited(retryAfter: retryAfter, nextHop: nextHop).saying(limited))
    case .circuitOpen(let refusal, let permit):
      if let permit { gateway.release(permit, .inconclusive) }
      return .failed(.circuitOpen(refusal, nextHop: nextHop))
    case .tooLate: return tooLate
    }
  }

  /// The turn does not come before the deadline. If Apple has refused the request before, the caller gets Apple's answer.
  private var tooLate: Flight.Event {
    guard let limited = flight.limited else { return .failed(.waitedTooLong(nextHop: nextHop)) }
    return .failed(.rateLimited(retryAfter: .seconds(1), nextHop: nextHop).saying(limited))
  }

  /// The end of the wait for a turn.
  enum Turn: Sendable {
    case granted(ConcurrencyPermit)
    case timedOut
    /// All callers have gone.
    case cancelled
  }

  /// Goes on after the wait for a turn. On any thread, because another loop may grant the turn.
  func take(_ turn: Turn) { Task(executorPreference: miss.route.executor) { self.resume { self.event(after: turn) } } }

  private func event(after turn: Turn) -> Flight.Event? {
    alarm.take()?.cancel()
    switch turn {
    case .granted(let permit) where flight.isCancelled:
      gateway.release(permit, .inconclusive)
      return .interrupted(byCaller: true)
    case .granted(let permit):
      flight.charge(to: permit.caller)
      let now = gateway.clock.now
      guard miss.end - now.elapsed >= gateway.leastTime else {
        gateway.release(permit, .inconclusive)
        return tooLate
      }
      return event(after: gateway.withAdmission { $0.launch(flight, permit, at: now, on: gateway) })
    case .timedOut: return tooLate
    case .cancelled: return .interrupted(byCaller: true)
    }
  }

  private func mint(_ permit: ConcurrencyPermit, _ pass: UpstreamCircuit.Pass) -> Flight.Event? {
    wait { [gateway] in
      let (token, now) = (await gateway.token(), gateway.clock.now)
      let isLate = self.miss.end - now.elapsed < gateway.leastTime
      guard let token, !isLate, !Task.isCancelled else {
        gateway.withAdmission { admission in
          admission.release(permit, .inconclusive, now: now.elapsed)
          admission.record(.neutral, of: pass, now: now.elapsed)
        }
        if Task.isCancelled { return .interrupted(byCaller: true) }
        return .failed(.noToken)
      }
      self.attempt = gateway.withAdmission { $0.attempt(self.flight, permit, pass, token, at: now, on: gateway) }
      return .admitted
    }
  }

  private func send() {
    guard let attempt else { return }
    response = nil
    let call = miss.route.upstream.call(request(of: attempt), limits: timeouts(of: attempt))
    waits(for: .response(call))
    call.start(self)
  }

  private func request(of attempt: CatalogAttempt) -> UpstreamRequest {
    var fields = flight.call.fields
    if let stored = flight.stored { fields.append(contentsOf: stored.validators) }
    if let span = attempt.span { HeaderPolicy.trace(&fields, as: span) }
    return UpstreamRequest(
      flight.method, flight.call.target.target, fields: fields, credential: attempt.token.credential,
      content: flight.content, contentLength: flight.contentLength)
  }

  func timeouts(of attempt: CatalogAttempt) -> UpstreamTimeouts {
    var timeouts = gateway.configuration.timeouts
    timeouts.whole = miss.end - attempt.start.elapsed
    return timeouts
  }

  private func pause(for delay: Duration) -> Flight.Event? {
    wait { [upstream = miss.route.upstream] in
      (try? await upstream.pause(for: delay)) == nil ? .interrupted(byCaller: false) : .paused
    }
  }

  private func complete(_ outcome: Outcome) {
    // A 401 whose meaning no caller waits for has its content still.
    if case .cancelled = outcome { response?.content.cancel() }
    response = nil
    if let attempt = attempt.take() { gateway.settle(attempt) }
    if let flight = flight.id {
      gateway.complete(flight, outcome)
    } else if !leader.resume(outcome), case .stream(let response) = outcome {
      response.content.cancel()
    }
    share(outcome)
  }

  /// Tells the replicas' store about the outcome. A response that no flight has fetched is only stored there.
  private func share(_ outcome: Outcome) {
    guard let shared = miss.route.shared, !flight.isPassed else { return }
    if let sharedKey { return gateway.share(outcome, of: miss, as: sharedKey, at: shared) }
    guard flight.id == nil, case .response(_, isStored: true, _) = outcome,
      let key = gateway.sharedKey(of: miss.call, at: shared)
    else { return }
    gateway.share(outcome, of: miss, as: key, at: shared)
  }

  /// Waits in a task for an event. `isForStored`: the work is to read what is stored, and goes on without callers.
  func wait(isForStored: Bool = false, _ work: @escaping @Sendable () async -> Flight.Event) -> Flight.Event? {
    // Under the lock, so that the task cannot have gone on to another wait before it is known.
    waits {
      let task = Task(executorPreference: miss.route.executor) {
        let event = await work()
        self.resume { event }
      }
      return isForStored ? .content : .task(task)
    }
    return nil
  }

  private func waits(for wait: Wait) { waits { wait } }

  private func waits(_ begin: () -> sending Wait) {
    let cancelled = cancellation.withLock { state -> Wait? in
      let wait = begin()
      state.current = wait
      return state.isCancelled ? wait : nil
    }
    if let cancelled { end(cancelled) }
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
    case .turn(let ticket): gateway.leaveQueue(ticket, .cancelled)
    // Apple works on a request that was sent, so it keeps its turn, and its response is stored.
    case .response(let call): call.cancelUnlessSent()
    case .task(let task): task.cancel()
    case .content: break
    }
  }
}
