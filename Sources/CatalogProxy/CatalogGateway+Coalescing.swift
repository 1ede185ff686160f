import HTTPCache
import HTTPMessages
import HTTPTypes
import UpstreamAdmission

/// Phases 4 and 9: concurrent requests for the same resource share one upstream request, which no single caller owns.
extension CatalogGateway {
  /// Waits for the result of the request's flight, and starts the flight if it does not exist. If the caller may have a
  /// stale response, the wait ends after `staleAfter`, and the flight continues.
  ///
  /// - Parameter waitsForAll: Whether the wait lasts to the end even if the caller may have a stale response.
  @inline(never)
  func coalesce(_ miss: CatalogMiss, waitsForAll: Bool = false) async -> (Outcome, isCollapsed: Bool) {
    let waiting = OneShot<Outcome>()
    let place: Place
    switch join(miss, waiting, waitsForAll: waitsForAll) {
    case .joined(let joined): place = joined
    case .unshared: return (await fetch(miss), false)
    case .late: return (.late, true)
    }
    defer { place.timer?.cancel() }
    let outcome = await withTaskCancellationHandler {
      await waiting.get()
    } onCancel: {
      leave(place.ticket)
    }
    return (outcome, place.run == nil)
  }

  /// The result of joining a flight.
  private enum Joining: Sendable {
    case joined(Place)
    /// Requests for this resource do not wait for each other.
    case unshared
    /// A waiter has left the flight with a stale response, and this caller may have it as well.
    case late
  }

  /// A place in a flight.
  private struct Place {
    let ticket: FlightTicket
    /// The upstream request, if this caller has started the flight.
    var run: FlightRun?
    /// The task that ends the wait after `staleAfter`; nil if the wait lasts to the end.
    var timer: Task<Void, Never>?
  }

  @inline(never)
  private func join(_ miss: CatalogMiss, _ waiting: OneShot<Outcome>, waitsForAll: Bool) -> Joining {
    let (now, call) = (clock.now, miss.call)
    let hasStale =
      !waitsForAll
      && miss.stored.map { Selection($0.response, now: now).mayServeWhileWaiting(call.directives) } ?? false
    let joining = withState { state -> Joining in
      // A background request answers no caller.
      if !waitsForAll { state.counts.misses += 1 }
      guard !state.unsharedTargets.contains(call.key, now: now.elapsed) else { return .unshared }
      let key = FlightKey(call.key, sent: call.fields)
      if hasStale, state.coalescer.isKept(key) { return .late }
      let (ticket, isNew) = state.coalescer.join(key, waiting)
      guard isNew else {
        state.counts.collapsed += 1
        return .joined(Place(ticket: ticket))
      }
      // Set within the lock, so that no caller can leave the flight before.
      let run = FlightRun(of: miss, as: ticket.flight, leader: waiting, on: self)
      state.coalescer.began(ticket.flight, run)
      return .joined(Place(ticket: ticket, run: run))
    }
    if case .joined(let place) = joining { place.run?.begin() }
    guard hasStale, case .joined(var place) = joining else { return joining }
    place.timer = endWait(of: place.ticket, by: miss.route)
    return .joined(place)
  }

  /// Ends the wait of one caller after `staleAfter`.
  private func endWait(of ticket: FlightTicket, by route: UpstreamRoute) -> Task<Void, Never> {
    let patience = configuration.staleAfter
    return Task(executorPreference: route.executor) {
      guard (try? await route.upstream.pause(for: patience)) != nil else { return }
      self.withState { $0.coalescer.keep(ticket) }?.resume(.late)
    }
  }

  private func leave(_ ticket: FlightTicket) {
    guard case .left(let waiter, let abandoned) = withState({ $0.coalescer.leave(ticket) }) else { return }
    abandoned?.cancel()
    waiter.resume(.cancelled)
  }

  /// Resumes all waiting callers of a flight.
  @inline(never)
  func complete(_ flight: FlightID, _ outcome: Outcome, leader: OneShot<Outcome>) {
    let waiters = withState { $0.coalescer.complete(flight) }
    guard case .stream(let response) = outcome else { return tell(waiters, outcome) }
    // The content can be read only on this event loop, which is the leader's.
    var isTaken = false
    for waiter in waiters where waiter === leader { isTaken = waiter.resume(outcome) }
    for waiter in waiters where waiter !== leader { waiter.resume(.alone) }
    if !isTaken { response.content.cancel() }
  }

