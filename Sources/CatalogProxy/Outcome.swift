import HTTPMessages
import HTTPTypes

/// What going upstream came to, for all who wait for it.
enum Outcome: Sendable {
  /// A whole answer; `stored` if the cache took it, `forwardStatus` if the upstream's status was another (304).
  case answer(StoredAnswer, isStored: Bool, forwardStatus: Int?)
  /// An answer too long to be kept, which only one can have.
  case stream(UpstreamResponse)
  /// Another caller has the response, which was too long to be shared: send the request as one of its own.
  case alone
  /// Another caller has the response, and only that caller may have it: send the request separately.
  case unshared
  /// It takes long, and there is a stale response to be had meanwhile.
  case late
  /// None.
  case failure(UpstreamFailure)
  /// All callers have stopped waiting.
  case cancelled
}

/// The result of waiting for a turn.
enum Admission: Sendable {
  /// It is one's turn.
  case granted(ConcurrencyPermit)
  /// Too many wait already.
  case refused(retryAfter: Duration)
  /// It did not come in time.
  case timedOut
  /// The caller has gone away.
  case cancelled
}
