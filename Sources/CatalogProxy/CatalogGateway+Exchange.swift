import HTTPCache
import HTTPMessages
import HTTPTypes
import UpstreamAdmission

/// Going upstream: in one's turn, with a token, again where that is safe and of use.
extension CatalogGateway {
  /// Sends a request until there is a response worth having, or no more to be tried.
  func perform(_ exchange: CatalogExchange) async -> CatalogExchange.Result {
    withState { $0.budget.requested() }
    var progress = Progress()
    while true {
      // Before one's turn: what would be refused need not wait for it.
      let now = clock.elapsed
      if let refusal = withState({ $0.circuit.refusal(for: exchange.subject, now: now) }) {
        return .failure(.circuitOpen(refusal, nextHop: configuration.nextHop))
      }
      let permit: HeldPermit
      switch await admit(exchange, isRetry: progress.isLimited) {
      case .granted(let granted): permit = HeldPermit(granted, of: self)
      case .refused(let retryAfter) where progress.isLimited:
        return .failure(.rateLimited(retryAfter: retryAfter, nextHop: configuration.nextHop))
      case .refused(let retryAfter): return .failure(.overloaded(retryAfter: retryAfter))
      case .timedOut: return .failure(.waitedTooLong(nextHop: configuration.nextHop))
      case .cancelled: return .cancelled
      }
      progress.isLimited = false
      switch await attempt(exchange, permit, &progress) {
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

  /// How far a request has come over its attempts.
  struct Progress {
    var number = 1
    /// Whether the last attempt was refused with 429.
    var isLimited = false
    /// Whether a token was made for it after a 401.
    var hasFreshToken = false
  }

  enum Step {
    case done(CatalogExchange.Result)
    case again(after: Duration)
  }

  private func attempt(_ exchange: CatalogExchange, _ permit: HeldPermit, _ progress: inout Progress) async -> Step {
    guard exchange.end - clock.elapsed >= leastTime else {
      permit.release(.inconclusive)
      return .done(.failure(.waitedTooLong(nextHop: configuration.nextHop)))
    }
    let now = clock.elapsed
    let pass: UpstreamCircuit.Pass
    switch withState({ $0.circuit.admit(exchange.subject, now: now) }) {
    case .pass(let granted): pass = granted
    case .refused(let refusal):
      permit.release(.inconclusive)
      return .done(.failure(.circuitOpen(refusal, nextHop: configuration.nextHop)))
    }
    guard let token = currentToken() else {
      permit.release(.inconclusive)
      record(.neutral, of: pass)
      return .done(.failure(.noToken))
    }
    var request = exchange.request
    HeaderPolicy.authorize(&request.fields, with: token.credential)
    withState { state in
      state.counts.attempts += 1
      state.clientCounts[exchange.caller.client, default: ClientCounts()].attempts += 1
    }
    var timeouts = configuration.timeouts
    timeouts.whole = exchange.end - now
    let start = clock.now
    do throws(UpstreamError) {
      let response = try await exchange.route.upstream.send(request, limits: timeouts)
      note(response, since: start)
      record(CircuitOutcome(response.status), of: pass)
      return await judge(response, to: exchange, permit, token, &progress)
    } catch {
      // What ran out of time because it had waited for its turn, or for its caller's content, says nothing of Apple.
      let isOurs = error.isTimeout && (timeouts.whole < timeouts.firstByte || !exchange.isUntouched)
      record(isOurs ? .neutral : CircuitOutcome(error), of: pass)
      return judge(error, of: exchange, permit, progress)
    }
  }

  /// Measures how long a response took, and what its `Date` says of the clocks. The `Date` of a stored response, which
  /// has an Age, is as old as that.
  private func note(_ response: UpstreamResponse, since start: CacheTime) {
    let end = clock.now
    let now = Duration.nanoseconds(Int64(end.monotonic))
    observer.noticed(.responded(after: .nanoseconds(Int64(end.monotonic - start.monotonic))))
    guard response.fields[.age] ?? "0" == "0", let text = response.fields[.date],
      let date = FieldDate.seconds(text, now: end.wall)
    else { return }
    withState { $0.skew.note(date: date, sentAt: start.wall, receivedAt: end.wall, now: now) }
  }

  /// With less time left than this, a request is not sent: it would hardly be answered.
  var leastTime: Duration { min(.seconds(1), configuration.timeouts.whole / 4) }

  // MARK: Judging

  private func judge(
    _ response: UpstreamResponse, to exchange: CatalogExchange, _ permit: HeldPermit, _ token: ProxyToken,
    _ progress: inout Progress
  ) async -> Step {
    switch response.status.code {
    case 206,
      304 where !exchange.request.isConditional:
      return judgeUnsolicited(response, permit)
    case 401:
      return await judgeRefusedToken(response, exchange, permit, token, &progress)
    case 429:
      response.content.cancel()
      return judgeLimit(response, exchange, permit, &progress)
    case 500...:
      response.content.cancel()
      permit.release(.inconclusive)
      withState { $0.counts.failures += 1 }
      observer.noticed(.upstreamStatus(response.status.code))
      return .done(.failure(.status(response.status, nextHop: configuration.nextHop)))
    default:
      if response.status.provesToken { accepted(token) }
      withState { $0.budget.succeeded() }
      return .done(.response(response, permit))
    }
  }

  /// A response that no request of ours asks for: 206, since `Range` is never sent, or 304 to a request without
  /// preconditions. To hand it on would give the caller a part for the whole (RFC 9110 §15.3.7, §15.4.5).
  private func judgeUnsolicited(_ response: UpstreamResponse, _ permit: HeldPermit) -> Step {
    response.content.cancel()
    permit.release(.answered)
    withState { $0.counts.failures += 1 }
    observer.noticed(.upstreamStatus(response.status.code))
    return .done(.failure(.status(response.status, nextHop: configuration.nextHop)))
  }

  private func judge(
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

  /// What an exchange comes to that was given up on this side. Its caller has gone if the task is cancelled or the
  /// request's content broke off. Otherwise the caller is still there, because the server ends, and gets an error.
  func givenUp(_ exchange: CatalogExchange) -> CatalogExchange.Result {
    if Task.isCancelled || exchange.content?.isBroken == true { return .cancelled }
    return .failure(.givenUp(nextHop: configuration.nextHop))
  }

  private func judgeLimit(
    _ response: UpstreamResponse, _ exchange: CatalogExchange, _ permit: HeldPermit, _ progress: inout Progress
  ) -> Step {
    let now = clock.elapsed
    let asked = response.fields[.retryAfter].flatMap { Duration(retryAfter: $0, now: clock.now.wall) }
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
      state.retries.decision(after: attempt, budget: &state.budget, using: &state.random)
    }
  }

  private func record(_ outcome: CircuitOutcome, of pass: UpstreamCircuit.Pass) {
    let now = clock.elapsed
    let (before, after) = withState { state in
      let before = !state.circuit.isClosed
      state.circuit.record(outcome, of: pass, now: now)
      return (before, !state.circuit.isClosed)
    }
    // Also told of a probe that failed: the log holds lines back, and must not end with one that is not true any more.
    if before != after || after && pass.isProbe { observer.noticed(after ? .circuitOpened : .circuitClosed) }
  }

  func accepted(_ token: ProxyToken) {
    let now = clock.elapsed
    guard let version = token.version else { return }
    let isMended = withState { state in
      let before = state.remint.isDegraded
      state.remint.accepted(version, now: now)
      return before && !state.remint.isDegraded
    }
    if isMended { observer.noticed(.tokenAccepted) }
  }
}

extension UpstreamRequest {
  /// Whether 304 is a response to it (RFC 9110 §13.2.2).
  fileprivate var isConditional: Bool { fields.contains(.ifNoneMatch) || fields.contains(.ifModifiedSince) }
}

extension Duration {
  /// `Retry-After`: seconds or an HTTP-date (RFC 9110 §10.2.3); nil for anything else.
  init?(retryAfter text: String, now: Int) {
    if !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
      // What does not fit is as long as what does.
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
  /// Whether time ran out.
  fileprivate var isTimeout: Bool {
    switch cause {
    case .responseTimeout, .connectionReadTimeout, .connectionWriteTimeout, .connectionTimeout: true
    default: false
    }
  }
}
