import HTTPCache
import HTTPMessages
import HTTPTypes
import UpstreamAdmission

/// Phases 4 and 9: concurrent requests for the same resource share one upstream request, which no single caller owns.
extension CatalogGateway {
  /// Lets a caller wait for the result of the request's flight, and starts the flight if it does not exist. If the caller
  /// may have a stale response, the wait ends after `staleAfter`, and the flight continues.
  ///
  /// - Parameter isAgain: Whether the caller has waited for another flight before, and is counted already.
  @inline(never)
  func coalesce(_ waiter: CatalogWaiter, at now: CacheTime, isAgain: Bool = false) {
    let miss = waiter.miss
    let call = miss.call
    let hasStale =
      !waiter.waitsForAll
      && miss.stored.map { Selection($0.response, now: now).mayServeWhileWaiting(call.directives) } ?? false
    var first: (exchange: CatalogExchange, entered: Entered)?
    var further: FurtherPlace?
    let joining = withState { state -> Joining in
      // A background request answers no caller.
      if !waiter.waitsForAll, !isAgain { state.counts.misses += 1 }
      guard !state.unsharedTargets.contains(call.key, now: now.elapsed) else { return .unshared }
      let key = FlightKey(call.key, sent: call.fields)
      if hasStale, state.coalescer.isKept(key) { return .late }
      let (ticket, run) = state.coalescer.join(key, waiter) { FlightRun(as: $0, leader: waiter, on: self) }
      waiter.waits(at: ticket, isLeader: run != nil)
      if run == nil {
        if !isAgain { state.counts.collapsed += 1 }
        further = state.addPlace(of: miss, to: ticket.flight, at: now.elapsed, on: self)
      } else if miss.route.shared == nil {
        // A flight that need not ask the replicas' store first enters in the same visit to the state.
        let exchange = CatalogExchange(
          fetching: miss, validating: miss.stored?.response, as: ticket.flight, at: now)
        first = (exchange, state.enter(exchange, at: now, on: self))
      }
      return .joined(ticket, run)
    }
    switch joining {
    case .joined(let ticket, let run):
      if let run, let (exchange, entered) = first.take() {
        run.begin(exchange, step(after: entered, of: exchange))
      } else {
        run?.begin(at: now)
      }
      if let further { finish(further) }
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
  ///
  /// - Parameter attempt: The attempt that ends with the flight; nil if it has ended.
  @inline(never)
  func complete(_ flight: FlightID, _ outcome: Outcome, _ attempt: CatalogAttempt?, leader: CatalogWaiter) {
    let waiters: [CatalogWaiter]
    if let attempt {
      // Read here, because the limit's time must not go back: on a busy machine the head may have arrived long ago.
      let (permit, now) = (attempt.takePermit(), clock.elapsed)
      let call = leader.miss.call
      var completed: [CatalogWaiter] = []
      let settlement = withState { state in
        completed = state.coalescer.complete(flight)
        return state.settle(attempt, of: call, permit, now: now)
      }
      finish(settlement)
      waiters = completed
    } else {
      waiters = withState { $0.coalescer.complete(flight) }
    }
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
    let exchange = CatalogExchange(fetching: miss, validating: miss.stored?.response, at: now)
    let outcome = await fetch(exchange, from: enter(exchange, at: now))
    share(outcome, of: miss)
    return outcome
  }

  /// Continues with a fetch, after every step that needs no wait.
  @inline(never)
  func fetch(_ first: CatalogExchange, from step: Step) async -> Outcome {
    var (exchange, step) = (first, step)
    while true {
      let result = await self.exchange(exchange, from: step)
      switch evaluate(result, of: exchange, at: clock.now) {
      case .outcome(let outcome, let attempt):
        if let attempt { settle(attempt, of: exchange.call) }
        return outcome
      case .content(let arriving): return await store(arriving, of: exchange)
      case .again(let whole):
        exchange = whole
        step = enter(whole, at: whole.requestedAt)
      }
    }
  }

  /// The result of an exchange, for a fetch.
  enum Fetched {
    /// The outcome, and the attempt that ends with it; nil if it has ended.
    case outcome(Outcome, CatalogAttempt?)
    /// A response whose content is to be read and stored.
    case content(ArrivingResponse)
    /// Another request must fetch the whole response.
    case again(CatalogExchange)
  }

  @inline(never)
  func evaluate(_ result: CatalogExchange.Result, of exchange: CatalogExchange, at now: CacheTime) -> Fetched {
    switch result {
    case .failure(let failure): return .outcome(.failure(failure), nil)
    case .cancelled: return .outcome(.cancelled, nil)
    case .response(let response, let attempt) where response.status == .notModified:
      response.content.cancel()
      if let outcome = freshen(exchange, by: response, of: attempt, at: now) {
        return .outcome(outcome, attempt)
      }
      settle(attempt, of: exchange.call)
      // The response is about another version than the stored one. Without validators, Apple sends it whole.
      return .again(CatalogExchange(repeating: exchange, at: now))
    case .response(let response, let attempt):
      let limit = configuration.cache.largestContent
      guard response.contentLength ?? 0 <= limit else {
        noteHead(of: attempt)
        return .outcome(.stream(held(response, attempt, of: exchange)), nil)
      }
      return .content(
        ArrivingResponse(
          response: response, attempt: attempt,
          content: PartialContent(response.content, length: response.contentLength, upTo: limit, configuration.memory),
          receivedAt: now))
    }
  }

  /// A response that is read to its end, so that it can be stored.
  struct ArrivingResponse: Sendable {
    let response: UpstreamResponse
    let attempt: CatalogAttempt
    var content: PartialContent
    let receivedAt: CacheTime
  }

  /// Renews a stored response by a 304. Nil if the 304 describes another version.
  @inline(never)
  private func freshen(
    _ exchange: CatalogExchange, by response: UpstreamResponse, of attempt: CatalogAttempt, at now: CacheTime
  ) -> Outcome? {
    guard let stored = exchange.stored else { return .failure(.status(.notModified, nextHop: configuration.nextHop)) }
    let notModified = received(response, exchange, [], at: now)
    let (key, settings) = (exchange.call.key, cacheSettings)
    let owner = CacheOwner(exchange.subject)
    guard let fresh = cache.freshen(stored, for: key, by: notModified, settings: settings, of: owner) else {
      return nil
    }
    if settings != cacheSettings { cache.remove(key) }
    attempt.isShareable = fresh.response.isShareable
    return .response(fresh.response, isStored: fresh.isStored, forwardStatus: 304)
  }

  /// Reads a response to its end and stores it, unless it is too long for the cache.
  @inline(never)
  func store(_ arriving: ArrivingResponse, of exchange: CatalogExchange) async -> Outcome {
    var arriving = arriving
    noteHead(of: arriving.attempt)
    do throws(ContentError) {
      let (outcome, attempt) = outcome(of: try await arriving.content.read(), arriving, exchange)
      if let attempt { settle(attempt, of: exchange.call) }
      return outcome
    } catch {
      return broken(error, arriving.attempt)
    }
  }

  /// Does the same with what has arrived, and returns the attempt that ends with the outcome; nil if it has ended. Returns
  /// nil if more has to arrive.
  @inline(never)
  func storeAtOnce(_ arriving: inout ArrivingResponse, of exchange: CatalogExchange) -> (Outcome, CatalogAttempt?)? {
    do throws(ContentError) {
      return try arriving.content.readAtOnce().map { outcome(of: $0, arriving, exchange) }
    } catch {
      return (broken(error, arriving.attempt), nil)
    }
  }

  @inline(never)
  private func outcome(
    of reading: PartialContent.Reading, _ arriving: ArrivingResponse, _ exchange: CatalogExchange
  ) -> (Outcome, CatalogAttempt?) {
    switch reading {
    case .whole: return (store(arriving, exchange), arriving.attempt)
    case .tooLong:
      noteHead(of: arriving.attempt)
      let response = arriving.content.response(arriving.response)
      return (.stream(held(response, arriving.attempt, of: exchange)), nil)
    case .refused:
      noteHead(of: arriving.attempt)
      arriving.response.content.cancel()
      arriving.attempt.release(.inconclusive)
      return (.failure(.overMemory), nil)
    }
  }

  private func broken(_ error: ContentError, _ attempt: CatalogAttempt) -> Outcome {
    noteHead(of: attempt)
    attempt.release(.inconclusive)
    return broken(error)
  }

  /// Stores a whole response.
  @inline(never)
  private func store(_ arriving: ArrivingResponse, _ exchange: CatalogExchange) -> Outcome {
    let (key, settings) = (exchange.call.key, cacheSettings)
    do throws(ContentCodingError) {
      let whole = try StoredResponse(
        received(arriving.response, exchange, arriving.content.bytes, at: arriving.receivedAt), settings: settings)
      let isStored = cache.store(whole, for: key, of: CacheOwner(exchange.subject))
      // The settings changed meanwhile, so the stored mark may be wrong. The waiting callers still get the response.
      if settings != cacheSettings { cache.remove(key) }
      arriving.attempt.isShareable = whole.isShareable
      return .response(whole, isStored: isStored, forwardStatus: nil)
    } catch .tooLarge where exchange.call.coding == .gzip {
      return .stream(arriving.content.response(arriving.response))
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
    _ response: UpstreamResponse, _ exchange: CatalogExchange, _ content: [UInt8], at now: CacheTime
  ) -> ReceivedResponse {
    ReceivedResponse(
      status: response.status, fields: response.fields,
      downstream: policy.responseFields(response.fields, version: response.version), body: content,
      sent: exchange.call.fields, requestedAt: exchange.requestedAt, receivedAt: now)
  }
}

extension Outcome {
  /// Whether only one of the waiting callers may have the outcome.
  fileprivate var isForOne: Bool {
    if case .response(let response, _, _) = self { !response.isShareable } else { false }
  }
}
