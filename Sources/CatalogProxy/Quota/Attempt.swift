public import HTTPMessages
public import HTTPTypes

/// An attempt at a request that had no good end.
public struct Attempt: Sendable {
  /// How it ended.
  public enum Ending: Sendable {
    /// There is no response.
    case failed(UpstreamError)
    /// A response with 429, and the seconds that its `Retry-After` names, if any.
    case limited(retryAfter: Duration?)
  }

  /// The request's method.
  public var method: HTTPRequest.Method
  /// How it ended.
  public var ending: Ending
  /// Which attempt at the request it was: 1 for the first.
  public var number: Int
  /// What is left of the time that the caller gives the request.
  public var timeLeft: Duration
  /// Whether content went along, and has been read in part: it cannot be sent again.
  public var hasReadContent = false

  /// An attempt.
  public init(_ method: HTTPRequest.Method, _ ending: Ending, number: Int, timeLeft: Duration) {
    self.method = method
    self.ending = ending
    self.number = number
    self.timeLeft = timeLeft
  }

  /// The connection whose end failed it together with others; nil if it failed by itself.
  var brokenConnection: UInt64? {
    if case .failed(let error) = ending { error.connection } else { nil }
  }
}
