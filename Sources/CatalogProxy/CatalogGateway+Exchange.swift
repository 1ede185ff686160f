import HTTP1
import HTTPCache
import HTTPMessages
import HTTPTypes
import Locks
import Tracing
import UpstreamAdmission

/// Phases 5 to 8 of a request: one upstream request, and further attempts if they are safe and useful.
///
/// The state is visited once before an attempt, and once after it if the whole response comes at once. The first visit
/// also starts the flight, and the last one ends it. What needs no wait is in functions of its own that are not inlined:
/// the temporaries of an inlined function would stay in the task's frame, so that each waiting caller had memory for
/// them.
extension CatalogGateway {
  /// Sends a request until there is a final response, or no further attempt is allowed.
  func exchange(_ exchange: CatalogExchange) async -> CatalogExchange.Result {
    await self.exchange(exchange, from: enter(exchange, at: clock.now))
  }

  /// Continues with a request, after every step that needs no wait.
  @inline(never)
  func exchange(_ exchange: CatalogExchange, from first: Step) async -> CatalogExchange.Result {
    var step = first
    while true {
      switch step {
      case .ready(let attempt): step = await send(exchange, attempt)
      case .queued(let place): step = await enter(exchange, from: place)
      case .unauthorized(let response, let attempt):
        step = await evaluateUnauthorized(response, exchange, attempt)
      case .failed(let response, let failure):
        return .failure(failure.saying(await read(response, of: exchange)))
      case .done(let result): return result
      case .again(let delay):
        exchange.number += 1
        withState { $0.counts.retries += 1 }
        if delay > .zero, (try? await exchange.route.upstream.pause(for: delay)) == nil {
          return givenUp(exchange)
        }
        // No caller waits for another attempt.
        if Task.isCancelled { return .cancelled }
        step = enter(exchange, at: clock.now)
      }
    }
  }

  /// What an exchange does next.
  enum Step: Sendable {
    /// The request may be sent.
    case ready(CatalogAttempt)
    /// The request waits for its turn.
    case queued(QueuePlace)
    /// Apple has responded with 401.
    case unauthorized(UpstreamResponse, CatalogAttempt)
    /// The request has failed, and Apple's response may say why.
    indirect case failed(UpstreamResponse, UpstreamFailure)
    /// Another attempt may follow.
    case again(after: Duration)
    case done(CatalogExchange.Result)
  }

  // MARK: 5 Admit, 6 Authorize

  /// A place in the queue of requests that wait for a turn.
  struct QueuePlace: Sendable {
    let ticket: QueueTicket
    let waiting: OneShot<Admission>
  }

  /// What the state decides about a request.
  fileprivate enum Decision: Sendable {
    case launched(State.Launch)
    case queued(QueuePlace)
    /// The turn would come too late, or the queue is full.
    case refused(retryAfter: Duration)
    /// The circuit may refuse the request. Then it need not wait for a turn.
    case circuitOpen(UpstreamCircuit.Refusal)
    /// Too little time is left to send anything.
    case tooLate
  }

  /// What the state decides about a request, and what that requires outside of the lock.
  struct Entered: Sendable {
    fileprivate let decision: Decision
    fileprivate var pacing: PacingTask?
    fileprivate var needs: QuotaNeeds?
  }

  /// Takes a turn at the upstream for a request, or a place in the queue.
  @inline(never)
  func enter(_ exchange: CatalogExchange, at time: CacheTime) -> Step {
    step(after: withState { $0.enter(exchange, at: time, on: self) }, of: exchange)
  }

  /// Returns the step after a decision of the state.
  @inline(never)
  func step(after entered: Entered, of exchange: CatalogExchange) -> Step {
    if let pacing = entered.pacing { start(pacing) }
    entered.needs?.request()
    switch entered.decision {
    case .launched(let launch): return step(after: launch, of: exchange)
    case .queued(let place):
      // A request with less time left is not sent, so its turn would be lost.
      expire(.wait(place.ticket), at: exchange.end - leastTime, exchange.route)
      return .queued(place)
    case .refused(let retryAfter): return .done(.failure(refusal(of: exchange, retryAfter: retryAfter)))
    case .circuitOpen(let refusal): return .done(.failure(.circuitOpen(refusal, nextHop: configuration.nextHop)))
    case .tooLate: return .done(.failure(.waitedTooLong(nextHop: configuration.nextHop)))
    }
  }

