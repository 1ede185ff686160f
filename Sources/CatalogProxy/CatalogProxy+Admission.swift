/// Whose turn it is: the quota is shared fairly, and what does not fit waits.
extension CatalogProxy {
  /// Waits for a turn, no longer than to `end`.
  func admit(_ exchange: Exchange, until end: Duration) async -> Admission {
    let waiting = Waiting<Admission>()
    let now = clock.elapsed
    let (admission, late) = withState { state in
      let late = state.queue.expired(now: now, in: &state.limit)
      let admission = state.limit.acquire(
        for: exchange.caller, cost: exchange.cost, waiter: waiting)
      if case .queued(let ticket) = admission { state.queue.append(ticket, until: end) }
      return (admission, late)
    }
    for waiter in late { waiter.resume(.timedOut) }
    switch admission {
    case .granted(let permit): return .granted(permit)
    case .refused(let retryAfter): return .refused(retryAfter: retryAfter)
    case .queued(let ticket):
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
    let (grants, late) = withState { state in
      let late = state.queue.expired(now: now, in: &state.limit)
      return (state.limit.release(permit, outcome, now: now), late)
    }
    for waiter in late { waiter.resume(.timedOut) }
    for grant in grants where !grant.waiter.resume(.granted(grant.permit)) {
      // It had been told something else in the same moment.
      release(grant.permit, .inconclusive)
    }
  }
}

/// Until when those who wait for their turn may wait. All wait equally long, so the first is the next to run out.
struct AdmissionQueue {
  private var entries: [(ticket: QueueTicket, end: Duration)] = []
  private var first = 0

  mutating func append(_ ticket: QueueTicket, until end: Duration) {
    if first > 64, first > entries.count / 2 {
      entries.removeFirst(first)
      first = 0
    }
    entries.append((ticket, end))
  }

  /// Takes those whose time is up out of the queue.
  mutating func expired(
    now: Duration, in limit: inout ConcurrencyLimit<String, Waiting<Admission>>
  ) -> [Waiting<Admission>] {
    var late: [Waiting<Admission>] = []
    while first < entries.count, entries[first].end <= now {
      if let waiter = limit.cancel(entries[first].ticket) { late.append(waiter) }
      first += 1
    }
    return late
  }
}
