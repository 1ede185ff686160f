/// What the process may spend on asking again: keeps an outage from being made worse by those who try to get over it.
///
/// Every request brings a tenth of a retry, every success another tenth; each retry costs one. So over any time at most
/// 1.2 attempts are made a request, and 1.1 while everything fails, beside the few that are there to begin with and those
/// saved while all went well.
///
/// A connection that breaks fails all requests on it at once. That is one event and costs one retry, however many of
/// them are sent again: each only once, and the circuit opens when connections break repeatedly.
public struct RetryBudget: Sendable {
  /// Retries that are there to begin with: 10. A server that is hardly used can retry as well as a busy one.
  public static let initial = 10

  /// Retries that can be saved: 400, as many as can be under way (``ConcurrencyLimits/maximum``) and then break off at
  /// once.
  public static let capacity = 400

  /// In tenths of a retry.
  private var tenths = initial * 10
  /// The connections whose end was paid for last.
  private var paid: [UInt64] = []

  /// How many connections are remembered: 64. More than break at once where each loop has four.
  private static let remembered = 64

  /// As at the start.
  public init() {}

  /// Retries that can be made now.
  public var available: Int { tenths / 10 }

  /// A request begins. Call once, not for its retries.
  public mutating func requested() {
    save()
  }

  /// A request succeeded.
  public mutating func succeeded() {
    save()
  }

  /// Pays for a retry; false if there is nothing left.
  /// - Parameter connection: The connection whose end is the reason; its other requests have paid for this one.
  public mutating func withdraw(for connection: UInt64? = nil) -> Bool {
    if let connection, paid.contains(connection) { return true }
    guard tenths >= 10 else { return false }
    tenths -= 10
    if let connection {
      if paid.count == Self.remembered { paid.removeFirst() }
      paid.append(connection)
    }
    return true
  }

  private mutating func save() {
    tenths = min(tenths + 1, Self.capacity * 10)
  }
}
