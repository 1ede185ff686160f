/// One upstream request that any number of callers wait for. No two in the life of a process are equal.
public struct FlightID: Hashable, Sendable {
  let serial: UInt64
}
