import HTTPMessages
import Locks

/// A caller that waits for the outcome of a flight, without a task. It gets its reply once. It may wait for another flight
/// after one that has no outcome for it.
final class CatalogWaiter: CancellableWork, Sendable {
  let miss: CatalogMiss
  /// Whether the wait is for the cache, and lasts to the end even if the cache has a usable stale response.
  let isRefresh: Bool
  private let gateway: CatalogGateway
  private let state: Locked<State>

  enum Purpose: Sendable {
    case reply(@Sendable (consuming CatalogReply) -> Void)
    /// The cache. The function is called at the end.
    case refresh(@Sendable () -> Void)
  }

  /// What the caller waits for.
  enum Place: Sendable {
    case none
    /// A flight that other callers may have joined. Its leader has begun it; the others are followers.
    case shared(FlightTicket, isLeader: Bool)
    /// A flight that no other caller can join.
    case own(FlightDriver)
  }

  private struct State {
    /// Nil once the caller has its reply: a flight that goes on must not keep the caller's connection.
    var purpose: Purpose?
    var isCancelled = false
    /// What ends the wait after `staleAfter`.
    var alarm: (any CancellableWork)?
    var place = Place.none

    /// Ends the wait.
    mutating func end() -> (Purpose?, (any CancellableWork)?, Place) {
      defer { place = .none }
      return (purpose.take(), alarm.take(), place)
    }
  }

  init(_ miss: CatalogMiss, for purpose: Purpose, on gateway: CatalogGateway) {
    (self.miss, self.gateway) = (miss, gateway)
    isRefresh = if case .refresh = purpose { true } else { false }
    state = Locked(State(purpose: purpose))
  }

  /// Takes note of the place of the wait. Returns false if the caller has gone.
  func waits(at place: Place) -> Bool {
    state.withLock { state in
      guard !state.isCancelled else { return false }
      state.place = place
      return true
    }
  }

  func waits(atMost alarm: any CancellableWork) {
    let isOver = state.withLock { state in
      state.alarm = alarm
      return state.purpose == nil
    }
    if isOver { alarm.cancel() }
  }

  /// Waits for a flight that no other caller can join.
  func fly(_ kind: Flight.Kind, content: (any ContentReader)? = nil, contentLength: Int? = nil) {
    let driver = FlightDriver(kind, leader: self, content: content, contentLength: contentLength, on: gateway)
    if waits(at: .own(driver)) { driver.begin() }
  }

  /// Ends the wait with an outcome. Returns false if it has ended before. `isElsewhere`: not on the route's loop.
  @discardableResult
  func resume(_ outcome: Outcome, isElsewhere: Bool = false) -> Bool {
    let (purpose, alarm, place) = state.withLock { $0.end() }
    guard let purpose else { return false }
    alarm?.cancel()
    let isFollower =
      switch place {
      // A caller that gets a stale response because the flight takes long has not joined it.
      case .none, .shared(_, isLeader: false): true
      case .own, .shared(_, isLeader: true): false
      }
    if isElsewhere {
      Task(executorPreference: miss.route.executor) { self.finish(purpose, outcome, isFollower: isFollower) }
    } else {
      finish(purpose, outcome, isFollower: isFollower)
    }
    return true
  }

  private func finish(_ purpose: Purpose, _ outcome: Outcome, isFollower: Bool) {
    switch purpose {
    case .reply(let receive):
      switch outcome {
      case .unshared: goOn(purpose) { fly(.single) }
      case .found(let response) where !gateway.isUsable(response, for: miss.call): goOn(purpose) { fly(.single) }
      case .alone: goOn(purpose) { fly(.passed) }
      case .failure(let failure, _) where isFollower && gateway.mayJoinAgain(miss, failure):
        goOn(purpose) { gateway.coalesce(self, at: gateway.clock.now, isAgain: true) }
      default: receive(gateway.reply(to: miss, outcome, isCollapsed: isFollower))
      }
    case .refresh(let done):
      if case .stream(let response) = outcome { response.content.cancel() }
      done()
    }
  }

  /// Waits for another flight, unless the caller has gone meanwhile.
  private func goOn(_ purpose: Purpose, _ begin: () -> Void) {
    let isCancelled = state.withLock { state in
      if !state.isCancelled { state.purpose = purpose }
      return state.isCancelled
    }
    isCancelled ? purpose.cancel() : begin()
  }

  /// Ends the wait of a caller that has gone, with a reply at once, so that nothing keeps its connection. A request that was
  /// sent goes on.
  func cancel() {
    let (purpose, alarm, place) = state.withLock { state in
      state.isCancelled = true
      return state.end()
    }
    alarm?.cancel()
    switch place {
    case .none: break
    case .shared(let ticket, _): gateway.leave(ticket)
    case .own(let driver): driver.cancel()
    }
    purpose?.cancel()
  }
}

extension CatalogWaiter.Purpose {
  fileprivate func cancel() {
    switch self {
    case .reply(let receive): receive(.cancelled)
    case .refresh(let done): done()
    }
  }
}
