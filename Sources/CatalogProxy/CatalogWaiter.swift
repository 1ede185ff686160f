import HTTP1
import HTTPCache
import HTTPMessages
import Locks
import UpstreamAdmission

/// A caller that waits for the outcome of a flight, without a task. It gets its reply once. It may wait for another flight
/// after one that has no outcome for it.
final class CatalogWaiter: CancellableWork, Sendable {
  let miss: CatalogMiss
  /// Whether the wait is for the cache, and lasts to the end even if the cache has a usable stale response.
  let isRefresh: Bool
  private let gateway: CatalogGateway
  private let state: Locked<State>

  /// What takes the reply. An optional function would need an allocation of its own.
  struct Receiver: Sendable {
    let take: @Sendable (consuming CatalogReply) -> Void
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
    var receiver: Receiver?
    var isCancelled = false
    /// What ends the wait after `staleAfter`.
    var alarm: (any CancellableWork)?
    var place = Place.none

    /// Ends the wait.
    mutating func end() -> (Receiver?, (any CancellableWork)?, Place) {
      defer { place = .none }
      return (receiver.take(), alarm.take(), place)
    }
  }

  init(
    _ miss: CatalogMiss, isRefresh: Bool = false, on gateway: CatalogGateway,
    then receive: @escaping @Sendable (consuming CatalogReply) -> Void
  ) {
    (self.miss, self.isRefresh, self.gateway) = (miss, isRefresh, gateway)
    state = Locked(State(receiver: Receiver(take: receive)))
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
      return state.receiver == nil
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
    let (receiver, alarm, place) = state.withLock { $0.end() }
    guard let receiver else { return false }
    alarm?.cancel()
    let isFollower =
      switch place {
      // A caller that gets a stale response because the flight takes long has not joined it.
      case .none, .shared(_, isLeader: false): true
      case .own, .shared(_, isLeader: true): false
      }
    if isElsewhere {
      Task(executorPreference: miss.route.executor) { self.finish(outcome, isFollower: isFollower, receiver) }
    } else {
      finish(outcome, isFollower: isFollower, receiver)
    }
    return true
  }

  private func finish(_ outcome: Outcome, isFollower: Bool, _ receiver: Receiver) {
    guard !isRefresh else {
      if case .stream(let response) = outcome { response.content.cancel() }
      return receiver.take(.cancelled)
    }
    switch outcome {
    case .unshared: goOn(receiver) { fly(.single) }
    case .found(let response) where !gateway.isUsable(response, for: miss.call): goOn(receiver) { fly(.single) }
    case .alone: goOn(receiver) { fly(.passed) }
    case .failure(let failure, _) where isFollower && gateway.mayJoinAgain(miss, failure):
      goOn(receiver) { gateway.coalesce(self, at: gateway.clock.now, isAgain: true) }
    default: receiver.take(gateway.reply(to: miss, outcome, isCollapsed: isFollower))
    }
  }

  /// Waits for another flight, unless the caller has gone meanwhile.
  private func goOn(_ receiver: Receiver, _ begin: () -> Void) {
    let isCancelled = state.withLock { state in
      if !state.isCancelled { state.receiver = receiver }
      return state.isCancelled
    }
    isCancelled ? receiver.take(.cancelled) : begin()
  }

  /// Ends the wait of a caller that has gone, with a reply at once, so that nothing keeps its connection. A request that was
  /// sent goes on.
  func cancel() {
    let (receiver, alarm, place) = state.withLock { state in
      state.isCancelled = true
      return state.end()
    }
    alarm?.cancel()
    switch place {
    case .none: break
    case .shared(let ticket, _): gateway.leave(ticket)
    case .own(let driver): driver.cancel()
    }
    receiver?.take(.cancelled)
  }
}

