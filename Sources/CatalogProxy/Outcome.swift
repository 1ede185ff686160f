import HTTPMessages
import HTTPTypes

/// The result of a request to the upstream, for all callers that wait for it.
enum Outcome: Sendable {
  /// A whole response; `stored` if the cache took it, `forwardStatus` if the upstream's status was another (304).
  case answer(StoredAnswer, isStored: Bool, forwardStatus: Int?)
  /// A response too long to be kept, which only one caller can have.
  case stream(UpstreamResponse)
  /// Another caller has the response, which was too long to be shared: send the request separately.
  case alone
  /// Another caller has the response, and only that caller may have it: send the request separately.
  case unshared
  /// The request takes long, and the caller can have a stale response meanwhile.
  case late
  /// The request failed, so there is no response.
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