  /// Waits for a turn until shortly before the deadline of the exchange.
  private func enter(_ exchange: CatalogExchange, from place: QueuePlace) async -> Step {
    let admission = await withTaskCancellationHandler {
      await place.waiting.get()
    } onCancel: {
      leave(place)
    }
    return step(after: admission, of: exchange)
  }

  /// Ends the wait for a turn. On any thread.
  func leave(_ place: QueuePlace) {
    withState { $0.limit.cancel(place.ticket) }?.resume(.cancelled)
  }

  /// Returns the step after a wait for a turn.
  @inline(never)
  func step(after admission: Admission, of exchange: CatalogExchange) -> Step {
    switch admission {
    case .granted(let permit, let caller):
      exchange.charge(to: caller)
      let time = clock.now
      guard exchange.end - time.elapsed >= leastTime else {
        release(permit, .inconclusive)
        return .done(.failure(.waitedTooLong(nextHop: configuration.nextHop)))
      }
      return step(after: withState { $0.launch(exchange, permit, at: time, on: self) }, of: exchange)
    case .refused(let retryAfter): return .done(.failure(refusal(of: exchange, retryAfter: retryAfter)))
    case .timedOut: return .done(.failure(.waitedTooLong(nextHop: configuration.nextHop)))
    case .cancelled: return .done(.cancelled)
    }
  }

  private func refusal(of exchange: CatalogExchange, retryAfter: Duration) -> UpstreamFailure {
    exchange.isLimited
      ? .rateLimited(retryAfter: retryAfter, nextHop: configuration.nextHop).saying(exchange.lastRefusal)
      : .overloaded(retryAfter: retryAfter)
  }

  private func step(after launch: State.Launch, of exchange: CatalogExchange) -> Step {
    exchange.isLimited = false
    switch launch {
    case .ready(let attempt): return .ready(attempt)
    case .withoutToken(let permit, let pass):
      guard let token = currentToken() else {
        release(permit, .inconclusive)
        record(.neutral, of: pass)
        return .done(.failure(.noToken))
      }
      let time = clock.now
      return .ready(withState { $0.attempt(exchange, permit, pass, token, at: time, on: self) })
    case .refused(let permit, let refusal):
      release(permit, .inconclusive)
      return .done(.failure(.circuitOpen(refusal, nextHop: configuration.nextHop)))
    }
  }

  // MARK: 7 Send

  /// Sends a request, and waits for the head of its response even if the caller has gone: Apple works on the request all
  /// the same, so it keeps its turn.
  private func send(_ exchange: CatalogExchange, _ attempt: CatalogAttempt) async -> Step {
    step(after: await call(exchange, attempt).result(goesOnOnceSent: true), to: exchange, attempt, at: clock.now)
  }

  /// Prepares the request of an attempt.
  func call(_ exchange: CatalogExchange, _ attempt: CatalogAttempt) -> any UpstreamCall {
    exchange.route.upstream.call(request(of: exchange, attempt), limits: timeouts(of: exchange, attempt))
  }

  /// Returns the step after an attempt.
  func step(
    after result: Result<UpstreamResponse, UpstreamError>, to exchange: CatalogExchange, _ attempt: CatalogAttempt,
    at now: CacheTime
  ) -> Step {
    switch result {
    case .failure(let error): return failed(exchange, attempt, error)
    case .success(let response):
      let head = head(of: response, to: exchange, attempt, at: now)
      attempt.head = head
      // Nearly always the content has come as well, and the state is visited once for both.
      guard !head.isFinal else { return .done(.response(response, attempt)) }
      noteHead(of: attempt)
      return response.status == .unauthorized
        ? .unauthorized(response, attempt) : evaluate(response, to: exchange, attempt)
    }
  }

  @inline(never)
  private func request(of exchange: CatalogExchange, _ attempt: CatalogAttempt) -> UpstreamRequest {
    var fields = exchange.fields
    if let span = attempt.span { HeaderPolicy.trace(&fields, as: span) }
    return UpstreamRequest(
      exchange.method, exchange.call.target.target, fields: fields, credential: attempt.token.credential,
      content: exchange.content, contentLength: exchange.contentLength)
  }

