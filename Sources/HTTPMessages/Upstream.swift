/// A server that requests are sent to, as one event loop sees it. Called from tasks of that loop only.
public protocol Upstream: Sendable {
  /// Sends one request, once, and returns when the head of the final response has come.
  ///
  /// A cancelled task ends the exchange: an HTTP/2 stream is reset, an HTTP/1.1 connection closed.
  ///
  /// - Parameter limits: How long it may take.
  func send(_ request: UpstreamRequest, limits: UpstreamTimeouts) async throws(UpstreamError) -> UpstreamResponse

  /// Lets time pass. Throws when the task is cancelled first.
  func pause(for duration: Duration) async throws(CancellationError)
}

/// How long one exchange with an upstream may take.
public struct UpstreamTimeouts: Sendable, Equatable {
  /// For a connection to be there: name, addresses, TLS.
  public var connect: Duration
  /// From the request being sent to the head of the response.
  public var firstByte: Duration
  /// From `send` to the last byte of the response.
  public var whole: Duration

  /// Bounds for one exchange.
  public init(connect: Duration, firstByte: Duration, whole: Duration) {
    self.connect = connect
    self.firstByte = firstByte
    self.whole = whole
  }
}
