/// Whom connections belong to, as they see it.
protocol ConnectionPool: AnyObject {
  /// A connection can take on another exchange.
  func connectionHasRoom(_ connection: any Carrier)
  /// A connection has brought a response: the upstream is well.
  func connectionProved(_ connection: any Carrier)
  /// A connection takes on nothing more, and ends when what it carries has.
  func connectionDrains(_ connection: any Carrier)
  /// A connection is over.
  /// - Parameter wasUseless: Whether the peer ended it before it ever answered, although it was asked.
  func connectionEnded(_ connection: any Carrier, wasUseless: Bool)
  /// An exchange that a connection carried is over.
  func exchangeEnded()
}
