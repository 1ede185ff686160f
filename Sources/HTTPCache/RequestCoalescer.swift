public import HTTPTypes

/// Upstream requests that are under way, and the callers that wait for each (request collapsing, RFC 9111 §4).
///
/// No waiter owns the upstream request, not even the first. A waiter that leaves does not affect the others. The
/// request is cancelled only when the last waiter leaves, unless it is kept. ``leave(_:)``, ``keep(_:)`` and
/// ``complete(_:)`` remove a waiter when they return it, so each waiter is returned exactly once.
///
/// A value without a lock: keep it behind one, and resume the waiters outside of it.
public struct RequestCoalescer<Waiter> {
  fileprivate struct Flight {
    let key: FlightKey
    var waiters: [UInt64: Waiter] = [:]
    /// Whether it goes on without waiters.
    var isKept = false
  }

  /// The result of a caller's leaving.
  public enum Departure {
    /// The waiter to notify, and whether to cancel the upstream request because no waiter is left.
    case left(Waiter, cancelsFlight: Bool)
    /// The response is on its way to the waiter already.
    case tooLate
  }

  private var flights: [FlightID: Flight] = [:]
  /// The flight that a request may join.
  private var ids: [FlightKey: FlightID] = [:]
  private var lastSerial: UInt64 = 0

  /// Nothing under way.
  public init() {}

  /// How many upstream requests are under way.
  public var count: Int { flights.count }

  /// Has `waiter` wait for what `key` gets.
  ///
  /// - Returns: Its place, and whether the caller of this method must send the upstream request, in a separate task.
  public mutating func join(_ key: FlightKey, _ waiter: Waiter) -> (ticket: FlightTicket, isNew: Bool) {
    let serial = nextSerial()
    if let present = ids[key] {
      flights[present]?.waiters[serial] = waiter
      return (FlightTicket(flight: present, serial: serial), false)
    }
    let id = FlightID(serial: serial)
    ids[key] = id
    flights[id] = Flight(key: key, waiters: [serial: waiter])
    return (FlightTicket(flight: id, serial: serial), true)
  }

  /// Takes a waiter out. If it was the last, the flight is over: who comes now starts another, instead of joining one
  /// that is being cancelled.
  public mutating func leave(_ ticket: FlightTicket) -> Departure {
    guard let waiter = flights[ticket.flight]?.waiters.removeValue(forKey: ticket.serial) else { return .tooLate }
    guard let flight = flights[ticket.flight], flight.waiters.isEmpty, !flight.isKept else {
      return .left(waiter, cancelsFlight: false)
    }
    end(ticket.flight, flight)
    return .left(waiter, cancelsFlight: true)
  }

  /// Takes a waiter out that has got something else meanwhile. The flight goes on to its end, for those who come later.
  ///
  /// - Returns: The waiter; nil if the response is on its way to it already.
  public mutating func keep(_ ticket: FlightTicket) -> Waiter? {
    guard let waiter = flights[ticket.flight]?.waiters.removeValue(forKey: ticket.serial) else { return nil }
    flights[ticket.flight]?.isKept = true
    return waiter
  }

  /// Whether a request with this key has been under way so long that a waiter got something else meanwhile.
  public func isKept(_ key: FlightKey) -> Bool {
    ids[key].flatMap { flights[$0]?.isKept } ?? false
  }

  /// Ends a flight and returns its waiters in the order of their arrival; empty if the flight was given up.
  public mutating func complete(_ id: FlightID) -> [Waiter] {
    guard let flight = flights[id] else { return [] }
    end(id, flight)
    guard flight.waiters.count > 1 else { return Array(flight.waiters.values) }
    return flight.waiters.sorted { $0.key < $1.key }.map(\.value)
  }

  private mutating func end(_ id: FlightID, _ flight: Flight) {
    flights[id] = nil
    ids[flight.key] = nil
  }

  private mutating func nextSerial() -> UInt64 {
    lastSerial &+= 1
    return lastSerial
  }
}

extension RequestCoalescer.Flight: Sendable where Waiter: Sendable {}
extension RequestCoalescer.Departure: Sendable where Waiter: Sendable {}
extension RequestCoalescer: Sendable where Waiter: Sendable {}

/// One upstream request that any number of callers wait for. No two in the life of a process are equal.
public struct FlightID: Hashable, Sendable {
  let serial: UInt64
}

/// What requests have to have in common to become one upstream request: everything that is sent.
///
/// A request whose fields differ, and might select another variant (RFC 9111 §4.1), is another flight from the start. The
/// response is still handed to all only if it may be shared, see ``StoredResponse/isShareable``.
public struct FlightKey: Hashable, Sendable {
  private let key: CacheKey
  private var sent: HTTPFields

  /// - Parameters:
  ///   - key: The target.
  ///   - sent: All end-to-end fields that are sent upstream. Authorization is left out: it is the proxy's own, and means
  ///     the same after a new token. A field that is another for each request would keep any two from sharing.
  public init(_ key: CacheKey, sent: HTTPFields) {
    self.key = key
    self.sent = sent
    if sent.contains(.authorization) { self.sent[.authorization] = nil }
  }

  /// Feeds the target only. The fields are of the proxy's own making, two sets of them at most for a target that is
  /// shared; to hash them took longer than everything else about a flight.
  public func hash(into hasher: inout Hasher) {
    hasher.combine(key)
  }
}

/// A caller's place in a flight.
public struct FlightTicket: Hashable, Sendable {
  /// The flight.
  public let flight: FlightID
  let serial: UInt64
}

/// Targets whose last response only one caller may have: `private`, `no-store`, `Vary: *` or with `Set-Cookie`.
///
/// Requests for such a target do not wait for each other, because the proxy would have to send them one by one
/// afterwards. The next response that callers may share removes the target, and so does time. The set keeps at most
/// ``most`` targets, by a hash. A forgotten or confused target costs only latency or one request.
package struct UnsharedTargets: Sendable {
  /// How long a target is known: 30 s.
  static let lifetime: Duration = .seconds(30)

  /// The most targets that are known: 256, about 8 kB.
  static let most = 256

  /// When each ends.
  private var ends: [UInt64: Duration] = [:]

  /// None is known yet.
  package init() {}

  /// How many are known.
  var count: Int { ends.count }

  /// Whether requests for a target are sent one by one.
  package func contains(_ key: CacheKey, now: Duration) -> Bool {
    guard !ends.isEmpty, let end = ends[key.fingerprint] else { return false }
    return now < end
  }

  /// A response came for a target.
  package mutating func note(_ key: CacheKey, isShareable: Bool, now: Duration) {
    guard !isShareable else {
      if !ends.isEmpty { ends[key.fingerprint] = nil }
      return
    }
    if ends.count >= Self.most, ends[key.fingerprint] == nil, let oldest = ends.min(by: { $0.value < $1.value }) {
      ends[oldest.key] = nil
    }
    ends[key.fingerprint] = now + Self.lifetime
  }
}
