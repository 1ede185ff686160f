/// Whether a request comes within its client's limits.
public enum RateVerdict: Sendable, Equatable {
  /// There are none.
  case unlimited
  /// It does, and this is what is left.
  case allowed(ServiceLimit)
  /// It does not; after so many seconds of it, it would: the value of `Retry-After`.
  case limited(ServiceLimit)
}
