import Bytes
import HTTP1
import HTTPCache
import HTTPMessages
import HTTPTypes
import Tracing
public import UpstreamAdmission

/// The evidence after a 401 on whether Apple refuses the developer token or the user's token.
extension CatalogGateway {
  /// Notes that Apple refuses a token, and that no other token helps.
  func rejected(_ token: ProxyToken, by response: UpstreamResponse) -> UpstreamFailure {
    withAdmission { admission in
      admission.counts.tokenRejections += 1
      if let version = token.version { admission.tokenRefresh.rejected(version) }
    }
    let rejection = rejection(by: response)
    observer.noticed(.tokenRejected(rejection, keyID: token.keyID))
    return .tokenRejected(rejection, nextHop: configuration.nextHop)
  }

  private func rejection(by response: UpstreamResponse) -> TokenRejection {
    let now = clock.now.wall
    let date = FieldDate.seconds(ofOnly: "date", in: response.fields, now: now)
    return TokenRejection(upstreamDate: date, now: now)
  }

  /// Returns whether there is another token to send.
  func hasTokenAgain(after token: ProxyToken, isRetry: Bool) -> Bool {
    switch refreshAction(after: token, isRetry: isRetry) {
    case .mint: currentToken() != nil
    case .retryWithCurrent: true
    case .exhausted: false
    }
  }

  /// Returns whether there is another token to send, once the remote signer has signed it.
  func hasRemoteTokenAgain(after token: ProxyToken, isRetry: Bool) async -> Bool {
    switch refreshAction(after: token, isRetry: isRetry) {
    case .mint: await remoteToken() != nil
    case .retryWithCurrent: true
    case .exhausted: false
    }
  }

  private func refreshAction(after token: ProxyToken, isRetry: Bool) -> TokenRefreshPolicy.RefreshAction {
    let now = clock.elapsed
    guard let version = token.version else { return .exhausted }
    return withAdmission { $0.tokenRefresh.unauthorized(version, isRetry: isRetry, now: now) }
  }

  /// Finds out with `/v1/test` whether Apple accepts the developer token of a request with a 401 response.
  ///
  /// - Parameters:
  ///   - mayResend: Whether that request can be sent again.
  ///   - cause: The span of that request.
  func verdict(
    on token: ProxyToken, mayResend: Bool, until end: Duration, by route: UpstreamRoute, of cause: SpanContext?
  ) async -> TokenVerdict {
    guard let version = token.version else { return .unknown }
    while clock.elapsed < end {
      let now = clock.elapsed
      switch withAdmission({ $0.tokenRefresh.suspected(version, mayResend: mayResend, now: now) }) {
      case .accepted: return .accepted
      case .refused: return .refused
      case .unknown: return .unknown
      case .wait(let delay):
        guard (try? await route.upstream.pause(for: delay)) != nil else { return .abandoned }
      case .askTest:
        let verdict = await test(token, by: route, end: end, of: cause).verdict
        let now = clock.elapsed
        withAdmission { $0.tokenRefresh.tested(verdict, version, now: now) }
        return verdict
      }
    }
    return .unknown
  }

  /// Asks Apple Music with `/v1/test` whether it accepts a developer token, which no other request needs to have sent.
  public func test(_ token: ProxyToken, by route: UpstreamRoute) async -> TokenTest {
    await test(token, by: route, end: clock.elapsed + configuration.timeouts.whole)
  }

  private func test(
    _ token: ProxyToken, by route: UpstreamRoute, end: Duration, of cause: SpanContext? = nil
  ) async -> TokenTest {
    var fields: FieldLines = [.accept: "application/json"]
    let start = clock.elapsed
    let spanID = withAdmission { $0.sentWithoutTurn(now: start) }
    let span = cause?.child(spanID)
    if let span { HeaderPolicy.trace(&fields, as: span) }
    var timeouts = configuration.timeouts
    timeouts.whole = max(end - start, .milliseconds(1))
    let request = UpstreamRequest(.get, "/v1/test", fields: fields, credential: token.credential)
    let result = await route.upstream.call(request, limits: timeouts).result()
    let response = try? result.get()
    response?.content.cancel()
    if let span, span.isSampled, let cause {
      observer.noticed(
        .attempted(
          UpstreamAttempt(
            span: span, parent: cause.spanID, method: .get, route: "/v1/test", client: nil, resends: 0,
            duration: clock.elapsed - start, result: .init(result))))
    }
    if let response, response.status == .tooManyRequests { limited(response, sentAt: start) }
    guard !Task.isCancelled else { return TokenTest(.abandoned, "The request to /v1/test was cancelled.") }
    switch result {
    case .failure(let error): return TokenTest(.unknown, error.description)
    case .success(let response): return judge(response)
    }
  }

  /// Records a 429 to a request without a turn, which counts against the same quota.
  private func limited(_ response: UpstreamResponse, sentAt start: Duration) {
    let end = clock.elapsed
    let asked = response.fields.text(of: "retry-after").flatMap { Duration(retryAfter: $0, now: clock.now.wall) }
    let (rate, needs) = withAdmission { admission in
      admission.counts.limited += 1
      admission.recentRefusals.record(now: end)
      admission.limit.refusedWithoutTurn(sentAt: start, retryAfter: asked, now: end)
      return (admission.limit.rate, admission.needs(now: end))
    }
    needs?.settleSoon()
    observer.noticed(.limited(rate: rate))
  }

  private func judge(_ response: UpstreamResponse) -> TokenTest {
    switch response.status.code {
    case 401: TokenTest(.refused, rejection(by: response).advice)
    case 200..<300: TokenTest(.accepted, nil)
    case let status: TokenTest(.unknown, "Apple Music responded with status \(status).")
    }
  }
}

/// The result of a request to `/v1/test` with a developer token.
public struct TokenTest: Sendable {
  /// Whether Apple Music accepts the token.
  public let verdict: TokenVerdict
  /// The likely reason if Apple Music does not: a sentence or more for the operator. Nil if it does.
  public let reason: String?

  /// Creates a result.
  public init(_ verdict: TokenVerdict, _ reason: String?) {
    (self.verdict, self.reason) = (verdict, reason)
  }
}

extension UpstreamAttempt.Result {
  fileprivate init(_ result: Result<UpstreamResponse, UpstreamError>) {
    switch result {
    case .success(let response): self = .status(response.status.code, response.version)
    case .failure(let error): self = .failure(error.cause)
    }
  }
}
