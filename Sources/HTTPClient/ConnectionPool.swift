/// Whom connections belong to, as they see it.
protocol ConnectionPool: AnyObject {
  /// A connection can take on another exchange.
  func connectionHasRoom(_ connection: any Carrier)
  /// A connection has brought a response: the upstream is well.
  func connectionProved(_ connection: any Carrier)
  /// A connection takes on nothing more, and ends when what it carries has.
  func connectionDrains(_ connection: any Carrier)
  /// A connection is over.
  /// - Parameter hasCarried: Whether it ever carried an exchange.
  func connectionEnded(_ connection: any Carrier, hasCarried: Bool)
  /// An exchange that a connection carried is over.
  func exchangeEnded()
}