  private func timeouts(of exchange: CatalogExchange, _ attempt: CatalogAttempt) -> UpstreamTimeouts {
    var timeouts = configuration.timeouts
    timeouts.whole = exchange.end - attempt.start.elapsed
    return timeouts
  }

  @inline(never)
  private func failed(_ exchange: CatalogExchange, _ attempt: CatalogAttempt, _ error: UpstreamError) -> Step {
    note(.failure(error.cause), of: exchange, attempt)
    // After a long wait for a turn or for the caller's content, a timeout does not show a failure of Apple.
    let hadLittleTime = timeouts(of: exchange, attempt).whole < configuration.timeouts.firstByte
    let isOurs = error.isTimeout && (hadLittleTime || !exchange.isUntouched)
    record(isOurs ? .neutral : CircuitOutcome(error), of: attempt.pass)
    attempt.release(.inconclusive)
    guard error.cause != .cancelled else { return .done(givenUp(exchange)) }
    withState { $0.counts.failures += 1 }
    observer.noticed(.exchangeFailed(error))
    switch decision(.failed(error), of: exchange) {
    case .retry(let delay): return .again(after: delay)
    case .giveUp: return .done(.failure(UpstreamFailure(error, nextHop: configuration.nextHop)))
    }
  }

  /// Reports a sampled attempt.
  private func note(_ result: UpstreamAttempt.Result, of exchange: CatalogExchange, _ attempt: CatalogAttempt) {
    guard let span = attempt.span, span.isSampled, let parent = exchange.call.span else { return }
    observer.noticed(
      .attempted(
        UpstreamAttempt(
          span: span, parent: parent.spanID, method: exchange.method, route: exchange.call.target.route,
          client: exchange.caller.client, resends: exchange.number - 1,
          duration: clock.now.elapsed - attempt.start.elapsed, result: result)))
  }

  /// Returns what the head of a response shows, and tells the observer. A response with an Age comes from a cache, so its
  /// `Date` is too old to show the skew of the clocks.
  @inline(never)
  private func head(
    of response: UpstreamResponse, to exchange: CatalogExchange, _ attempt: CatalogAttempt, at end: CacheTime
  ) -> HeadFacts {
    observer.noticed(.responded(after: end.elapsed - attempt.start.elapsed))
    note(.status(response.status.code, response.version), of: exchange, attempt)
    var date: Int?
    if !response.fields.has("age") || response.fields.text(of: "age") == "0" {
      date = FieldDate.seconds(ofOnly: "date", in: response.fields, now: end.wall)
    }
    return HeadFacts(
      circuit: CircuitOutcome(response.status),
      provesToken: response.status.provesToken && (response.status != .forbidden || response.isJSON),
      isFinal: response.isFinal(for: exchange), date: date, receivedAt: end)
  }

  /// Notes what the head of a response shows, unless the state knows it.
  func noteHead(of attempt: CatalogAttempt) {
    if attempt.head != nil { report(withState { $0.noteHead(of: attempt) }) }
  }

  func report(_ noted: State.Noted) {
    report(noted.circuit)
    if noted.isAcceptedAgain { observer.noticed(.tokenAccepted) }
  }

  // MARK: 8 Evaluate

  @inline(never)
  private func evaluate(
    _ response: UpstreamResponse, to exchange: CatalogExchange, _ attempt: CatalogAttempt
  ) -> Step {
    guard response.status != .tooManyRequests else { return evaluateLimit(response, exchange, attempt) }
    attempt.release(response.status.code >= 500 ? .inconclusive : .answered)
    withState { $0.counts.failures += 1 }
    observer.noticed(.upstreamStatus(response.status.code))
    guard response.status.isOfTheRequest else {
      let asked = response.fields.text(of: "retry-after").flatMap { Duration(retryAfter: $0, now: clock.now.wall) }
      return failed(response, .status(response.status, retryAfter: asked, nextHop: configuration.nextHop))
    }
    let isUsers = exchange.call.target.wantsUserToken
    return failed(response, .content(of: response, isUsers: isUsers, nextHop: configuration.nextHop))
  }

