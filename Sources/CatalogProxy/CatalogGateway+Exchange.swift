import HTTP1
import HTTPCache
import HTTPMessages
import HTTPTypes
import Tracing
import UpstreamAdmission

/// Phases 5 to 8 of a request: one upstream request, and further attempts if they are safe and useful.
extension CatalogGateway {
  /// Sends a request until there is a final response, or no further attempt is allowed.
  func exchange(_ exchange: CatalogExchange) async -> CatalogExchange.Result {
    withState { $0.retryBudget.requested() }
    var progress = Progress()
    while true {
      switch await attempt(exchange, &progress) {
      case .done(let result): return result
      case .again(let delay):
        progress.number += 1
        withState { $0.counts.retries += 1 }
        if delay > .zero, (try? await exchange.route.upstream.pause(for: delay)) == nil {
          return givenUp(exchange)
        }
      }
    }
  }

  /// The state of a request after some attempts.
  struct Progress {
    var number = 1
    /// Whether the response to the last attempt was 429.
    var isLimited = false
    /// Whether the server requested a new token for the request after a 401.
    var hasFreshToken = false
  }

  /// The result of an attempt.
  enum Step: Error {
    case done(CatalogExchange.Result)
    case again(after: Duration)
  }

  private func attempt(_ exchange: CatalogExchange, _ progress: inout Progress) async -> Step {
    do throws(Step) {
      let turn = try await admit(exchange, &progress)
      let token = try authorize(exchange, turn)
      let response = try await send(exchange, token, turn, progress)
      return await evaluate(response, to: exchange, turn.permit, token, &progress)
    } catch {
      return error
    }
  }

  // MARK: 5 Admit

  /// The permission to send one request.
  struct Turn {
    let permit: HeldPermit
    let pass: UpstreamCircuit.Pass
  }

  private func admit(_ exchange: CatalogExchange, _ progress: inout Progress) async throws(Step) -> Turn {
    // The circuit may refuse the request. Then it need not wait for a turn.
    let start = clock.elapsed
    if let refusal = withState({ $0.circuit.refusal(for: exchange.subject, now: start) }) {
      throw .done(.failure(.circuitOpen(refusal, nextHop: configuration.nextHop)))
    }
    let permit: HeldPermit
    switch await waitForTurn(exchange, isRepeated: progress.number > 1, isRetry: progress.isLimited) {
    case .granted(let granted): permit = HeldPermit(granted, of: self)
    case .refused(let retryAfter) where progress.isLimited:
      throw .done(.failure(.rateLimited(retryAfter: retryAfter, nextHop: configuration.nextHop)))
    case .refused(let retryAfter): throw .done(.failure(.overloaded(retryAfter: retryAfter)))
    case .timedOut: throw .done(.failure(.waitedTooLong(nextHop: configuration.nextHop)))
    case .cancelled: throw .done(.cancelled)
    }
    progress.isLimited = false
    let now = clock.elapsed
    guard exchange.end - now >= leastTime else {
      permit.release(.inconclusive)
      throw .done(.failure(.waitedTooLong(nextHop: configuration.nextHop)))
    }
    switch withState({ $0.circuit.admit(exchange.subject, now: now) }) {
    case .pass(let pass): return Turn(permit: permit, pass: pass)
    case .refused(let refusal):
      permit.release(.inconclusive)
      throw .done(.failure(.circuitOpen(refusal, nextHop: configuration.nextHop)))
    }
  }

  /// The server does not send a request with less time left than this: a response would hardly arrive in time.
  var leastTime: Duration { min(.seconds(1), configuration.timeouts.whole / 4) }

  // MARK: 6 Authorize

  private func authorize(_ exchange: CatalogExchange, _ turn: Turn) throws(Step) -> ProxyToken {
    if let token = currentToken() { return token }
    turn.permit.release(.inconclusive)
    record(.neutral, of: turn.pass)
    throw .done(.failure(.noToken))
  }

  // MARK: 7 Send

