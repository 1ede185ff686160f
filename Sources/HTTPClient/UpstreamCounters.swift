/// What an upstream client has done and has under way, for metrics.
public struct UpstreamCounters: Sendable, Equatable {
  // Totals.

  /// Connections that were made, TLS included.
  public var connectionsOpened = 0
  /// Attempts at a connection that came to nothing.
  public var connectionsFailed = 0
  /// TLS handshakes that a ticket of an earlier session shortened.
  public var handshakesResumed = 0
  /// Requests that were handed to a connection.
  public var requestsSent = 0
  /// Of those, the ones whose connection had carried another before.
  public var requestsOnReusedConnection = 0
  /// Times that an HTTP/1.1 connection brought bytes that answer no request.
  public var unsolicitedResponses = 0

  // Present numbers.

  /// Connections that are open.
  public var connectionsOpen = 0
  /// Requests that a connection carries: HTTP/2's open streams.
  public var requestsOpen = 0
  /// Requests that wait for a connection or a free stream.
  public var requestsWaiting = 0

  /// All zero.
  public init() {}

  /// Adds those of another client.
  public mutating func add(_ other: UpstreamCounters) {
    connectionsOpened += other.connectionsOpened
    connectionsFailed += other.connectionsFailed
    handshakesResumed += other.handshakesResumed
    requestsSent += other.requestsSent
    requestsOnReusedConnection += other.requestsOnReusedConnection
    unsolicitedResponses += other.unsolicitedResponses
    connectionsOpen += other.connectionsOpen
    requestsOpen += other.requestsOpen
    requestsWaiting += other.requestsWaiting
  }
}