/// Phase 4: concurrent requests for the same resource share one upstream request, which no single caller owns.
extension CatalogGateway {
  /// Lets a caller wait for the result of the request's flight, which starts if it does not exist. If the caller may have a
  /// stale response, the wait ends after `staleAfter`, and the flight continues. `isAgain`: the caller has waited for another
  /// flight before, and is counted already.
  @inline(never)
  func coalesce(_ waiter: CatalogWaiter, at now: CacheTime, isAgain: Bool = false) {
    let miss = waiter.miss
    let call = miss.call
    let hasStale =
      !waiter.isRefresh
      && miss.stored.map { Selection($0.response, now: now).mayServeWhileWaiting(call.directives) } ?? false
    let isUnshared = cache.isUnshared(call.key, now: now)
    var admitted: Admission.Result?
    let joining = withState { state -> Joining in
      // A background request answers no caller.
      if !waiter.isRefresh, !isAgain { state.admission.counts.misses += 1 }
      guard !isUnshared else { return .unshared }
      if hasStale, state.coalescer.isKept(call.key) { return .late }
      let (ticket, driver) = state.coalescer.join(call.key, waiter) {
        FlightDriver(.shared($0), leader: waiter, on: self)
      }
      let isWaiting = waiter.waits(at: .shared(ticket, isLeader: driver != nil))
      if let driver {
        // A flight that need not ask the replicas' store first is admitted in the same critical section.
        if miss.route.shared == nil { admitted = state.enter(&driver.flight, of: driver, at: now) }
      } else {
        if !isAgain { state.admission.counts.collapsed += 1 }
        state.addPlace(of: miss, to: ticket.flight, now: now.elapsed)
      }
      return .joined(ticket, driver, isWaiting: isWaiting)
    }
    switch joining {
    case .joined(let ticket, let driver, let isWaiting):
      driver?.begin(after: admitted.take())
      if !isWaiting { return leave(ticket) }
      guard hasStale else { return }
      waiter.waits(
        atMost: miss.route.upstream.alarm(after: configuration.staleAfter) {
          self.withState { $0.coalescer.keep(ticket) }?.resume(.late)
        })
    case .unshared: waiter.fly(.single)
    case .late: waiter.resume(.late)
    }
  }

  private enum Joining: Sendable {
    /// The place in a flight, and its driver if this caller is its leader. `isWaiting`: the caller has not gone.
    case joined(FlightTicket, FlightDriver?, isWaiting: Bool)
    /// Requests for this resource do not wait for each other.
    case unshared
    /// A waiter has left the flight with a stale response, and this caller may have it as well.
    case late
  }

  /// Removes a caller that has gone from its flight.
  func leave(_ ticket: FlightTicket) { withState { $0.coalescer.leave(ticket)?.abandoned }?.cancel() }

  /// Resumes all waiting callers of a flight. On the leader's loop.
  @inline(never)
  func complete(_ flight: FlightID, _ outcome: Outcome) {
    // Without the leader if it has gone.
    let (first, followers) = withState { $0.coalescer.complete(flight) }
    var isTaken = first?.resume(outcome) ?? false
    if case .stream(let response) = outcome {
      // The content can be read only on this event loop.
      for waiter in followers { waiter.resume(.alone, isElsewhere: true) }
      if !isTaken { response.content.cancel() }
      return
    }
    // If only one caller may have the outcome, the first that waits gets it.
    let isForOne = if case .response(let response, _, _) = outcome { !response.isShareable } else { false }
    for waiter in followers {
      if waiter.resume(isForOne && isTaken ? .unshared : outcome, isElsewhere: true) { isTaken = true }
    }
  }

  /// Returns whether a follower joins the next flight, or begins it: the failure is about the rights and the deadline of the
  /// caller that would have paid, and this one may have others.
  func mayJoinAgain(_ miss: CatalogMiss, _ failure: UpstreamFailure) -> Bool {
    let now = clock.now
    guard miss.end - now.elapsed > leastTime else { return false }
    switch failure.error.shortage {
    case .queue, .queueTime, .circuit: return true
    // The token came too late for that caller. Without one, the next flight would fail like this one.
    case .developerToken: return withAdmission { $0.unexpiredToken(now: now) } != nil
    default: return false
    }
  }
}

/// The upstream requests in flight, and the callers that wait for each (request collapsing, RFC 9111 §4). A flight is one
/// such request with its waiters. Callers with and without gzip share it: all other fields are the gateway's own, and the
/// cache has both codings of a response (``HeaderPolicy``).
///
/// No waiter owns the upstream request, not even the first. When the last one leaves, a request that is not yet sent is
/// cancelled, unless a waiter left it with a stale response (``keep(_:)``). ``leave(_:)``, ``keep(_:)`` and
/// ``complete(_:)`` remove a waiter when they return it, so each waiter is returned exactly once.
struct RequestCoalescer<Waiter, Work> {
  fileprivate struct Members {
    let serial: UInt64
    /// The work that sends the upstream request.
    var work: Work?
    /// The first waiter, which most flights have alone.
    var first: Waiter?
    /// The other waiters, by their serial numbers.
    var others: [UInt64: Waiter] = [:]
    /// Whether the flight continues without waiters.
    var isKept = false
    /// The place of the upstream request in the queue for a turn, also after it has left the queue; nil before it waits.
    var turn: QueueTicket?

    var isEmpty: Bool { first == nil && others.isEmpty }

    mutating func remove(_ serial: UInt64) -> Waiter? {
      serial == self.serial ? first.take() : others.removeValue(forKey: serial)
    }
  }

