import HTTPMessages
import HTTPTypes

/// 401: whose it is, and what can be done about it.
extension CatalogProxy {
  /// Tries once more with another token, or says why that is in vain. Under `/v1/me` it may be the user's.
  func judgeRefusedToken(
    _ response: UpstreamResponse, _ exchange: Exchange, _ permit: HeldPermit, _ token: ProxyToken,
    _ progress: inout Progress
  ) async -> Step {
    withState { $0.counts.tokenRejections += 1 }
    if exchange.isForUser {
      switch await whose(token, exchange) {
      case .users: return .done(.response(response, permit))
      case .nobodys:
        response.content.cancel()
        permit.release(.inconclusive)
        return .done(.cancelled)
      case .ours: break
      }
    }
    response.content.cancel()
    permit.release(.answered)
    if hasTokenAgain(after: token, isRetry: progress.hasFreshToken), exchange.isUntouched,
      withState({ $0.budget.withdraw() })
    {
      progress.hasFreshToken = true
      return .again(after: .zero)
    }
    let now = clock.now.wall
    let date = response.fields[.date].flatMap { FieldDate.seconds($0, now: now) }
    let rejection = TokenRejection(upstreamDate: date, now: now, key: .active)
    observer.noticed(.tokenRejected(rejection))
    return .done(.failure(.tokenRejected(rejection, nextHop: configuration.nextHop)))
  }

  /// Whether there is another token to try with.
  private func hasTokenAgain(after token: ProxyToken, isRetry: Bool) -> Bool {
    let now = clock.elapsed
    guard let version = token.version else { return false }
    switch withState({ $0.remint.unauthorized(version, isRetry: isRetry, now: now) }) {
    case .mint: return currentToken() != nil
    case .retryWithCurrent: return true
    case .rejected: return false
    }
  }

  private enum Whose {
    case ours, users
    /// Nobody waits any more.
    case nobodys
  }

  /// Whose token a 401 under `/v1/me` is about: if Apple takes ours at `/v1/test`, which is asked once in a while, it must
  /// be the user's.
  private func whose(_ token: ProxyToken, _ exchange: Exchange) async -> Whose {
    guard let version = token.version else { return .ours }
    while clock.elapsed < exchange.end {
      let now = clock.elapsed
      switch withState({ $0.remint.suspected(version, now: now) }) {
      case .theirs: return .users
      case .ours: return .ours
      case .wait(let delay):
        guard (try? await exchange.route.upstream.pause(for: delay)) != nil else { return .nobodys }
      case .askTest:
        let verdict = await test(token, exchange)
        let end = clock.elapsed
        withState { $0.remint.tested(verdict, version, now: end) }
        if Task.isCancelled { return .nobodys }
        return verdict == .refused ? .ours : .users
      }
    }
    return .users
  }

  private func test(_ token: ProxyToken, _ exchange: Exchange) async -> RemintPolicy.TestOutcome {
    var fields: HTTPFields = [.accept: "application/json"]
    HeaderPolicy.authorize(&fields, with: token.credential)
    withState { $0.counts.attempts += 1 }
    var timeouts = configuration.timeouts
    timeouts.whole = max(exchange.end - clock.elapsed, .milliseconds(1))
    let request = UpstreamRequest(.get, "/v1/test", fields: fields)
    guard let response = try? await exchange.route.upstream.send(request, limits: timeouts) else {
      return .inconclusive
    }
    response.content.cancel()
    switch response.status.code {
    case 401: return .refused
    case 200..<300: return .accepted
    default: return .inconclusive
    }
  }
}