  private func send(
    _ exchange: CatalogExchange, _ token: ProxyToken, _ turn: Turn, _ progress: Progress
  ) async throws(Step) -> UpstreamResponse {
    var request = exchange.request
    let spanID = withState { state in
      state.counts.attempts += 1
      state.clientCounts[exchange.caller.client, default: ClientCounts()].attempts += 1
      return state.spanIDs.next()
    }
    let span = exchange.span?.child(spanID)
    if let span { HeaderPolicy.trace(&request.fields, as: span) }
    HeaderPolicy.authorize(&request.fields, with: token.credential)
    let start = clock.now
    var timeouts = configuration.timeouts
    timeouts.whole = exchange.end - .nanoseconds(Int64(start.monotonic))
    do throws(UpstreamError) {
      let response = try await exchange.route.upstream.send(request, limits: timeouts)
      note(response, since: start)
      note(.status(response.status.code, response.version), span, of: exchange, progress.number, since: start)
      record(CircuitOutcome(response.status), of: turn.pass)
      return response
    } catch {
      note(.failure(error.cause), span, of: exchange, progress.number, since: start)
      // After a long wait for a turn or for the caller's content, a timeout does not show a failure of Apple.
      let isOurs = error.isTimeout && (timeouts.whole < timeouts.firstByte || !exchange.isUntouched)
      record(isOurs ? .neutral : CircuitOutcome(error), of: turn.pass)
      throw evaluate(error, of: exchange, turn.permit, progress)
    }
  }

  /// Reports a sampled attempt.
  private func note(
    _ result: UpstreamAttempt.Result, _ span: SpanContext?, of exchange: CatalogExchange, _ number: Int,
    since start: CacheTime
  ) {
    guard let span, span.isSampled, let parent = exchange.span else { return }
    observer.noticed(
      .attempted(
        UpstreamAttempt(
          span: span, parent: parent.spanID, method: exchange.request.method, route: exchange.pathTemplate,
          client: exchange.caller.client, resends: number - 1,
          duration: .nanoseconds(Int64(clock.now.monotonic - start.monotonic)), result: result)))
  }

  /// Measures the time to the response, and the clock skew that its `Date` shows. A response with an Age comes from a
  /// cache, so its `Date` is too old for that.
  private func note(_ response: UpstreamResponse, since start: CacheTime) {
    let end = clock.now
    let now = Duration.nanoseconds(Int64(end.monotonic))
    observer.noticed(.responded(after: .nanoseconds(Int64(end.monotonic - start.monotonic))))
    guard response.fields.value(of: .age) ?? "0" == "0", let text = response.fields.value(of: .date),
      let date = FieldDate.seconds(text, now: end.wall)
    else { return }
    withState { $0.clockSkew.note(date: date, sentAt: start.wall, receivedAt: end.wall, now: now) }
  }

  // MARK: 8 Evaluate

