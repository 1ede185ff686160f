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

/// The upstream requests in flight, and the callers that wait for each (request collapsing, RFC 9111 §4). A flight is one
/// such request with its waiters.
///
/// No waiter owns the upstream request, not even the first. When the last one leaves, a request that is not yet sent is
/// cancelled, unless a waiter left it with a stale response (``keep(_:)``). ``leave(_:)``, ``keep(_:)`` and
/// ``complete(_:)`` remove a waiter when they return it, so each waiter is returned exactly once.
struct RequestCoalescer<Waiter> {
  fileprivate struct Members {
    let serial: UInt64
    /// The work that sends the upstream request.
    var work: (any CancellableWork)?
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
  private var flights: [FlightKey: Members] = [:]
  private var lastSerial: UInt64 = 0

  var count: Int { flights.count }

  /// Adds `waiter` to the flight of `key`, or to a new one with the work of `makeWork`, which the caller then begins.
  mutating func join<Work: CancellableWork>(
    _ key: FlightKey, _ waiter: Waiter, _ makeWork: (FlightID) -> Work
  ) -> (ticket: FlightTicket, work: Work?) {
    lastSerial &+= 1
    return Self.join(&flights[key, default: Members(serial: lastSerial)], key, waiter, lastSerial, makeWork)
  }

  private static func join<Work: CancellableWork>(
    _ flight: inout Members, _ key: FlightKey, _ waiter: Waiter, _ serial: UInt64, _ makeWork: (FlightID) -> Work
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
  mutating func leave(_ ticket: FlightTicket) -> (waiter: Waiter, abandoned: (any CancellableWork)?)? {
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
  func isKept(_ key: FlightKey) -> Bool { flights[key]?.isKept ?? false }

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

extension RequestCoalescer.Members: Sendable where Waiter: Sendable {}
extension RequestCoalescer: Sendable where Waiter: Sendable {}

/// The identity of one upstream request with any number of waiters. Unique within one coalescer.
struct FlightID: Hashable, Sendable {
  let key: FlightKey
  let serial: UInt64
}

/// The common part of requests that become one upstream request: the target, and all sent fields. The credential is not
/// among them: it is the gateway's own, and a new token has the same meaning.
/// A request with different fields might select another variant (RFC 9111 §4.1), so it gets its own flight. An object,
/// because each waiter's ticket has it.
final class FlightKey: Hashable, Sendable {
  private let key: CacheKey
  private let sent: FieldLines

  init(_ key: CacheKey, sent: FieldLines) { (self.key, self.sent) = (key, sent) }

  static func == (left: FlightKey, right: FlightKey) -> Bool {
    left === right || left.key == right.key && left.sent == right.sent
  }

  /// Hashes only the target: the gateway creates the fields, at most two different sets for each target.
  func hash(into hasher: inout Hasher) { hasher.combine(key) }
}

/// The place of a waiter in a flight.
struct FlightTicket: Hashable, Sendable {
  let flight: FlightID
  let serial: UInt64
}

/// Targets whose latest response was for one caller only: `private`, `no-store`, `Vary: *` or with `Set-Cookie`.
/// Requests for such a target do not wait for each other, because the gateway would send a request for each of them
/// afterwards. The next response that callers may share removes the target, or its lifetime ends. An evicted target, or a
/// collision of hashes, costs only latency or one request.
struct UnsharedTargets: Sendable {
  /// The time for which a target stays in the set: 30 s.
  static let lifetime: Duration = .seconds(30)
  /// The most targets in the set: 256, about 8 kB.
  static let maximumCount = 256

  /// The expiry of each target, by its hash.
  private var ends: [UInt64: Duration] = [:]

  var count: Int { ends.count }

  func contains(_ key: CacheKey, now: Duration) -> Bool {
    guard !ends.isEmpty, let end = ends[key.fingerprint] else { return false }
    return now < end
  }

  /// Adds or removes a target according to its last response.
  mutating func note(_ key: CacheKey, isShareable: Bool, now: Duration) {
    guard !isShareable else {
      if !ends.isEmpty { ends[key.fingerprint] = nil }
      return
    }
    if ends.count >= Self.maximumCount, ends[key.fingerprint] == nil, let oldest = ends.min(by: { $0.value < $1.value })
    {
      ends[oldest.key] = nil
    }
    ends[key.fingerprint] = now + Self.lifetime
  }
}