  /// Resumes all waiters with an outcome. If only one caller may have it, the first waiter gets it.
  private func tell(_ waiters: [OneShot<Outcome>], _ outcome: Outcome) {
    var outcome = outcome
    for waiter in waiters where waiter.resume(outcome) && outcome.isForOne { outcome = .unshared }
  }

  /// Sends the upstream request for a storable resource, and stores the response.
  func fetch(_ miss: CatalogMiss) async -> Outcome {
    let fetching = Fetching(miss, validating: miss.stored?.response, at: clock.now)
    let outcome = await fetch(fetching, from: enter(fetching.exchange))
    share(outcome, of: miss)
    return outcome
  }

  /// Continues with a fetch, after every step that needs no wait.
  @inline(never)
  func fetch(_ first: Fetching, from step: Step) async -> Outcome {
    var (fetching, step) = (first, step)
    while true {
      let result = await exchange(fetching.exchange, from: step)
      switch evaluate(result, of: fetching) {
      case .outcome(let outcome): return outcome
      case .content(let arriving): return await store(arriving, of: fetching)
      case .again(let whole):
        fetching = whole
        step = enter(whole.exchange)
      }
    }
  }

  /// One exchange of a fetch.
  struct Fetching: Sendable {
    let miss: CatalogMiss
    /// The stored response that the request validates; nil to fetch the whole response.
    let stored: StoredResponse?
    let requestedAt: CacheTime
    let exchange: CatalogExchange

    init(_ miss: CatalogMiss, validating stored: StoredResponse?, at time: CacheTime) {
      (self.miss, self.stored, requestedAt) = (miss, stored, time)
      exchange = CatalogExchange(fetching: miss, validating: stored)
    }
  }

  /// The result of an exchange, for a fetch.
  enum Fetched {
    case outcome(Outcome)
    /// A response whose content is to be read and stored.
    case content(ArrivingResponse)
    /// Another request must fetch the whole response.
    case again(Fetching)
  }

  @inline(never)
  func evaluate(_ result: CatalogExchange.Result, of fetching: Fetching) -> Fetched {
    switch result {
    case .failure(let failure): return .outcome(.failure(failure))
    case .cancelled: return .outcome(.cancelled)
    case .response(let response, let permit) where response.status == .notModified:
      response.content.cancel()
      permit.release(.answered)
      if let outcome = freshen(fetching.stored, by: response, fetching.miss, fetching.requestedAt) {
        return .outcome(outcome)
      }
      // The response is about another version than the stored one. Without validators, Apple sends it whole.
      return .again(Fetching(fetching.miss, validating: nil, at: clock.now))
    case .response(let response, let permit):
      let limit = configuration.cache.largestContent
      guard response.contentLength ?? 0 <= limit else {
        return .outcome(.stream(held(response, permit, until: fetching.miss.end, fetching.miss.route)))
      }
      return .content(
        ArrivingResponse(
          response: response, permit: permit,
          content: PartialContent(response.content, length: response.contentLength, upTo: limit, configuration.memory),
          times: Times(requestedAt: fetching.requestedAt, receivedAt: clock.now)))
    }
  }

  /// A response that is read to its end, so that it can be stored.
  struct ArrivingResponse: Sendable {
    let response: UpstreamResponse
    let permit: HeldPermit
    var content: PartialContent
    let times: Times
  }

  /// When a request was sent, and when the head of its response arrived.
  struct Times {
    let requestedAt: CacheTime
    let receivedAt: CacheTime
  }

