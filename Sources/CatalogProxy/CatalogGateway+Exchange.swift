import HTTP1
import HTTPCache
import HTTPMessages
import HTTPTypes
import Locks
import Tracing
import UpstreamAdmission

/// Phases 5 to 8 of a request: one upstream request, and further attempts if they are safe and useful.
///
/// The state is visited once before an attempt and once after the head of its response. What needs no wait is in
/// functions of its own that are not inlined: the temporaries of an inlined function would stay in the task's frame, so
/// that each waiting caller had memory for them.
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
      case .done(let result): return result
      case .again(let delay):
        exchange.number += 1
        withState { $0.counts.retries += 1 }
        if delay > .zero, (try? await exchange.route.upstream.pause(for: delay)) == nil {
          return givenUp(exchange)
        }
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
    case launched(ConcurrencyPermit, State.Launch)
    case queued(QueuePlace)
    /// The turn would come too late, or the queue is full.
    case refused(retryAfter: Duration)
    /// The circuit may refuse the request. Then it need not wait for a turn.
    case circuitOpen(UpstreamCircuit.Refusal)
  }

  /// Takes a turn at the upstream for a request, or a place in the queue.
  @inline(never)
  func enter(_ exchange: CatalogExchange, at time: CacheTime) -> Step {
    let now = time.elapsed
    guard exchange.end - now >= leastTime else {
      return .done(.failure(.waitedTooLong(nextHop: configuration.nextHop)))
    }
    var request = ConcurrencyLimit<OneShot<Admission>>.Request(exchange.caller)
    (request.isRepeated, request.isRetry) = (exchange.number > 1, exchange.isLimited)
    request.waited = exchange.waited
    request.patience = exchange.end - now - leastTime
    let wanted = request
    let (decision, pacing, needs) = withState { state in
      if exchange.number == 1 { state.retryBudget.requested() }
      if let refusal = state.circuit.refusal(for: exchange.subject, now: now) {
        return (Decision.circuitOpen(refusal), nil as PacingTask?, nil as QuotaNeeds?)
      }
      var waiting: OneShot<Admission>?
      let admission = state.limit.acquire(wanted, waiter: OneShot(keptIn: &waiting), now: now)
      let decision = state.decision(on: exchange, admission, waiting, at: time)
      let needs = state.needs(now: now)
      return (decision, state.startsPacing(by: exchange.route), needs)
    }
    if let pacing { start(pacing) }
    needs?.request()
    switch decision {
    case .launched(let permit, let launch): return entry(of: exchange, HeldPermit(permit, of: self), launch, at: time)
    case .queued(let place):
      // A request with less time left is not sent, so its turn would be lost.
      expire(.wait(place.ticket), at: exchange.end - leastTime, exchange.route)
      return .queued(place)
    case .refused(let retryAfter): return .done(.failure(refusal(of: exchange, retryAfter: retryAfter)))
    case .circuitOpen(let refusal): return .done(.failure(.circuitOpen(refusal, nextHop: configuration.nextHop)))
    }
  }

  /// Waits for a turn until shortly before the deadline of the exchange.
  private func enter(_ exchange: CatalogExchange, from place: QueuePlace) async -> Step {
    let admission = await withTaskCancellationHandler {
      await place.waiting.get()
    } onCancel: {
      leave(place)
    }
    return entry(of: exchange, after: admission)
  }

  /// Ends the wait for a turn. On any thread.
  func leave(_ place: QueuePlace) {
    withState { $0.limit.cancel(place.ticket) }?.resume(.cancelled)
  }

  /// Returns the step after a wait for a turn.
  @inline(never)
  func entry(of exchange: CatalogExchange, after admission: Admission) -> Step {
    switch admission {
    case .granted(let permit):
      let permit = HeldPermit(permit, of: self)
      let time = clock.now
      guard exchange.end - time.elapsed >= leastTime else {
        permit.release(.inconclusive)
        return .done(.failure(.waitedTooLong(nextHop: configuration.nextHop)))
      }
      return entry(of: exchange, permit, withState { $0.launch(exchange, at: time) }, at: time)
    case .refused(let retryAfter): return .done(.failure(refusal(of: exchange, retryAfter: retryAfter)))
    case .timedOut: return .done(.failure(.waitedTooLong(nextHop: configuration.nextHop)))
    case .cancelled: return .done(.cancelled)
    }
  }

  private func refusal(of exchange: CatalogExchange, retryAfter: Duration) -> UpstreamFailure {
    exchange.isLimited
      ? .rateLimited(retryAfter: retryAfter, nextHop: configuration.nextHop) : .overloaded(retryAfter: retryAfter)
  }

  private func entry(
    of exchange: CatalogExchange, _ permit: HeldPermit, _ launch: State.Launch, at time: CacheTime
  ) -> Step {
    exchange.isLimited = false
    switch launch {
    case .ready(let pass, let token, let spanID):
      return .ready(CatalogAttempt(permit, pass, token, exchange.call.span?.child(spanID), at: time))
    case .withoutToken(let pass):
      guard let token = currentToken() else {
        permit.release(.inconclusive)
        record(.neutral, of: pass)
        return .done(.failure(.noToken))
      }
      let spanID = withState { $0.sends(for: exchange.caller) }
      return .ready(CatalogAttempt(permit, pass, token, exchange.call.span?.child(spanID), at: clock.now))
    case .refused(let refusal):
      permit.release(.inconclusive)
      return .done(.failure(.circuitOpen(refusal, nextHop: configuration.nextHop)))
    }
  }

  // MARK: 7 Send

  private func send(_ exchange: CatalogExchange, _ attempt: CatalogAttempt) async -> Step {
    step(after: await call(exchange, attempt).result(), to: exchange, attempt, at: clock.now)
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
      noteHead(of: response, to: exchange, attempt, at: now)
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
    attempt.permit.release(.inconclusive)
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

  /// Notes what the head of a response shows: the time to the response, and the clock skew by its `Date`. A response
  /// with an Age comes from a cache, so its `Date` is too old for that.
  @inline(never)
  private func noteHead(
    of response: UpstreamResponse, to exchange: CatalogExchange, _ attempt: CatalogAttempt, at end: CacheTime
  ) {
    let now = end.elapsed
    observer.noticed(.responded(after: now - attempt.start.elapsed))
    note(.status(response.status.code, response.version), of: exchange, attempt)
    var date: Int?
    if !response.fields.has("age") || response.fields.text(of: "age") == "0" {
      date = FieldDate.seconds(ofOnly: "date", in: response.fields, now: end.wall)
    }
    let noted = withState { state in
      if let date { state.clockSkew.note(date: date, sentAt: attempt.start.wall, receivedAt: end.wall, now: now) }
      let circuit = state.record(CircuitOutcome(response.status), of: attempt.pass, now: now)
      guard response.isFinal(for: exchange) else { return (circuit, isAcceptedAgain: false) }
      state.retryBudget.succeeded()
      return (circuit, response.status.provesToken && state.accepted(attempt.token, at: end))
    }
    report(noted.0)
    if noted.isAcceptedAgain { observer.noticed(.tokenAccepted) }
  }

  // MARK: 8 Evaluate

  @inline(never)
  private func evaluate(
    _ response: UpstreamResponse, to exchange: CatalogExchange, _ attempt: CatalogAttempt
  ) -> Step {
    guard !response.isFinal(for: exchange) else { return .done(.response(response, attempt.permit)) }
    switch response.status.code {
    case 429:
      response.content.cancel()
      return evaluateLimit(response, exchange, attempt.permit)
    case 500...:
      response.content.cancel()
      attempt.permit.release(.inconclusive)
      withState { $0.counts.failures += 1 }
      observer.noticed(.upstreamStatus(response.status.code))
      return .done(.failure(.status(response.status, nextHop: configuration.nextHop)))
    default:
      return evaluateUnsolicited(response, attempt.permit)
    }
  }

  /// Evaluates a response that does not match the request: 206, although the server never sends `Range`, or 304 to a
  /// request without preconditions. The caller would treat a part as the whole (RFC 9110 §15.3.7, §15.4.5).
  private func evaluateUnsolicited(_ response: UpstreamResponse, _ permit: HeldPermit) -> Step {
    response.content.cancel()
    permit.release(.answered)
    withState { $0.counts.failures += 1 }
    observer.noticed(.upstreamStatus(response.status.code))
    return .done(.failure(.status(response.status, nextHop: configuration.nextHop)))
  }

  /// Returns the result of a cancelled exchange. The caller has disconnected if the task is cancelled or the request's
  /// content broke off. Otherwise the server stops, and the caller, which is still connected, gets an error.
  func givenUp(_ exchange: CatalogExchange) -> CatalogExchange.Result {
    if Task.isCancelled || exchange.content?.isBroken == true { return .cancelled }
    return .failure(.givenUp(nextHop: configuration.nextHop))
  }

  private func evaluateLimit(
    _ response: UpstreamResponse, _ exchange: CatalogExchange, _ permit: HeldPermit
  ) -> Step {
    let now = clock.elapsed
    let asked = response.fields.text(of: "retry-after").flatMap { Duration(retryAfter: $0, now: clock.now.wall) }
    permit.release(.limited(retryAfter: asked))
    let rate = withState { state in
      state.counts.limited += 1
      state.clientCounts[exchange.caller.client, default: ClientCounts()].limited += 1
      state.recentRefusals.record(now: now)
      return state.limit.rate
    }
    observer.noticed(.limited(rate: rate))
    exchange.isLimited = true
    switch decision(.limited(retryAfter: asked), of: exchange) {
    case .retry(let delay): return .again(after: delay)
    case .giveUp:
      return .done(.failure(.rateLimited(retryAfter: asked ?? .seconds(1), nextHop: configuration.nextHop)))
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
  fileprivate mutating func decision(
    on exchange: CatalogExchange, _ admission: ConcurrencyLimit<OneShot<Admission>>.Admission,
    _ waiting: OneShot<Admission>?, at time: CacheTime
  ) -> CatalogGateway.Decision {
    switch (admission, waiting) {
    case (.granted(let permit), _): .launched(permit, launch(exchange, at: time))
    case (.refused(let retryAfter), _): .refused(retryAfter: retryAfter)
    case (.queued(let ticket), let waiting): .queued(.init(ticket: ticket, waiting: waiting ?? OneShot()))
    }
  }
}

extension UpstreamResponse {
  /// Whether the caller gets the response. Otherwise it is an error of Apple, or does not match the request: 206,
  /// although the server never sends `Range`, or 304 to a request without preconditions.
  fileprivate func isFinal(for exchange: CatalogExchange) -> Bool {
    switch status.code {
    case 206, 401, 429, 500...: false
    case 304: exchange.isConditional
    default: true
    }
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
