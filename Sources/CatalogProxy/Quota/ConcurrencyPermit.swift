/// The right to have one request under way. It ends with ``ConcurrencyLimit/release(_:_:now:)``.
public struct ConcurrencyPermit: Sendable, Hashable {
  let serial: UInt64
}
