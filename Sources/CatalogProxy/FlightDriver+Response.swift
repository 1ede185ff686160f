import Bytes
import HTTP1
import HTTPCache
import HTTPMessages
import HTTPTypes
import Tracing
import UpstreamAdmission

/// Phase 8: what the result of an attempt means, for the flight and for admission.
extension FlightDriver {
  func evaluate(_ result: Result<UpstreamResponse, UpstreamError>) -> Flight.Event? {
    guard let attempt else { return nil }
    switch result {
    case .failure(let error): return failed(attempt, error)
    case .success(let response):
      self.response = response
      let head = head(of: response, attempt)
      attempt.head = head
      // Nearly always the content has come as well, and one critical section is enough for both.
      guard !head.isFinal else { return .responded }
      gateway.noteHead(of: attempt)
      return response.status == .unauthorized ? unauthorized(attempt) : rejected(response, attempt)
    }
  }

  @inline(never)
  private func failed(_ attempt: CatalogAttempt, _ error: UpstreamError) -> Flight.Event {
    note(.failure(error.cause), attempt)
    // After a long wait for a turn or for the caller's content, a timeout does not show a failure of Apple.
    let hadLittleTime = timeouts(of: attempt).whole < gateway.configuration.timeouts.firstByte
    let isOurs = error.isTimeout && (hadLittleTime || !flight.isUntouched)
    self.attempt = nil
    let (permit, now) = (attempt.takePermit(), gateway.clock.elapsed)
    let decision = gateway.withAdmission {
      $0.failed(attempt, error, isOurs: isOurs, of: flight, until: miss.end, permit, now: now)
    }
    guard error.cause != .cancelled else { return .interrupted(byCaller: flight.content?.isBroken == true) }
    gateway.observer.noticed(.exchangeFailed(error))
    switch decision {
    case .retry(let delay): return .retry(after: delay, limited: nil)
    case .retryOnce(let delay): return .retryOnce(after: delay)
    case .giveUp:
      var failure = UpstreamFailure(error, nextHop: nextHop, isChange: flight.isChange)
      // The wait for the turn has used the time up, so a caller with more time joins another flight.
      if isOurs, flight.isUntouched { failure.error.shortage = .queueTime }
      return .failed(failure)
    }
  }

  private func note(_ result: UpstreamAttempt.Result, _ attempt: CatalogAttempt) {
    guard let span = attempt.span, span.isSampled, let parent = flight.call.span else { return }
    gateway.observer.noticed(
      .attempted(
        UpstreamAttempt(
          span: span, parent: parent.spanID, method: flight.method, route: flight.call.target.route,
          client: flight.payer.client.text, resends: flight.number - 1,
          duration: gateway.clock.elapsed - attempt.start.elapsed, result: result)))
  }

  /// Returns what the head of a response shows, and tells the observer. The `Date` of a response with an Age, from a cache,
  /// is too old to show the skew of the clocks.
  private func head(of response: UpstreamResponse, _ attempt: CatalogAttempt) -> HeadFacts {
    let now = gateway.clock.now
    gateway.observer.noticed(.responded(after: now.elapsed - attempt.start.elapsed))
    note(.status(response.status.code, response.version), attempt)
    let isFromCache = response.fields.has("age") && response.fields.text(of: "age") != "0"
    (receivedAt, date) = (now, FieldDate.seconds(ofOnly: "date", in: response.fields, now: now.wall))
    return HeadFacts(
      circuit: CircuitOutcome(response.status),
      provesToken: response.status.provesToken && (response.status != .forbidden || response.isJSON),
      isFinal: isFinal(response), date: isFromCache ? nil : date, receivedAt: now)
  }

  /// Whether the request has a music user token, which Apple's 403 is then about.
  private var isUsers: Bool { flight.call.fields.has("music-user-token") }

  /// Returns whether the callers get a response. Otherwise it is an error of Apple, or does not match the request: 206,
  /// although the server never sends `Range`, or 304 to a request without preconditions. The caller would treat a part as
  /// the whole (RFC 9110 §15.3.7, §15.4.5).
  ///
  /// Content that a browser could run does not pass either. It comes from a server before Apple's, as does a 403 that is
  /// not JSON: without a user token it would tell an app to fetch a new one.
  private func isFinal(_ response: UpstreamResponse) -> Bool {
    switch response.status.code {
    case 206, 401, 429, 500...: false
    case 204: true
    case 304: flight.isConditional
    case 403: response.hasPassableType && (response.isJSON || isUsers)
    default: response.hasPassableType
    }
  }