  /// The flights that new requests may join.
  private var flights: [CacheKey: Members] = [:]
  private var lastSerial: UInt64 = 0

  var count: Int { flights.count }

  /// Adds `waiter` to the flight of `key`, or to a new one with the work of `makeWork`, which the caller then begins.
  mutating func join(
    _ key: CacheKey, _ waiter: Waiter, _ makeWork: (FlightID) -> Work
  ) -> (ticket: FlightTicket, work: Work?) {
    lastSerial &+= 1
    return Self.join(&flights[key, default: Members(serial: lastSerial)], key, waiter, lastSerial, makeWork)
  }

  private static func join(
    _ flight: inout Members, _ key: CacheKey, _ waiter: Waiter, _ serial: UInt64, _ makeWork: (FlightID) -> Work
  ) -> (ticket: FlightTicket, work: Work?) {
    let id = FlightID(key: key, serial: flight.serial)
    guard flight.serial == serial else {
      flight.others[serial] = waiter
      return (FlightTicket(flight: id, serial: serial), nil)
    }
    flight.first = waiter
    let work = makeWork(id)
    // Set at once, so that no caller can leave the flight before.
    flight.work = work
    return (FlightTicket(flight: id, serial: serial), work)
  }

  /// Removes a waiter. If it was the last, the flight ends, and later requests do not join it. Returns the waiter, and if it
  /// was the last one, the work that the caller must cancel. Nil if the response is already on its way to the waiter.
  mutating func leave(_ ticket: FlightTicket) -> (waiter: Waiter, abandoned: Work?)? {
    guard let waiter = remove(ticket) else { return nil }
    guard let flight = flights[ticket.flight.key], flight.isEmpty, !flight.isKept else { return (waiter, nil) }
    flights[ticket.flight.key] = nil
    return (waiter, flight.work)
  }

  /// Removes a waiter that received another response meanwhile. The flight continues to its end for later requests. Returns
  /// the waiter, or nil if the response is already on its way to it.
  mutating func keep(_ ticket: FlightTicket) -> Waiter? {
    guard let waiter = remove(ticket) else { return nil }
    flights[ticket.flight.key]?.isKept = true
    return waiter
  }

  /// Notes that the upstream request of a flight waits for a turn. Returns the waiters besides the first, in any order.
  mutating func waits(_ id: FlightID, for turn: QueueTicket) -> [Waiter] {
    guard let index = flights.index(forKey: id.key), flights.values[index].serial == id.serial else { return [] }
    flights.values[index].turn = turn
    return Array(flights.values[index].others.values)
  }

  /// Returns the last place of a flight in the queue for a turn; nil if it has not waited for one.
  func turn(of id: FlightID) -> QueueTicket? { flights[id.key].flatMap { $0.serial == id.serial ? $0.turn : nil } }

  /// Returns whether a waiter of this key's flight received another response because the flight took long.
  func isKept(_ key: CacheKey) -> Bool { flights[key]?.isKept ?? false }

  /// Ends a flight and returns its waiters: the one that has begun it, and the others in the order of their arrival. None if
  /// the flight was cancelled, or if all of them left.
  mutating func complete(_ id: FlightID) -> (first: Waiter?, others: [Waiter]) {
    guard let index = flights.index(forKey: id.key), flights.values[index].serial == id.serial else { return (nil, []) }
    let flight = flights.remove(at: index).value
    // Most flights have one waiter, and need no array.
    return (flight.first, flight.others.isEmpty ? [] : flight.others.sorted { $0.key < $1.key }.map(\.value))
  }

  private mutating func remove(_ ticket: FlightTicket) -> Waiter? {
    guard flights[ticket.flight.key]?.serial == ticket.flight.serial else { return nil }
    return flights[ticket.flight.key]?.remove(ticket.serial)
  }
}

extension RequestCoalescer.Members: Sendable where Waiter: Sendable, Work: Sendable {}
extension RequestCoalescer: Sendable where Waiter: Sendable, Work: Sendable {}

/// The identity of one upstream request with any number of waiters. Unique within one coalescer.
struct FlightID: Hashable, Sendable {
  let key: CacheKey
  let serial: UInt64
}

/// The place of a waiter in a flight.
struct FlightTicket: Hashable, Sendable {
  let flight: FlightID
  let serial: UInt64
}
