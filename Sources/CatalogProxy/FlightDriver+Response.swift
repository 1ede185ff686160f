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
    note(.init(result), attempt)
    switch result {
    case .failure(let error): return failed(attempt, error)
    case .success(let response):
      self.response = response
      let head = head(of: response, attempt)
      attempt.head = head
      // Nearly always the content has come as well, because the connection reads on before it delivers the head. Then one
      // critical section is enough for both.
      guard !head.isFinal else { return .responded }
      gateway.noteHead(of: attempt)
      return response.status == .unauthorized ? unauthorized(attempt) : rejected(response, attempt)
    }
  }

  @inline(never)
  private func failed(_ attempt: CatalogAttempt, _ error: UpstreamError) -> Flight.Event {
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
    // A page is no answer of Apple's about the user. Apple's own 401 is empty, whatever its type says.
    let isPage = response.map { $0.contentLength != 0 && !$0.hasPassableType } ?? false
    let isForUser = flight.call.target.asksForUser && !isPage
    let hasNewClock = attempt.token.isFromAnotherClock(at: gateway.clock.now)
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
    if flight.renewsFirst {
      return wait { [gateway, last = attempt.token.version] in
        .renewed(await gateway.token().map { $0.version != last } ?? false && self.isSentAgain())
      }
    }
    switch gateway.refreshAction(after: attempt.token, isRetry: flight.hasFreshToken) {
    case .exhausted: return .renewed(false)
    case .retryWithCurrent: return .renewed(isSentAgain())
    case .mint: return wait { [gateway] in .renewed(await gateway.token() != nil && self.isSentAgain()) }
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

/// Phase 9: the content of a response is stored, or passes on while it arrives.
extension FlightDriver {
  /// Stores the response if all of its content has arrived. Otherwise waits for the content.
  func store() -> Flight.Event? {
    guard let response, let attempt else { return nil }
    guard response.status != .notModified else { return freshen(by: response, attempt) }
    let limit = gateway.configuration.cache.largestContent
    guard response.contentLength ?? 0 <= limit else { return .stored(stream(response)) }
    var content = PartialContent(
      response.content, length: response.contentLength, upTo: limit, gateway.configuration.memory)
    do throws(ContentError) {
      if let reading = try content.readAtOnce() { return .stored(outcome(of: reading, content)) }
    } catch { return broken(error) }
    gateway.noteHead(of: attempt)
    return wait(isForStored: true) { [content] in
      var content = content
      do throws(ContentError) {
        let reading = try await content.read()
        return .stored(self.outcome(of: reading, content))
      } catch { return self.broken(error) }
    }
  }

  private func outcome(of reading: PartialContent.Reading, _ content: PartialContent) -> Outcome {
    guard let response, let attempt else { return .cancelled }
    switch reading {
    case .whole: return store(response, content, attempt)
    case .tooLong: return stream(content.response(response))
    case .refused:
      gateway.noteHead(of: attempt)
      response.content.cancel()
      self.attempt.take()?.release(.inconclusive)
      return .failure(.overMemory, mayBeReplaced: true)
    }
  }

  private func broken(_ error: ContentError) -> Flight.Event {
    if let attempt = attempt.take() {
      gateway.noteHead(of: attempt)
      attempt.release(.inconclusive)
    }
    guard error != .cancelled else { return .interrupted(byCaller: false) }
    return .failed(incomplete(error))
  }

  private func incomplete(_ error: ContentError) -> UpstreamFailure {
    let error = UpstreamError(
      error == .timedOut ? .responseTimeout : .responseIncomplete, .answered, "A response ended too early. \(error)")
    gateway.observer.noticed(.exchangeFailed(error))
    return UpstreamFailure(error, nextHop: nextHop, isChange: flight.isChange)
  }

  private func store(_ response: UpstreamResponse, _ content: PartialContent, _ attempt: CatalogAttempt) -> Outcome {
    let (key, settings) = (flight.call.key, gateway.cacheSettings)
    do throws(ContentCodingError) {
      let whole = try StoredResponse(received(response, attempt), body: content.bytes, settings: settings)
      let isStored = gateway.cache.store(whole, for: key, of: CacheOwner(flight.subject))
      gateway.cache.noteSharing(of: whole, for: key, now: gateway.clock.now)
      // The settings changed meanwhile, so the stored mark may be wrong. The waiting callers still get the response.
      if settings != gateway.cacheSettings { gateway.cache.remove(key) }
      return .response(whole, isStored: isStored, forwardStatus: nil)
    } catch .tooLarge where flight.call.coding == .gzip {
      return .stream(content.response(response))
    } catch {
      let sentence = "The content is not valid gzip, as its Content-Encoding says, or its decoded size is too large."
      return .failure(incomplete(.broken(sentence)), mayBeReplaced: true)
    }
  }

  /// Renews a stored response by a 304. A 304 may describe another version. Without validators, Apple sends that whole.
  private func freshen(by response: UpstreamResponse, _ attempt: CatalogAttempt) -> Flight.Event {
    response.content.cancel()
    guard let stored = flight.stored else {
      return .stored(.failure(.status(.notModified, nextHop: nextHop, isChange: false), mayBeReplaced: true))
    }
    let (key, settings) = (flight.call.key, gateway.cacheSettings)
    let renewed = gateway.cache.freshen(
      stored, for: key, by: received(response, attempt), settings: settings, of: CacheOwner(flight.subject))
    guard let renewed else {
      self.attempt = nil
      gateway.settle(attempt)
      return .mismatched
    }
    gateway.cache.noteSharing(of: renewed.response, for: key, now: gateway.clock.now)
    if settings != gateway.cacheSettings { gateway.cache.remove(key) }
    return .stored(.response(renewed.response, isStored: renewed.isStored, forwardStatus: 304))
  }

  /// Returns a response for the cache. Its age counts from the request of this attempt (RFC 9111 §4.2.3), not from the wait
  /// for the turn.
  private func received(_ response: UpstreamResponse, _ attempt: CatalogAttempt) -> ReceivedResponse {
    var fields = gateway.policy.responseFields(response.fields, version: response.version, isForCache: true)
    // With a music user token the response may be another one, which the caches of browsers cannot know.
    if flight.call.target.mayDependOnUser { fields.append("Vary", Self.userTokens.span) }
    return ReceivedResponse(
      status: response.status, fields: fields, date: date, sent: flight.call.fields, requestedAt: attempt.start,
      receivedAt: receivedAt)
  }

  private static let userTokens = Array("Music-User-Token, Media-User-Token".utf8)

  func pass() -> Outcome { response.map { stream($0) } ?? .cancelled }

  /// Lets the turn end when Apple has sent all of the content. More than the server keeps for a caller that reads slowly
  /// holds the turn until the deadline at most.
  private func stream(_ response: UpstreamResponse) -> Outcome {
    guard let attempt = attempt.take() else { return .stream(response) }
    gateway.noteHead(of: attempt)
    response.content.arriveAhead(upTo: CatalogGateway.contentAhead, chargedTo: miss.call.holder) { result in
      if case .success = result { attempt.release(.answered) } else { attempt.release(.inconclusive) }
    }
    attempt.end(after: miss.end - gateway.clock.elapsed, by: miss.route.upstream)
    return .stream(response)
  }
}

extension CatalogGateway {
  /// The most content of a request that arrives before its turn, and of a response that waits for its caller after its
  /// turn, in bytes: 1 MiB. Apple's requests have a few kilobytes, and nearly all responses fewer than this.
  static var contentAhead: Int { 1 << 20 }
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
