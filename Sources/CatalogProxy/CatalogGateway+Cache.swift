import HTTP1
import HTTPCache
import HTTPMessages
package import HTTPTypes
import UpstreamAdmission

/// Phases 3 and 10: the lookup in the cache, and the reply to the caller.
extension CatalogGateway {
  func lookUp(_ call: CatalogCall, at now: CacheTime, isRepeated: Bool = false) -> Lookup {
    cache.lookup(call.key, sending: call.fields, request: call.directives, now: now, isRepeated: isRepeated)
  }

  func reply(to call: CatalogCall, from lookup: Lookup, at now: CacheTime, refresh: () -> Void) -> CatalogReply? {
    switch lookup {
    case .hit(let selection):
      if call.coding == .gzip, selection.response.awaitsCompression, selection.response.isLong { refresh() }
      return hit(selection, call, at: now)
    case .staleWhileRevalidate(let selection):
      if withState({ $0.revalidating.insert(call.key).inserted }) { refresh() }
      return hit(selection, call, at: now)
    case .unsatisfiable: return .failure(UpstreamFailure.onlyIfCached.response(CacheStatus(.unforwarded)))
    case .validate, .miss: return nil
    }
  }

  private func hit(_ selection: Selection, _ call: CatalogCall, at now: CacheTime) -> CatalogReply {
    cache.countHit()
    let status = CacheStatus(.hit, timeToLive: selection.timeToLive)
    return .response(fromCache(selection, to: call, status, at: now, isValidated: false))
  }

  @inline(never)
  func reply(to miss: CatalogMiss, _ outcome: Outcome, isCollapsed: Bool) -> CatalogReply {
    let (call, now) = (miss.call, clock.now)
    var status = CacheStatus(.forwarded(miss.reason))
    status.isCollapsed = isCollapsed
    switch outcome {
    case .response(let response, let isStored, let forwardStatus):
      let selection = Selection(response, now: now)
      (status.isStored, status.forwardStatus) = (isStored, forwardStatus)
      if isStored { status.timeToLive = selection.timeToLive }
      // For other replicas, ``share(_:of:as:at:)`` compresses it.
      if isStored, response.isLong, call.coding == .gzip, miss.route.shared == nil {
        compressInTurns(response, of: call, by: miss.route)
      }
      return .response(fromCache(selection, to: call, status, at: now, isValidated: true))
    case .found(let response):
      let selection = Selection(response, now: now)
      var hit = CacheStatus(.hit, timeToLive: selection.timeToLive)
      hit.detail = "shared"
      return .response(fromCache(selection, to: call, hit, at: now, isValidated: false))
    case .stream(let response): return .response(passThrough(response, to: call, status))
    case .failure(let failure, mayBeReplaced: false): return .failure(failure.response(status))
    case .failure(let failure, mayBeReplaced: true):
      return serveStale(stored(for: miss, at: now), for: failure, to: call, status, at: now)
    case .late:
      guard let stored = miss.stored else { return .cancelled }
      withAdmission { $0.counts.staleWhileWaiting += 1 }
      return .response(stale(stored.response, to: call, status, "stale-after", at: now))
    case .alone, .unshared, .cancelled: return .cancelled
    }
  }

  /// The stored response that may replace a failure. Another replica may have stored it since the lookup.
  private func stored(for miss: CatalogMiss, at now: CacheTime) -> Selection? {
    miss.stored ?? (miss.route.shared == nil ? nil : lookUp(miss.call, at: now, isRepeated: true).stored)
  }

  /// Returns a stale response that replaces the failure (RFC 5861 §4) and is marked as stale, or else the failure.
  private func serveStale(
    _ stored: Selection?, for failure: UpstreamFailure, to call: CatalogCall, _ status: CacheStatus, at now: CacheTime
  ) -> CatalogReply {
    var status = status
    status.forwardStatus = failure.proxyStatus.receivedStatus
    guard let stored, Selection(stored.response, now: now).mayServeOnError(call.directives) else {
      return .failure(failure.response(status))
    }
    withAdmission { $0.counts.staleOnError += 1 }
    var response = stale(stored.response, to: call, status, "stale-if-error", at: now)
    response.fields[.proxyStatus] = failure.proxyStatus.fieldValue
    if let replaced = failure.error.replaced { response.note(replaced) }
    return .response(response)
  }

