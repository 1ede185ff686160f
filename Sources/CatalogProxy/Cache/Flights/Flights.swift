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
    /// The answer is on its way to the waiter already.
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
