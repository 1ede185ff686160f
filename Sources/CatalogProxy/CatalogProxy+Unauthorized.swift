import HTTPMessages
import HTTPTypes

/// 401: whose it is, and what can be done about it.
extension CatalogProxy {
  /// Tries once more with another token, or says why that is in vain. Under `/v1/me` it may be the user's.
  func judgeRefusedToken(
    _ response: UpstreamResponse, _ exchange: Exchange, _ permit: HeldPermit, _ token: ProxyToken,
    _ progress: inout Progress, on upstream: any Upstream
  ) async -> Step {
    withState { $0.counts.tokenRejections += 1 }
    permit.release(.answered)
    if exchange.isForUser, await isTrusted(token, on: upstream) { return .done(.response(response)) }
    response.content.cancel()
    let now = clock.now
    if hasTokenAgain(after: token, isRetry: progress.hasFreshToken), !(exchange.content?.isTouched ?? false) {
      progress.hasFreshToken = true
      return .again(after: .zero)
    }
    let date = response.fields[.date].flatMap { FieldDate.seconds($0, now: now.wall) }
    let rejection = TokenRejection(upstreamDate: date, now: now.wall, key: .active)
    observer.noticed(.tokenRejected(rejection))
    return .done(.failure(.tokenRejected(rejection, nextHop: configuration.nextHop)))
  }

  /// Whether there is another token to try with.
  private func hasTokenAgain(after token: ProxyToken, isRetry: Bool) -> Bool {
    let now = clock.elapsed
    guard let version = token.version else { return false }
    switch withState({ $0.remint.unauthorized(version, isRetry: isRetry, now: now) }) {
    case .mint(let version): return mintToken(now: clock.now.wall, version: version) != nil
    case .retryWithCurrent: return true
    case .rejected: return false
    }
  }

  /// Whether Apple takes our developer token, so that a 401 must be about the user: `/v1/test` knows, and is asked once in
  /// a while.
  private func isTrusted(_ token: ProxyToken, on upstream: any Upstream) async -> Bool {
    guard let version = token.version else { return false }
    while true {
      let now = clock.elapsed
      switch withState({ $0.remint.suspected(version, now: now) }) {
      case .theirs: return true
      case .ours: return false
      case .wait(let delay):
        guard (try? await upstream.pause(for: delay)) != nil else { return false }
      case .askTest:
        let verdict = await test(token, on: upstream)
        let end = clock.elapsed
        withState { $0.remint.tested(verdict, version, now: end) }
      }
    }
  }

  private func test(_ token: ProxyToken, on upstream: any Upstream) async -> RemintPolicy.TestOutcome {
    var fields: HTTPFields = [.accept: "application/json"]
    HeaderPolicy.authorize(&fields, with: token.text)
    withState { $0.counts.attempts += 1 }
    let request = UpstreamRequest(.get, "/v1/test", fields: fields)
    guard let response = try? await upstream.send(request, limits: configuration.timeouts) else { return .inconclusive }
    response.content.cancel()
    switch response.status.code {
    case 401: return .refused
    case 200..<300: return .accepted
    default: return .inconclusive
    }
  }
}
