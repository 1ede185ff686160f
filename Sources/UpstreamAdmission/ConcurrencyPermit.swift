/// The right to have one request in flight, until ``ConcurrencyLimit/release(_:_:now:)``.
public final class ConcurrencyPermit: @unchecked Sendable {
  // Sendable: only the limit that has granted it changes it.

  /// The caller that pays for the turn.
  public let caller: QuotaCaller
  /// The slot of its client in the limit.
  let slot: Int
  /// The time at which the request was sent, in seconds.
  let sent: Double
  var isReleased = false

  init(_ caller: QuotaCaller, of slot: Int, sent: Double) {
    (self.caller, self.slot, self.sent) = (caller, slot, sent)
  }
}

/// The outcome of a request with a permit, with regard to the quota.
public enum ConcurrencyOutcome: Sendable, Equatable {
  /// Apple responded with a status other than 429.
  case answered
  /// Apple refused the request with 429 and this `Retry-After`, if any.
  case limited(retryAfter: Duration?)
  /// No response, a 5xx, or the request was given up. This is no evidence about the quota.
  case inconclusive
}

/// The part of the team's quota that one client has used since the start.
public struct ClientCounts: Sendable, Equatable {
  /// Requests of the client that were sent to the upstream, including retries.
  public var attempts = 0
  /// Responses with 429 to these requests.
  public var limited = 0

  /// Creates counts.
  public init(attempts: Int = 0, limited: Int = 0) { (self.attempts, self.limited) = (attempts, limited) }
}