  private func evaluate(
    _ response: UpstreamResponse, to exchange: CatalogExchange, _ permit: HeldPermit, _ token: ProxyToken,
    _ progress: inout Progress
  ) async -> Step {
    switch response.status.code {
    case 206,
      304 where !exchange.request.isConditional:
      return evaluateUnsolicited(response, permit)
    case 401:
      return await evaluateUnauthorized(response, exchange, permit, token, &progress)
    case 429:
      response.content.cancel()
      return evaluateLimit(response, exchange, permit, &progress)
    case 500...:
      response.content.cancel()
      permit.release(.inconclusive)
      withState { $0.counts.failures += 1 }
      observer.noticed(.upstreamStatus(response.status.code))
      return .done(.failure(.status(response.status, nextHop: configuration.nextHop)))
    default:
      if response.status.provesToken { accepted(token) }
      withState { $0.retryBudget.succeeded() }
      return .done(.response(response, permit))
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

  private func evaluate(
    _ error: UpstreamError, of exchange: CatalogExchange, _ permit: HeldPermit, _ progress: Progress
  ) -> Step {
    permit.release(.inconclusive)
    guard error.cause != .cancelled else { return .done(givenUp(exchange)) }
    withState { $0.counts.failures += 1 }
    observer.noticed(.exchangeFailed(error))
    switch decision(.failed(error), of: exchange, progress) {
    case .retry(let delay): return .again(after: delay)
    case .giveUp: return .done(.failure(UpstreamFailure(error, nextHop: configuration.nextHop)))
    }
  }

  /// Returns the result of a cancelled exchange. The caller has disconnected if the task is cancelled or the request's
  /// content broke off. Otherwise the server stops, and the caller, which is still connected, gets an error.
  func givenUp(_ exchange: CatalogExchange) -> CatalogExchange.Result {
    if Task.isCancelled || exchange.content?.isBroken == true { return .cancelled }
    return .failure(.givenUp(nextHop: configuration.nextHop))
  }

  private func evaluateLimit(
    _ response: UpstreamResponse, _ exchange: CatalogExchange, _ permit: HeldPermit, _ progress: inout Progress
  ) -> Step {
    let now = clock.elapsed
    let asked = response.fields.value(of: .retryAfter).flatMap { Duration(retryAfter: $0, now: clock.now.wall) }
    permit.release(.limited(retryAfter: asked))
    let rate = withState { state in
      state.counts.limited += 1
      state.clientCounts[exchange.caller.client, default: ClientCounts()].limited += 1
      state.recentRefusals.record(now: now)
      return state.limit.rate
    }
    observer.noticed(.limited(rate: rate ?? 0))
    progress.isLimited = true
    switch decision(.limited(retryAfter: asked), of: exchange, progress) {
    case .retry(let delay): return .again(after: delay)
    case .giveUp:
      return .done(.failure(.rateLimited(retryAfter: asked ?? .seconds(1), nextHop: configuration.nextHop)))
    }
  }

  private func decision(
    _ ending: Attempt.Ending, of exchange: CatalogExchange, _ progress: Progress
  ) -> RetryPolicy.Decision {
    let now = clock.elapsed
    var attempt = Attempt(exchange.request.method, ending, number: progress.number, timeLeft: exchange.end - now)
    attempt.hasReadContent = !exchange.isUntouched
    return withState { state in
      state.retries.decision(after: attempt, budget: &state.retryBudget, using: &state.random)
    }
  }

  private func record(_ outcome: CircuitOutcome, of pass: UpstreamCircuit.Pass) {
    let now = clock.elapsed
    let (before, after) = withState { state in
      let before = !state.circuit.isClosed
      state.circuit.record(outcome, of: pass, now: now)
      return (before, !state.circuit.isClosed)
    }
    // A failed probe is reported too: the log suppresses repeated lines, and its last line must be true.
    if before != after || after && pass.isProbe { observer.noticed(after ? .circuitOpened : .circuitClosed) }
  }

  func accepted(_ token: ProxyToken) {
    let now = clock.now
    guard let version = token.version else { return }
    let isAcceptedAgain = withState { state in
      let before = state.tokenRefresh.isDegraded
      state.tokenRefresh.accepted(version, now: .nanoseconds(Int64(now.monotonic)))
      // A late response to a token of the last key proves nothing about this one.
      if state.token?.version == version { state.tokenAcceptedAt = now.wall }
      return before && !state.tokenRefresh.isDegraded
    }
    if isAcceptedAgain { observer.noticed(.tokenAccepted) }
  }
}

extension UpstreamRequest {
  /// Whether 304 is a possible response to the request (RFC 9110 §13.2.2).
  fileprivate var isConditional: Bool { fields.has(.ifNoneMatch) || fields.has(.ifModifiedSince) }
}

extension Duration {
  /// Parses `Retry-After`: seconds or an HTTP-date (RFC 9110 §10.2.3). Returns nil otherwise. The maximum is one day.
  init?(retryAfter text: String, now: Int) {
    if !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
      // A number that does not fit counts as the maximum.
      self = .seconds(min(Int(text) ?? .max, 86_400))
    } else if let date = FieldDate.seconds(text, now: now) {
      let (seconds, overflow) = date.subtractingReportingOverflow(now)
      self = .seconds(overflow ? 0 : min(max(seconds, 0), 86_400))
    } else {
      return nil
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