  @inline(never)
  private func rejected(_ response: UpstreamResponse, _ attempt: CatalogAttempt) -> Flight.Event {
    guard response.status != .tooManyRequests else { return limited(response, attempt) }
    let code = response.status.code
    self.attempt.take()?.release(code >= 500 ? .inconclusive : .answered)
    gateway.withAdmission { $0.counts.failures += 1 }
    gateway.observer.noticed(.upstreamStatus(code))
    guard code < 500, code != 206, code != 304 else {
      return .rejected(
        .status(response.status, retryAfter: retryAfter(response), nextHop: nextHop, isChange: flight.isChange))
    }
    return .rejected(.content(of: response, isUsers: isUsers, nextHop: nextHop, isChange: flight.isChange))
  }

  private func limited(_ response: UpstreamResponse, _ attempt: CatalogAttempt) -> Flight.Event {
    let (asked, now) = (retryAfter(response), gateway.clock.elapsed)
    let permit = attempt.takePermit()
    self.attempt = nil
    let (decision, rate) = gateway.withAdmission {
      $0.limited(retryAfter: asked, of: flight, until: miss.end, permit, now: now)
    }
    gateway.observer.noticed(.limited(rate: rate))
    switch decision {
    case .retry(let delay), .retryOnce(let delay):
      return .retry(after: delay, limited: response.readAtOnce(gateway.configuration.memory))
    case .giveUp:
      return .rejected(.rateLimited(retryAfter: asked ?? .seconds(1), nextHop: nextHop))
    }
  }

  private func retryAfter(_ response: UpstreamResponse) -> Duration? {
    response.fields.text(of: "retry-after").flatMap { Duration(retryAfter: $0, now: gateway.clock.now.wall) }
  }

  private func unauthorized(_ attempt: CatalogAttempt) -> Flight.Event {
    // The clock was set after this token was minted, which may be why Apple refuses it. The current token is a new one.
    let hasNewClock = attempt.token.isFromAnotherClock(at: gateway.clock.now)
    if hasNewClock, !gateway.hasRemoteTokens { _ = gateway.currentToken() }
    // A page is no answer of Apple's about the user. Apple's own 401 is empty, whatever its type says.
    let isPage = response.map { $0.contentLength != 0 && !$0.hasPassableType } ?? false
    let isForUser = flight.call.target.asksForUser && !isPage
    return .unauthorized(isForUser: isForUser, hasNewClock: hasNewClock)
  }

  func test() -> Flight.Event? {
    guard let token = attempt?.token else { return .tested(.unknown) }
    let (gateway, miss, span, mayResend) = (gateway, miss, flight.call.span, flight.isUntouched)
    return wait {
      .tested(await gateway.verdict(on: token, mayResend: mayResend, until: miss.end, by: miss.route, of: span))
    }
  }

  /// Decides whether the request is sent again, with another developer token.
  func renew() -> Flight.Event? {
    guard let attempt else { return .renewed(false) }
    switch gateway.refreshAction(after: attempt.token, isRetry: flight.hasFreshToken) {
    case .exhausted: return .renewed(false)
    case .retryWithCurrent: return .renewed(isSentAgain())
    case .mint:
      guard gateway.hasRemoteTokens else { return .renewed(gateway.currentToken() != nil && isSentAgain()) }
      return wait { [gateway] in .renewed(await gateway.remoteToken() != nil && self.isSentAgain()) }
    }
  }

  private func isSentAgain() -> Bool {
    guard flight.isUntouched, gateway.withAdmission({ $0.repeats401() }) else { return false }
    response?.content.cancel()
    attempt.take()?.release(.answered)
    return true
  }

  func fail401(isOfToken: Bool) -> Flight.Event? {
    guard let response, let token = attempt?.token else { return nil }
    let failure =
      isOfToken
      ? gateway.rejected(token, by: response) : .status(response.status, nextHop: nextHop, isChange: false)
    attempt.take()?.release(.answered)
    return .rejected(failure)
  }

  /// Reads what Apple says in a response that the callers do not get. One that does not end soon must not hold them up.
  func readWords(_ failure: UpstreamFailure) -> Flight.Event? {
    guard let response = response.take() else { return .failed(failure) }
    guard response.isJSON, response.contentLength != 0 else {
      response.content.cancel()
      return .failed(failure.saying(response.words))
    }
    let (upstream, memory) = (miss.route.upstream, gateway.configuration.memory)
    return wait {
      let alarm = upstream.alarm(after: .seconds(1)) { response.content.cancel() }
      defer { alarm.cancel() }
      return .failed(failure.saying(await response.read(memory)))
    }
  }
}

extension HTTPResponse.Status {
  /// Whether Apple sends this status only after it has accepted the developer token, unlike 429, 5xx, or errors of the
  /// request such as 400.
  var provesToken: Bool { (200..<400).contains(code) || code == 403 || code == 404 }
}

extension UpstreamError {
  fileprivate var isTimeout: Bool {
    switch cause {
    case .responseTimeout, .connectionReadTimeout, .connectionWriteTimeout, .connectionTimeout: true
    default: false
    }
  }
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
