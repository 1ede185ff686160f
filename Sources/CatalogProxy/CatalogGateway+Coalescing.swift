import HTTPCache
import HTTPMessages
import HTTPTypes
import UpstreamAdmission

/// Phases 4 and 9: concurrent requests for the same resource share one upstream request, which no single caller owns.
extension CatalogGateway {
  /// Lets a caller wait for the result of the request's flight, and starts the flight if it does not exist. If the caller
  /// may have a stale response, the wait ends after `staleAfter`, and the flight continues.
  @inline(never)
  func coalesce(_ waiter: CatalogWaiter, at now: CacheTime) {
    let miss = waiter.miss
    let call = miss.call
    let hasStale =
      !waiter.waitsForAll
      && miss.stored.map { Selection($0.response, now: now).mayServeWhileWaiting(call.directives) } ?? false
    let joining = withState { state -> Joining in
      // A background request answers no caller.
      if !waiter.waitsForAll { state.counts.misses += 1 }
      guard !state.unsharedTargets.contains(call.key, now: now.elapsed) else { return .unshared }
      let key = FlightKey(call.key, sent: call.fields)
      if hasStale, state.coalescer.isKept(key) { return .late }
      let (ticket, run) = state.coalescer.join(key, waiter) { FlightRun(as: $0, leader: waiter, on: self) }
      if run == nil { state.counts.collapsed += 1 }
      return .joined(ticket, run)
    }
    switch joining {
    case .joined(let ticket, let run):
      waiter.waits(at: ticket, isLeader: run != nil)
      run?.begin(at: now)
      if hasStale { waiter.waits(atMost: endWait(of: ticket, by: miss.route)) }
    case .unshared: waiter.fetchAlone()
    case .late: waiter.resume(.late)
    }
  }

  /// The result of joining a flight.
  private enum Joining: Sendable {
    /// The place in a flight, and the upstream request if this caller has started the flight.
    case joined(FlightTicket, FlightRun?)
    /// Requests for this resource do not wait for each other.
    case unshared
    /// A waiter has left the flight with a stale response, and this caller may have it as well.
    case late
  }

  /// Ends the wait of one caller after `staleAfter`.
  private func endWait(of ticket: FlightTicket, by route: UpstreamRoute) -> any CancellableWork {
    route.upstream.alarm(after: configuration.staleAfter) {
      self.withState { $0.coalescer.keep(ticket) }?.resume(.late)
    }
  }

  /// Ends the wait of one caller, which has gone.
  func leave(_ ticket: FlightTicket) {
    guard case .left(let waiter, let abandoned) = withState({ $0.coalescer.leave(ticket) }) else { return }
    abandoned?.cancel()
    waiter.resume(.cancelled)
  }

  /// Resumes all waiting callers of a flight. On the leader's loop.
  @inline(never)
  func complete(_ flight: FlightID, _ outcome: Outcome, leader: CatalogWaiter) {
    let waiters = withState { $0.coalescer.complete(flight) }
    guard case .stream(let response) = outcome else { return tell(waiters, outcome, leader: leader) }
    // The content can be read only on this event loop.
    var isTaken = false
    for waiter in waiters where waiter === leader { isTaken = waiter.resume(outcome) }
    for waiter in waiters where waiter !== leader { waiter.resume(.alone, isElsewhere: true) }
    if !isTaken { response.content.cancel() }
  }

  /// Resumes all waiters with an outcome. If only one caller may have it, the first waiter gets it.
  private func tell(_ waiters: [CatalogWaiter], _ outcome: Outcome, leader: CatalogWaiter) {
    var outcome = outcome
    for waiter in waiters where waiter.resume(outcome, isElsewhere: waiter !== leader) && outcome.isForOne {
      outcome = .unshared
    }
  }

  /// Sends the upstream request for a storable resource, and stores the response.
  func fetch(_ miss: CatalogMiss) async -> Outcome {
    let now = clock.now
    let fetching = Fetching(miss, validating: miss.stored?.response, at: now)
    let outcome = await fetch(fetching, from: enter(fetching.exchange, at: now))
    share(outcome, of: miss)
    return outcome
  }

  /// Continues with a fetch, after every step that needs no wait.
  @inline(never)
  func fetch(_ first: Fetching, from step: Step) async -> Outcome {
    var (fetching, step) = (first, step)
    while true {
      let result = await exchange(fetching.exchange, from: step)
      switch evaluate(result, of: fetching, at: clock.now) {
      case .outcome(let outcome): return outcome
      case .content(let arriving): return await store(arriving, of: fetching)
      case .again(let whole):
        fetching = whole
        step = enter(whole.exchange, at: whole.requestedAt)
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
  func evaluate(_ result: CatalogExchange.Result, of fetching: Fetching, at now: CacheTime) -> Fetched {
    switch result {
    case .failure(let failure): return .outcome(.failure(failure))
    case .cancelled: return .outcome(.cancelled)
    case .response(let response, let permit) where response.status == .notModified:
      response.content.cancel()
      permit.release(.answered)
      let times = Times(requestedAt: fetching.requestedAt, receivedAt: now)
      if let outcome = freshen(fetching.stored, by: response, fetching.miss, times) {
        return .outcome(outcome)
      }
      // The response is about another version than the stored one. Without validators, Apple sends it whole.
      return .again(Fetching(fetching.miss, validating: nil, at: now))
    case .response(let response, let permit):
      let limit = configuration.cache.largestContent
      guard response.contentLength ?? 0 <= limit else {
        return .outcome(.stream(held(response, permit, until: fetching.miss.end, fetching.miss.route)))
      }
      return .content(
        ArrivingResponse(
          response: response, permit: permit,
          content: PartialContent(response.content, length: response.contentLength, upTo: limit, configuration.memory),
          times: Times(requestedAt: fetching.requestedAt, receivedAt: now)))
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
    _ stored: StoredResponse?, by response: UpstreamResponse, _ miss: CatalogMiss, _ times: Times
  ) -> Outcome? {
    guard let stored else { return .failure(.status(.notModified, nextHop: configuration.nextHop)) }
    let notModified = received(response, miss, times, [])
    let settings = cacheSettings
    guard let fresh = cache.freshen(stored, for: miss.call.key, by: notModified, settings: settings) else { return nil }
    if settings != cacheSettings { cache.remove(miss.call.key) }
    return .response(fresh.response, isStored: fresh.isStored, forwardStatus: 304)
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
