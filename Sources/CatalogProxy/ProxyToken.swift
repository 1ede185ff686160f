import Bytes
import Dispatch
import HTTP1
import HTTPCache
import HTTPMessages
import HTTPTypes
import Locks
import Tracing
package import UpstreamAdmission

/// A developer token for the upstream. It has no origin claim, and the server never sends it to a caller.
package final class ProxyToken: Sendable {
  package let text: String
  /// The field `Authorization`, created once for all requests.
  let credential: FieldLines
  /// The time after which ``CatalogGateway/renewToken()`` mints another token, in seconds since the epoch.
  let renewAt: Int
  /// The time after which requests wait for another token.
  let refreshAt: Int
  /// When the token expires, in seconds since the epoch. It is never sent from then on.
  package let expiresAt: Int
  /// The ID of the key that signed the token, for the log. Nil if the source does not tell.
  package let keyID: String?
  /// The version of the token, which a later 401 refers to.
  let version: TokenVersion?
  let madeAt: CacheTime?

  package init(text: String, renewAt: Int? = nil, refreshAt: Int, expiresAt: Int, keyID: String? = nil) {
    (self.text, credential, self.keyID) = (text, HeaderPolicy.credential(text), keyID)
    (self.renewAt, self.refreshAt, self.expiresAt) = (renewAt ?? refreshAt, refreshAt, expiresAt)
    (version, madeAt) = (nil, nil)
  }

  private init(_ token: ProxyToken, _ version: TokenVersion, madeAt: CacheTime) {
    (text, credential, keyID) = (token.text, token.credential, token.keyID)
    (renewAt, refreshAt, expiresAt) = (token.renewAt, token.refreshAt, token.expiresAt)
    (self.version, self.madeAt) = (version, madeAt)
  }

  func numbered(_ version: TokenVersion, at time: CacheTime) -> ProxyToken { ProxyToken(self, version, madeAt: time) }

  /// The smallest step of the wall clock that makes a token count as minted by another clock: 5 s. Rounding, and the rate
  /// that NTP may adjust (500 ppm), cause less between two tokens.
  static let leastClockStep = 5

  /// Returns whether the wall clock was set after the token was minted, so that its times are or were wrong.
  func isFromAnotherClock(at now: CacheTime) -> Bool {
    madeAt.map { now.wallClockStep(since: $0).magnitude >= Self.leastClockStep } ?? false
  }
}

package protocol TokenSource: Sendable {
  /// Mints a token at a time in seconds since the epoch, which may take seconds. Throws an error that is a sentence for the
  /// log.
  func mint(now: Int) throws -> ProxyToken
}

/// A source of developer tokens, and the queue on which it mints them one after the other, so that no event loop waits for
/// a signer. Each source has a queue of its own: a new key does not wait for the signer of the last one.
struct TokenMint: Sendable {
  let source: any TokenSource
  let queue = DispatchQueue(label: "upstream tokens")
  /// The number of the source.
  let serial: Int
}

/// Phase 6: the developer token to send. Requests that need one before it is minted wait in tasks.
extension CatalogGateway {
  /// Returns the token to send. Mints one if the gateway has no token, if the current one is past its `refreshAt`, if a 401
  /// requires a new one, or if the wall clock was set since. If minting fails, it returns the last token, or nil.
  func token() async -> ProxyToken? {
    while let present = withAdmission({ $0.tokenMint }) {
      if let token = usableToken { return token }
      let isPresent = await withCheckedContinuation { continuation in
        present.queue.async { continuation.resume(returning: self.usableToken != nil || self.mint(by: present)) }
      }
      let now = clock.now
      if isPresent { return withAdmission { $0.unexpiredToken(now: now) } }
    }
    return nil
  }

  /// Mints another token in the background if it is due. The present one stays in use until then.
  package func renewToken() {
    guard isTokenDue, let present = withAdmission({ $0.tokenMint }) else { return }
    present.queue.async { if self.isTokenDue { _ = self.mint(by: present) } }
  }

  private var isTokenDue: Bool { usableToken.map { $0.renewAt <= clock.now.wall } ?? true }

  private var usableToken: ProxyToken? {
    let now = clock.now
    return withAdmission { $0.usableToken(now: now) }
  }

  /// Mints a token, on the queue of its source. Returns false if the key has changed, before or meanwhile.
  private func mint(by present: TokenMint) -> Bool {
    guard withAdmission({ $0.tokenMint?.serial }) == present.serial else { return false }
    let now = clock.now
    let made = Result { try present.source.mint(now: now.wall) }
    if case .failure(let error) = made { observer.noticed(.tokenFailed("\(error)")) }
    return withAdmission { $0.take(made, ofSource: present.serial, at: now) }
  }
}

extension Admission {
  /// Takes a token that was minted, or goes on with the last one if that has failed. Returns false if the key has changed.
  fileprivate mutating func take(
    _ made: Swift.Result<ProxyToken, any Error>, ofSource serial: Int, at now: CacheTime
  ) -> Bool {
    guard tokenMint?.serial == serial else { return false }
    switch made {
    case .success(let made):
      // Otherwise a 401 has already started another version.
      if token == nil || token?.version == tokenRefresh.current {
        _ = tokenRefresh.renewed(isUnjudged: hasNewKey || token?.isFromAnotherClock(at: now) ?? false)
        hasNewKey = false
      }
      counts.tokensMinted += 1
      token = made.numbered(tokenRefresh.current, at: now)
    case .failure:
      // After a 401 the last token is the best one still, and no request waits for the signer again.
      if let token, token.version != tokenRefresh.current, let time = token.madeAt {
        self.token = token.numbered(tokenRefresh.current, at: time)
      }
    }
    return true
  }
}

/// The evidence after a 401 on whether Apple refuses the developer token or the user's token.
extension CatalogGateway {
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

  /// Returns whether there is another token to send after a 401 to this one, or whether to mint it.
  func refreshAction(after token: ProxyToken, isRetry: Bool) -> TokenRefreshPolicy.RefreshAction {
    let now = clock.elapsed
    guard let version = token.version else { return .exhausted }
    return withAdmission { $0.tokenRefresh.unauthorized(version, isRetry: isRetry, now: now) }
  }

  /// Finds out with `/v1/test` whether Apple accepts the developer token of a request with a 401 response. `mayResend`: that
  /// request can be sent again. `cause`: its span.
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
  package func test(_ token: ProxyToken, by route: UpstreamRoute) async -> TokenTest {
    await test(token, by: route, end: clock.elapsed + configuration.timeouts.whole)
  }

  /// Records what Apple Music has said about a token of the key that signs, so that the status shows it without a request
  /// of a caller.
  package func judged(_ verdict: TokenVerdict) {
    let isAcceptedAgain = withAdmission { admission in
      let wasDegraded = admission.tokenRefresh.isDegraded
      admission.tokenRefresh.judged(verdict)
      return wasDegraded && !admission.tokenRefresh.isDegraded
    }
    if isAcceptedAgain { observer.noticed(.tokenAccepted) }
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
    let rate = withAdmission { admission in
      admission.counts.limited += 1
      admission.limit.refusedWithoutTurn(sentAt: start, retryAfter: asked, now: end)
      admission.limitChanged(now: end)
      return admission.limit.rate
    }
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
package struct TokenTest: Sendable {
  package let verdict: TokenVerdict
  /// The likely reason if Apple Music does not accept the token: a sentence or more for the operator.
  package let reason: String?

  package init(_ verdict: TokenVerdict, _ reason: String?) { (self.verdict, self.reason) = (verdict, reason) }
}