  /// Renews a stored response by a 304. Nil if the 304 describes another version.
  @inline(never)
  private func freshen(
    _ stored: StoredResponse?, by response: UpstreamResponse, _ miss: CatalogMiss, _ requestedAt: CacheTime
  ) -> Outcome? {
    guard let stored else { return .failure(.status(.notModified, nextHop: configuration.nextHop)) }
    let notModified = received(response, miss, Times(requestedAt: requestedAt, receivedAt: clock.now), [])
    let settings = cacheSettings
    guard let fresh = cache.freshen(stored, for: miss.call.key, by: notModified, settings: settings) else { return nil }
    if settings != cacheSettings { cache.remove(miss.call.key) }
    return .response(fresh, isStored: true, forwardStatus: 304)
  }

  /// Reads a response to its end and stores it, unless it is too long for the cache.
  @inline(never)
  func store(_ arriving: ArrivingResponse, of fetching: Fetching) async -> Outcome {
    var arriving = arriving
    do throws(ContentError) {
      return outcome(of: try await arriving.content.read(), arriving, fetching.miss)
    } catch {
      return broken(error, arriving.permit)
    }
  }

  /// Does the same with what has arrived. Returns nil if more has to arrive.
  @inline(never)
  func storeAtOnce(_ arriving: inout ArrivingResponse, of miss: CatalogMiss) -> Outcome? {
    do throws(ContentError) {
      return try arriving.content.readAtOnce().map { outcome(of: $0, arriving, miss) }
    } catch {
      return broken(error, arriving.permit)
    }
  }

  @inline(never)
  private func outcome(
    of reading: PartialContent.Reading, _ arriving: ArrivingResponse, _ miss: CatalogMiss
  ) -> Outcome {
    switch reading {
    case .whole:
      arriving.permit.release(.answered)
      return store(arriving.response, arriving.content, miss, arriving.times)
    case .tooLong:
      return .stream(
        held(arriving.content.response(arriving.response), arriving.permit, until: miss.end, miss.route))
    case .refused:
      arriving.response.content.cancel()
      arriving.permit.release(.inconclusive)
      return .failure(.overMemory)
    }
  }

  private func broken(_ error: ContentError, _ permit: HeldPermit) -> Outcome {
    permit.release(.inconclusive)
    return broken(error)
  }

  /// Stores a whole response.
  @inline(never)
  private func store(
    _ response: UpstreamResponse, _ content: PartialContent, _ miss: CatalogMiss, _ times: Times
  ) -> Outcome {
    let key = miss.call.key
    do throws(ContentCodingError) {
      let settings = cacheSettings
      let whole = try StoredResponse(received(response, miss, times, content.bytes), settings: settings)
      let isStored = cache.store(whole, for: key)
      let now = clock.elapsed
      let isPublic = withState { state in
        state.unsharedTargets.note(key, isShareable: whole.isShareable, now: now)
        return state.isPublic
      }
      // The settings changed meanwhile, so the stored mark may be wrong. The waiting callers still get the response.
      if settings.isPublic != isPublic { cache.remove(key) }
      return .response(whole, isStored: isStored, forwardStatus: nil)
    } catch .tooLarge where miss.call.coding == .gzip {
      return .stream(content.response(response))
    } catch {
      return broken(
        .broken("The content is not valid gzip, as its Content-Encoding says, or its decoded size is too large."))
    }
  }

  private func broken(_ error: ContentError) -> Outcome {
    guard error != .cancelled else {
      return Task.isCancelled ? .cancelled : .failure(.givenUp(nextHop: configuration.nextHop))
    }
    let error = UpstreamError(
      error == .timedOut ? .responseTimeout : .responseIncomplete, .answered, "A response ended too early. \(error)")
    observer.noticed(.exchangeFailed(error))
    return .failure(UpstreamFailure(error, nextHop: configuration.nextHop))
  }

  private func received(
    _ response: UpstreamResponse, _ miss: CatalogMiss, _ times: Times, _ content: [UInt8]
  ) -> ReceivedResponse {
    ReceivedResponse(
      status: response.status, fields: response.fields,
      downstream: policy.responseFields(response.fields, version: response.version), body: content,
      sent: miss.call.fields, requestedAt: times.requestedAt, receivedAt: times.receivedAt)
  }
}

extension Outcome {
  /// Whether only one of the waiting callers may have the outcome.
  fileprivate var isForOne: Bool {
    if case .response(let response, _, _) = self { !response.isShareable } else { false }
  }
}
