import HTTPMessages
import HTTPTypes

/// Going upstream: in one's turn, with a token, again where that is safe and of use.
extension CatalogProxy {
  /// Sends a request until there is an answer worth having, or no more to be tried. The response's content gives the turn
  /// back at its end.
  func perform(_ exchange: Exchange, on upstream: any Upstream) async -> Exchange.Result {
    let end = clock.elapsed + configuration.timeouts.whole
    withState { $0.budget.requested() }
    var progress = Progress()
    while true {
      let permit: HeldPermit
      switch await admit(exchange, until: end) {
      case .granted(let granted): permit = HeldPermit(granted, of: self)
      case .refused(let retryAfter): return .failure(.overloaded(retryAfter: retryAfter))
      case .timedOut: return .failure(.waitedTooLong(nextHop: configuration.nextHop))
      case .cancelled: return .cancelled
      }
      switch await attempt(exchange, permit, until: end, &progress, on: upstream) {
      case .done(let result): return result
      case .again(let delay):
        progress.number += 1
        withState { $0.counts.retries += 1 }
        if delay > .zero, (try? await upstream.pause(for: delay)) == nil { return .cancelled }
      }
    }
  }

  /// How far a request has come over its attempts.
  struct Progress {
    var number = 1
    /// When the first 429 came.
    var limitedSince: Duration?
    /// Whether a token was made for it after a 401.
    var hasFreshToken = false
  }

  enum Step {
    case done(Exchange.Result)
    case again(after: Duration)
  }

  private func attempt(
    _ exchange: Exchange, _ permit: HeldPermit, until end: Duration, _ progress: inout Progress,
    on upstream: any Upstream
  ) async -> Step {
    let now = clock.elapsed
    let pass: CircuitPass
    switch withState({ $0.circuit.admit(now: now) }) {
    case .pass(let granted): pass = granted
    case .open(let retryAfter):
      permit.release(.inconclusive)
      return .done(.failure(.circuitOpen(retryAfter: retryAfter, nextHop: configuration.nextHop)))
    }
    guard let token = currentToken() else {
      permit.release(.inconclusive)
      record(.neutral, of: pass)
      return .done(.failure(.noToken))
    }
    var request = exchange.request
    HeaderPolicy.authorize(&request.fields, with: token.text)
    withState { $0.counts.attempts += 1 }
    do throws(UpstreamError) {
      let response = try await upstream.send(request, limits: timeouts(until: end))
      record(CircuitOutcome(response.status), of: pass)
      return await judge(response, to: exchange, permit, token, until: end, &progress, on: upstream)
    } catch {
      return judge(error, of: exchange, permit, pass, until: end, progress)
    }
  }

  private func timeouts(until end: Duration) -> UpstreamTimeouts {
    var timeouts = configuration.timeouts
    timeouts.whole = max(end - clock.elapsed, .milliseconds(1))
    return timeouts
  }

  // MARK: Judging

  private func judge(
    _ response: UpstreamResponse, to exchange: Exchange, _ permit: HeldPermit, _ token: ProxyToken,
    until end: Duration, _ progress: inout Progress, on upstream: any Upstream
  ) async -> Step {
    switch response.status.code {
    case 401:
      return await judgeRefusedToken(response, exchange, permit, token, &progress, on: upstream)
    case 429:
      accepted(token)
      response.content.cancel()
      permit.release(.limited)
      return judgeLimit(exchange, until: end, &progress)
    case let status:
      accepted(token)
      if status >= 500 {
        withState { $0.counts.failures += 1 }
        observer.noticed(.upstreamStatus(status))
      } else {
        withState { $0.budget.succeeded() }
      }
      return .done(.response(response.holding(permit)))
    }
  }

  private func judge(
    _ error: UpstreamError, of exchange: Exchange, _ permit: HeldPermit, _ pass: CircuitPass,
    until end: Duration, _ progress: Progress
  ) -> Step {
    record(CircuitOutcome(error), of: pass)
    permit.release(.inconclusive)
    guard error.cause != .cancelled else { return .done(.cancelled) }
    withState { $0.counts.failures += 1 }
    observer.noticed(.exchangeFailed(error))
    switch decision(.failed(error), of: exchange, until: end, progress) {
    case .retry(let delay): return .again(after: delay)
    case .giveUp: return .done(.failure(UpstreamFailure(error, nextHop: configuration.nextHop)))
    }
  }

  private func judgeLimit(_ exchange: Exchange, until end: Duration, _ progress: inout Progress) -> Step {
    let limit = withState { state in
      state.counts.limited += 1
      return state.limit.limit
    }
    observer.noticed(.limited(limit: limit))
    progress.limitedSince = progress.limitedSince ?? clock.elapsed
    switch decision(.limited(retryAfter: nil), of: exchange, until: end, progress) {
    case .retry(let delay): return .again(after: delay)
    case .giveUp:
      return .done(.failure(.rateLimited(retryAfter: .seconds(1), nextHop: configuration.nextHop)))
    }
  }

  private func decision(
    _ ending: Attempt.Ending, of exchange: Exchange, until end: Duration, _ progress: Progress
  ) -> RetryPolicy.Decision {
    let now = clock.elapsed
    var attempt = Attempt(exchange.request.method, ending, number: progress.number, timeLeft: end - now)
    attempt.sinceLimited = progress.limitedSince.map { now - $0 } ?? .zero
    attempt.hasReadContent = exchange.content?.isTouched ?? false
    return withState { state in
      state.retries.decision(after: attempt, budget: &state.budget, using: &state.random)
    }
  }

  private func record(_ outcome: CircuitOutcome, of pass: CircuitPass) {
    let now = clock.elapsed
    let (before, after) = withState { state in
      let before = !state.circuit.isClosed
      state.circuit.record(outcome, of: pass, now: now)
      return (before, !state.circuit.isClosed)
    }
    if before != after { observer.noticed(after ? .circuitOpened : .circuitClosed) }
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

extension UpstreamResponse {
  /// This response, which gives a permit back at the end of its content.
  fileprivate func holding(_ permit: HeldPermit) -> UpstreamResponse {
    var response = self
    response.content = PermittedContent(content, permit)
    return response
  }
}