  /// Returns a response for a request that the server has no time to forward: a stored one that may replace an error
  /// (RFC 5861 §4). Nil without one.
  package func staleReply(to call: CatalogCall) -> CatalogReply? {
    guard call.isCacheable else { return nil }
    let now = clock.now
    guard let stored = lookUp(call, at: now, isRepeated: true).stored, stored.mayServeOnError(call.directives) else {
      return nil
    }
    withAdmission { $0.counts.staleOnError += 1 }
    return .response(stale(stored.response, to: call, CacheStatus(.hit), "stale-if-error", at: now))
  }

  private func stale(
    _ stored: StoredResponse, to call: CatalogCall, _ status: CacheStatus, _ detail: String, at now: CacheTime
  ) -> Response {
    let selection = Selection(stored, now: now)
    var status = status
    status.timeToLive = selection.timeToLive
    status.detail = detail
    return fromCache(selection, to: call, status, at: now, isValidated: false)
  }

  private func fromCache(
    _ selection: Selection, to call: CatalogCall, _ status: CacheStatus, at now: CacheTime, isValidated: Bool
  ) -> Response {
    var response = selection.response
    if call.coding == .gzip, response.awaitsCompression { response = cache.compress(response, for: call.key) }
    let representation = response.representation(call.coding)
    let encoded = selection.fields(status, isValidated: isValidated)
    if response.isNotModified(call.preconditions, now: now) {
      return Response(.notModified, prepared: representation.notModified, encoded: encoded)
    }
    return Response(
      response.status, prepared: representation.fields, encoded: encoded, body: representation.body)
  }

  /// Compresses a long stored response, a part in each turn of the loop. Then calls `done` with the response.
  func compressInTurns(
    _ response: StoredResponse, of call: CatalogCall, by route: UpstreamRoute,
    then done: @escaping @Sendable (StoredResponse) -> Void = { _ in }
  ) {
    guard response.isLong, let work = cache.beginCompression(of: response, for: call.key) else { return done(response) }
    advance(work, by: route, then: done)
  }

  private func advance(
    _ work: ResponseCompression, by route: UpstreamRoute, then done: @escaping @Sendable (StoredResponse) -> Void
  ) {
    if let response = work.advance() { return done(response) }
    // The least time after which a timer ends in another turn: one that is due ends in the present turn.
    _ = route.upstream.alarm(after: .nanoseconds(1)) { self.advance(work, by: route, then: done) }
  }

  func passThrough(_ response: UpstreamResponse, to call: CatalogCall, _ status: CacheStatus) -> Response {
    var encoded = FieldSection.empty
    encoded.append(policy.responseFields(response.fields, version: response.version)) { _, _ in true }
    let isUncacheable = call.target.wantsUserToken || call.target.kind == .test
    encoded.append("Cache-Control", isUncacheable ? "no-store" : "private, no-cache")
    encoded.append(HTTPField(name: .cacheStatus, value: status.fieldValue))
    encoded.append("X-Content-Type-Options", "nosniff")
    // Apple's content is data. A browser that opens it runs nothing, whatever it contains.
    encoded.append("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
    var passed = Response(response.status, encoded: encoded)
    (passed.stream, passed.streamLength) = (response.content, response.contentLength)
    return passed
  }
}

extension CacheOwner {
  init(_ subject: CircuitSubject) {
    self.init(client: subject.client, caller: subject.caller)
  }
}

extension HTTPField.Name {
  /// The field that describes what caches did (RFC 9211).
  package static let cacheStatus = HTTPField.Name.literal("Cache-Status")
}
