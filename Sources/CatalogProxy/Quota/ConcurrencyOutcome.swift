/// How a request with a permit ended, for the quota.
public enum ConcurrencyOutcome: Sendable, Equatable {
  /// It was answered with anything but 429.
  case answered
  /// It was refused with 429; and what its `Retry-After` says.
  case limited(retryAfter: Duration?)
  /// It was not answered, was answered with 5xx, or was given up: this says nothing about the quota.
  case inconclusive
}