  /// Returns the result of a cancelled exchange. The caller has disconnected if the task is cancelled or the request's
  /// content broke off. Otherwise the server stops, and the caller, which is still connected, gets an error.
  func givenUp(_ exchange: CatalogExchange) -> CatalogExchange.Result {
    if Task.isCancelled || exchange.content?.isBroken == true { return .cancelled }
    return .failure(.givenUp(nextHop: configuration.nextHop))
  }

  private func evaluateLimit(
    _ response: UpstreamResponse, _ exchange: CatalogExchange, _ attempt: CatalogAttempt
  ) -> Step {
    let now = clock.elapsed
    let asked = response.fields.text(of: "retry-after").flatMap { Duration(retryAfter: $0, now: clock.now.wall) }
    attempt.release(.limited(retryAfter: asked))
    let rate = withState { state in
      state.counts.limited += 1
      state.clientCounts[exchange.caller.client, default: ClientCounts()].limited += 1
      state.recentRefusals.record(now: now)
      return state.limit.rate
    }
    observer.noticed(.limited(rate: rate))
    exchange.isLimited = true
    switch decision(.limited(retryAfter: asked), of: exchange) {
    case .retry(let delay):
      exchange.lastRefusal = response.readAtOnce(configuration.memory)
      return .again(after: delay)
    case .giveUp:
      return failed(response, .rateLimited(retryAfter: asked ?? .seconds(1), nextHop: configuration.nextHop))
    }
  }

  private func decision(_ ending: Attempt.Ending, of exchange: CatalogExchange) -> RetryPolicy.Decision {
    let now = clock.elapsed
    var attempt = Attempt(exchange.method, ending, number: exchange.number, timeLeft: exchange.end - now)
    attempt.hasReadContent = !exchange.isUntouched
    return withState { state in
      state.retries.decision(after: attempt, budget: &state.retryBudget, using: &state.random)
    }
  }

  private func record(_ outcome: CircuitOutcome, of pass: UpstreamCircuit.Pass) {
    let now = clock.elapsed
    report(withState { $0.record(outcome, of: pass, now: now) })
  }

  private func report(_ change: State.CircuitChange) {
    switch change {
    case .none: break
    case .opened(let news):
      observer.noticed(.circuitOpened)
      tell(news)
    case .closed(let news):
      observer.noticed(.circuitClosed)
      tell(news)
    }
  }
}

extension CatalogGateway.State {
  /// Decides about a request for a turn.
  ///
  /// - Parameter gateway: The gateway that has this state.
  mutating func enter(
    _ exchange: CatalogExchange, at time: CacheTime, on gateway: CatalogGateway
  ) -> CatalogGateway.Entered {
    let now = time.elapsed
    let patience = exchange.end - now - gateway.leastTime
    guard patience >= .zero else { return CatalogGateway.Entered(decision: .tooLate) }
    if exchange.number == 1 { retryBudget.requested() }
    if let refusal = circuit.refusal(for: exchange.subject, now: now) {
      return CatalogGateway.Entered(decision: .circuitOpen(refusal))
    }
    var request = ConcurrencyLimit<OneShot<Admission>>.Request(exchange.caller)
    (request.isRepeated, request.isRetry) = (exchange.number > 1, exchange.isLimited)
    (request.waited, request.patience) = (exchange.waited, patience)
    var waiting: OneShot<Admission>?
    let admission = limit.acquire(request, waiter: OneShot(keptIn: &waiting), now: now)
    let decision: CatalogGateway.Decision =
      switch admission {
      case .granted(let permit): .launched(launch(exchange, permit, at: time, on: gateway))
      case .refused(let retryAfter): .refused(retryAfter: retryAfter)
      case .queued(let ticket):
        if let permit = addPlaces(for: ticket, to: exchange, at: now, on: gateway) {
          .launched(launch(exchange, permit, at: time, on: gateway))
        } else {
          .queued(.init(ticket: ticket, waiting: waiting ?? OneShot()))
        }
      }
    let needs = needs(now: now)
    return CatalogGateway.Entered(decision: decision, pacing: startsPacing(by: exchange.route), needs: needs)
  }
}

extension UpstreamError {
  /// Whether a deadline passed.
  fileprivate var isTimeout: Bool {
    switch cause {
    case .responseTimeout, .connectionReadTimeout, .connectionWriteTimeout, .connectionTimeout: true
    default: false
    }
  }
}
