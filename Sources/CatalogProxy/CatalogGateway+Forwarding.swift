import HTTPCache
import HTTPMessages
import HTTPTypes
import UpstreamAdmission

/// Requests that the cache is not for: a user's, `/v1/test`, and what its caller wants unstored.
extension CatalogGateway {
  /// Hands a request on, and its response as it comes.
  func forward(
    _ call: CatalogCall, content: (any ContentReader)?, contentLength: Int?, by route: UpstreamRoute, end: Duration
  ) async -> CatalogReply {
    let request = UpstreamRequest(
      call.method, call.target.target, fields: call.fields, content: content, contentLength: contentLength)
    let exchange = CatalogExchange(request, for: call, end: end, route: route)
    let status = CacheStatus(.forwarded(call.target.isStorable ? .request : .bypass))
    switch await perform(exchange) {
    case .response(let response, let permit):
      return .response(passThrough(held(response, permit, until: end, route), to: call, status))
    case .failure(let failure): return .failure(failure.response(status))
    case .cancelled: return .cancelled
    }
  }

  /// A response whose content gives the turn back at its end, or when its time is up: the caller may be slow to read it.
  func held(
    _ response: UpstreamResponse, _ permit: HeldPermit, until end: Duration, _ route: UpstreamRoute
  ) -> UpstreamResponse {
    var response = response
    response.content = PermittedContent(response.content, permit)
    expire(.turn(permit), at: end, route)
    return response
  }
}

/// 401: whether it is about the developer token, and what can be done about it.
extension CatalogGateway {
  /// Tries once more with another token, says why that is in vain, or passes the 401 through if it is about the user.
  func judgeRefusedToken(
    _ response: UpstreamResponse, _ exchange: CatalogExchange, _ permit: HeldPermit, _ token: ProxyToken,
    _ progress: inout Progress
  ) async -> Step {
    // A token from before the clock was set is refused for a reason that has passed: the current one is another.
    if token.isFromAnotherClock(at: clock.now) {
      _ = currentToken()
      progress.hasFreshToken = false
    }
    if exchange.isForUser {
      switch await verdict(on: token, exchange) {
      case .accepted, .unknown: return .done(.response(response, permit))
      case .abandoned: return end(response, permit, givenUp(exchange))
      case .refused: break
      }
    }
    if hasTokenAgain(after: token, isRetry: progress.hasFreshToken), exchange.isUntouched,
      withState({ $0.budget.withdraw() })
    {
      withState { $0.counts.tokenRejections += 1 }
      response.content.cancel()
      permit.release(.answered)
      progress.hasFreshToken = true
      return .again(after: .zero)
    }
    if !exchange.isForUser {
      switch await verdict(on: token, exchange) {
      case .accepted:
        return end(response, permit, .failure(.status(response.status, nextHop: configuration.nextHop)))
      case .abandoned: return end(response, permit, givenUp(exchange))
      case .refused, .unknown: break
      }
    }
    return end(response, permit, .failure(rejected(token, by: response)))
  }

  private func end(_ response: UpstreamResponse, _ permit: HeldPermit, _ result: CatalogExchange.Result) -> Step {
    response.content.cancel()
    permit.release(.answered)
    return .done(result)
  }

  private func rejected(_ token: ProxyToken, by response: UpstreamResponse) -> UpstreamFailure {
    withState { state in
      state.counts.tokenRejections += 1
      if let version = token.version { state.remint.rejected(version) }
    }
    let now = clock.now.wall
    let date = response.fields[.date].flatMap { FieldDate.seconds($0, now: now) }
    let rejection = TokenRejection(upstreamDate: date, now: now, key: .active)
    observer.noticed(.tokenRejected(rejection))
    return .tokenRejected(rejection, nextHop: configuration.nextHop)
  }

  /// Whether there is another token to try with.
  private func hasTokenAgain(after token: ProxyToken, isRetry: Bool) -> Bool {
    let now = clock.elapsed
    guard let version = token.version else { return false }
    switch withState({ $0.remint.unauthorized(version, isRetry: isRetry, now: now) }) {
    case .mint: return currentToken() != nil
    case .retryWithCurrent: return true
    case .exhausted: return false
    }
  }

  /// Asks `/v1/test` whether Apple accepts the developer token of a request that got 401.
  private func verdict(on token: ProxyToken, _ exchange: CatalogExchange) async -> TokenRefreshPolicy.Verdict {
    guard let version = token.version else { return .unknown }
    while clock.elapsed < exchange.end {
      let now = clock.elapsed
      switch withState({ $0.remint.suspected(version, now: now) }) {
      case .accepted: return .accepted
      case .refused: return .refused
      case .unknown: return .unknown
      case .wait(let delay):
        guard (try? await exchange.route.upstream.pause(for: delay)) != nil else { return .abandoned }
      case .askTest:
        let verdict = await test(token, exchange)
        let end = clock.elapsed
        withState { $0.remint.tested(verdict, version, now: end) }
        return verdict
      }
    }
    return .unknown
  }

  private func test(_ token: ProxyToken, _ exchange: CatalogExchange) async -> TokenRefreshPolicy.Verdict {
    var fields: HTTPFields = [.accept: "application/json"]
    HeaderPolicy.authorize(&fields, with: token.credential)
    let start = clock.elapsed
    withState { state in
      state.counts.attempts += 1
      state.limit.sentWithoutTurn(now: start)
    }
    var timeouts = configuration.timeouts
    timeouts.whole = max(exchange.end - start, .milliseconds(1))
    let request = UpstreamRequest(.get, "/v1/test", fields: fields)
    let response = try? await exchange.route.upstream.send(request, limits: timeouts)
    response?.content.cancel()
    if let response, response.status == .tooManyRequests { limited(response, sentAt: start) }
    guard !Task.isCancelled else { return .abandoned }
    switch response?.status.code {
    case 401: return .refused
    case .some(200..<300): return .accepted
    default: return .unknown
    }
  }
}

extension CatalogGateway {
  /// Apple has refused a request that had no turn: the quota is the same.
  private func limited(_ response: UpstreamResponse, sentAt start: Duration) {
    let end = clock.elapsed
    let asked = response.fields[.retryAfter].flatMap { Duration(retryAfter: $0, now: clock.now.wall) }
    let rate = withState { state in
      state.counts.limited += 1
      state.recentRefusals.record(now: end)
      state.limit.refusedWithoutTurn(sentAt: start, retryAfter: asked, now: end)
      return state.limit.rate
    }
    observer.noticed(.limited(rate: rate ?? 0))
  }
}

extension HTTPResponse.Status {
  /// Whether Apple gives it only after it has accepted the developer token. 429 and 5xx may come before that is looked
  /// at, and so may what is wrong with the request itself, which the caller wrote.
  var provesToken: Bool { (200..<400).contains(code) || code == 403 || code == 404 }
}
