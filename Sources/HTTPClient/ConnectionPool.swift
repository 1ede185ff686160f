/// Whom connections belong to, as they see it.
protocol ConnectionPool: AnyObject {
  /// A connection can take on another exchange.
  func connectionHasRoom(_ connection: any UpstreamConnection)
  /// A connection has brought a response: the upstream is well.
  func connectionProved(_ connection: any UpstreamConnection)
  /// A connection takes on nothing more, and ends when what it carries has.
  func connectionDrains(_ connection: any UpstreamConnection)
  /// A connection is over.
  /// - Parameter wasUseless: Whether the peer ended it before it ever answered, although it was asked.
  func connectionEnded(_ connection: any UpstreamConnection, wasUseless: Bool)
  /// An exchange that a connection carried is over.
  func exchangeEnded()
  /// An HTTP/1.1 connection has brought bytes that answer no request.
  func receivedUnsolicited()
  /// Whether an HTTP/1.1 connection may carry another request behind its first.
  var reusesHTTP1: Bool { get }
}
