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
  /// The time after which the server mints another token, in seconds since the epoch.
  package let refreshAt: Int
  /// The time after which the server mints another token in the background; nil if it does not.
  package let renewAt: Int?
  /// When the token expires, in seconds since the epoch. It is never sent from then on.
  package let expiresAt: Int
  /// The ID of the key that signed the token, for the log. Nil if the source does not tell.
  package let keyID: String?
  /// The version of the token, which a later 401 refers to.
  let version: TokenVersion?
  let madeAt: CacheTime?

  package init(text: String, refreshAt: Int, renewAt: Int? = nil, expiresAt: Int, keyID: String? = nil) {
    (self.text, credential, self.keyID) = (text, HeaderPolicy.credential(text), keyID)
    (self.refreshAt, self.renewAt, self.expiresAt) = (refreshAt, renewAt, expiresAt)
    (version, madeAt) = (nil, nil)
  }

  private init(_ token: ProxyToken, _ version: TokenVersion, madeAt: CacheTime) {
    (text, credential, keyID) = (token.text, token.credential, token.keyID)
    (refreshAt, renewAt, expiresAt) = (token.refreshAt, token.renewAt, token.expiresAt)
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
  /// Whether a signer outside of the server signs, so that minting may take seconds: no event loop waits for it.
  var isRemote: Bool { get }
  /// Mints a token at a time in seconds since the epoch. Throws an error that is a sentence for the log.
  func mint(now: Int) throws -> ProxyToken
}

extension TokenSource {
  package var isRemote: Bool { false }
}

/// Phase 6: the developer token to send. A key of the server signs at once. A remote signer may take seconds, so it signs
/// on a queue: ahead of time, so that requests rarely wait for a token, and those that do wait in a task.
extension CatalogGateway {
  var hasRemoteTokens: Bool { withAdmission { $0.tokenSource?.isRemote ?? false } }

  /// Returns the token to send. Mints one if the gateway has no token, if the current one is half used up, if a 401
  /// requires a new one, or if the wall clock was set since. If minting fails, it returns the last token, or nil.
  /// Only one event loop mints a token. The other loops wait for its signature, which takes less time than their own.
  func currentToken() -> ProxyToken? { usableToken ?? minting.withLock { _ in usableToken ?? mint(remotely: false) } }

  /// Returns the token to send, as ``currentToken()`` does, and waits for the remote signer if that is missing.
  func remoteToken() async -> ProxyToken? {
    if let token = usableToken { return token }
    return await withCheckedContinuation { continuation in
      signing.async { continuation.resume(returning: self.usableToken ?? self.mint(remotely: true)) }
    }
  }

  /// Signs another token in the background if it is due, with a remote signer. The present one stays in use until then.
  package func renewRemoteToken() {
    guard hasRemoteTokens, isTokenDue else { return }
    signing.async { if self.isTokenDue { _ = self.mint(remotely: true) } }
  }

  private var isTokenDue: Bool {
    guard let token = usableToken else { return true }
    return token.renewAt.map { $0 <= clock.now.wall } ?? false
  }

  private var usableToken: ProxyToken? {
    let now = clock.now
    return withAdmission { $0.usableToken(now: now) }
  }

  /// Mints a token with the present key. The caller holds `minting`, or is on `signing` if that key is remote. If minting
  /// fails, returns the last token, or nil.
  private func mint(remotely: Bool) -> ProxyToken? {
    while true {
      let now = clock.now
      let (source, serial) = withAdmission { ($0.tokenSource, $0.tokenSourceVersion) }
      guard let source else { return nil }
      guard source.isRemote == remotely else {
        // A reload has brought another kind of signer.
        return remotely ? currentToken() : withAdmission { $0.unexpiredToken(now: now) }
      }
      let made = Result { try source.mint(now: now.wall) }
      if case .failure(let error) = made { observer.noticed(.tokenFailed("\(error)")) }
      let (isOfPresentKey, token) = withAdmission { admission in
        (admission.take(made, remotely: remotely, ofSource: serial, at: now), admission.unexpiredToken(now: now))
      }
      // Otherwise the key has changed meanwhile.
      if isOfPresentKey { return token }
    }
  }
}

extension Admission {
  /// Takes a token that was minted, or goes on with the last one if that has failed. Returns false if the key has changed.
  fileprivate mutating func take(
    _ made: Swift.Result<ProxyToken, any Error>, remotely: Bool, ofSource serial: Int, at now: CacheTime
  ) -> Bool {
    guard tokenSourceVersion == serial else { return false }
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
      // After a 401 the last token is the best one still, and no request waits for the remote signer again.
      if remotely, let token, token.version != tokenRefresh.current, let time = token.madeAt {
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
      admission.recentRefusals.record(now: end)
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

extension UpstreamAttempt.Result {
  fileprivate init(_ result: Result<UpstreamResponse, UpstreamError>) {
    switch result {
    case .success(let response): self = .status(response.status.code, response.version)
    case .failure(let error): self = .failure(error.cause)
    }
  }
}
