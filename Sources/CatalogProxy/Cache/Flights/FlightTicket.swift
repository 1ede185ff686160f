/// A caller's place in a flight.
public struct FlightTicket: Hashable, Sendable {
  /// The flight.
  public let flight: FlightID
  let serial: UInt64
}
