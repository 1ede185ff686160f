/// Upstream requests that are under way, and who waits for each (request collapsing, RFC 9111 §4).
///
/// The upstream request belongs to none of those who wait, not even to the first: whoever leaves hurts no other, and it
/// is given up only when nobody is left. A waiter is handed out exactly once, by ``leave(_:)`` or by ``complete(_:)``,
/// because that is what takes it out.
///
/// A value without a lock: keep it behind one, and resume the waiters outside of it.
public struct Flights<Waiter> {
  fileprivate struct Flight {
    let serial: UInt64
    var waiters: [UInt64: Waiter] = [:]
  }

  /// What became of a caller who leaves.
  public enum Departure {
    /// The waiter, who is to be told, and whether the upstream request is to be cancelled since nobody waits any more.
    case left(Waiter, cancelsFlight: Bool)
    /// The answer is on its way to the waiter already.
    case tooLate
  }

  private var flights: [FlightKey: Flight] = [:]
  private var lastSerial: UInt64 = 0

  /// Nothing under way.
  public init() {}

  /// How many upstream requests are under way.
  public var count: Int { flights.count }

  /// Has `waiter` wait for what `key` gets.
  ///
  /// - Returns: Its place, and whether the upstream request is still to be sent, by whoever called, as a task of its own.
  public mutating func join(_ key: FlightKey, _ waiter: Waiter) -> (ticket: FlightTicket, isNew: Bool) {
    let serial = nextSerial()
    let present = flights[key]?.serial
    flights[key, default: Flight(serial: serial)].waiters[serial] = waiter
    let id = FlightID(key: key, serial: present ?? serial)
    return (FlightTicket(flight: id, serial: serial), present == nil)
  }

  /// Takes a waiter out. If it was the last, the flight is over: who comes now starts another, instead of joining one
  /// that is being cancelled.
  public mutating func leave(_ ticket: FlightTicket) -> Departure {
    let key = ticket.flight.key
    guard flights[key]?.serial == ticket.flight.serial,
      let waiter = flights[key]?.waiters.removeValue(forKey: ticket.serial)
    else { return .tooLate }
    let isLast = flights[key]?.waiters.isEmpty ?? true
    if isLast { flights[key] = nil }
    return .left(waiter, cancelsFlight: isLast)
  }

  /// Ends a flight: everybody who waited for it, in the order they came. Nobody if it was given up.
  public mutating func complete(_ id: FlightID) -> [Waiter] {
    guard let flight = flights[id.key], flight.serial == id.serial else { return [] }
    flights[id.key] = nil
    return flight.waiters.sorted { $0.key < $1.key }.map(\.value)
  }

  private mutating func nextSerial() -> UInt64 {
    lastSerial &+= 1
    return lastSerial
  }
}

extension Flights.Flight: Sendable where Waiter: Sendable {}
extension Flights.Departure: Sendable where Waiter: Sendable {}
extension Flights: Sendable where Waiter: Sendable {}
