import HTTPMessages

/// Whose turn it is: the quota is shared fairly, and what does not fit waits.
extension CatalogGateway {
  /// Waits for a turn, no longer than the exchange may take.
  ///
  /// - Parameter isRetry: Whether the request was refused with 429 before.
  func admit(_ exchange: Exchange, isRetry: Bool) async -> Admission {
    let waiting = OneShot<Admission>()
    let now = clock.elapsed
    var request = ConcurrencyLimit<OneShot<Admission>>.Request(exchange.caller)
    request.isRetry = isRetry
    request.patience = exchange.end - now - leastTime
    let wanted = request
    let (admission, isUnpaced) = withState { state in
      let admission = state.limit.acquire(wanted, waiter: waiting, now: now)
      return (admission, state.startsPacing(by: exchange.route))
    }
    if isUnpaced { startPacing(by: exchange.route) }
    switch admission {
    case .granted(let permit): return .granted(permit)
    case .refused(let retryAfter): return .refused(retryAfter: retryAfter)
    case .queued(let ticket):
      // One that is left with less would not be sent, and its turn would be lost.
      expire(.wait(ticket), at: exchange.end - leastTime, exchange.route)
      return await withTaskCancellationHandler {
        await waiting.get()
      } onCancel: {
        withState { $0.limit.cancel(ticket) }?.resume(.cancelled)
      }
    }
  }

  /// Gives a turn back, and tells those whose turn it is now.
  func release(_ permit: ConcurrencyPermit, _ outcome: ConcurrencyOutcome) {
    let now = clock.elapsed
    let (grants, route) = withState { state in
      let grants = state.limit.release(permit, outcome, now: now)
      return (grants, state.startsPacing() ? state.pacingRoute : nil)
    }
    if let route { startPacing(by: route) }
    hand(grants)
  }

  private func hand(_ grants: [ConcurrencyLimit<OneShot<Admission>>.Grant]) {
    for grant in grants where !grant.waiter.resume(.granted(grant.permit)) {
      // It had been told something else in the same moment.
      release(grant.permit, .inconclusive)
    }
  }

  // MARK: Pacing

  private func startPacing(by route: UpstreamRoute) {
    Task(executorPreference: route.executor) { await self.pace(route.upstream) }
  }

  /// Lets requests go at the pacer's times, until none waits for it.
  private func pace(_ upstream: any Upstream) async {
    while true {
      let now = clock.elapsed
      let (grants, next) = withState { state in
        let grants = state.limit.advance(now: now)
        state.isPacing = state.limit.opening != nil
        return (grants, state.limit.opening)
      }
      hand(grants)
      guard let next else { return }
      guard (try? await upstream.pause(for: max(next - clock.elapsed, .milliseconds(1)))) != nil else {
        // The loop is on its way out, and this with it.
        return withState { $0.isPacing = false }
      }
    }
  }

  // MARK: Ends

  /// Sees to it that something ends at its time, though nothing else should happen.
  func expire(_ item: DeadlineQueue.Item, at end: Duration, _ route: UpstreamRoute) {
    let isUnwatched = withState { state in
      state.expiries.insert(item, until: end)
      defer { state.expiries.isWatched = true }
      return !state.expiries.isWatched
    }
    guard isUnwatched else { return }
    Task(executorPreference: route.executor) { await self.watchExpiries(route.upstream) }
  }

  private func watchExpiries(_ upstream: any Upstream) async {
    while true {
      let now = clock.elapsed
      let (waits, turns, next) = withState { state -> ([OneShot<Admission>], [HeldPermit], Duration?) in
        var waits: [OneShot<Admission>] = []
        var turns: [HeldPermit] = []
        for item in state.expiries.removeExpired(now: now) {
          switch item {
          case .wait(let ticket): if let waiter = state.limit.cancel(ticket) { waits.append(waiter) }
          case .turn(let permit): turns.append(permit)
          }
        }
        let next = state.expiries.next
        state.expiries.isWatched = next != nil
        return (waits, turns, next)
      }
      for waiter in waits { waiter.resume(.timedOut) }
      for permit in turns { permit.release(.inconclusive) }
      guard let next else { return }
      guard (try? await upstream.pause(for: max(next - now, .milliseconds(10)))) != nil else {
        // The loop is on its way out, and this with it.
        return withState { $0.expiries.isWatched = false }
      }
    }
  }
}

extension CatalogGateway.State {
  /// Whether a task that lets requests go at the pacer's times is needed and not there. The caller starts it.
  ///
  /// - Parameter route: A way to the upstream, for a task that is needed later.
  mutating func startsPacing(by route: UpstreamRoute? = nil) -> Bool {
    guard limit.opening != nil, !isPacing else { return false }
    if let route { pacingRoute = route }
    isPacing = pacingRoute != nil
    return isPacing
  }
}
