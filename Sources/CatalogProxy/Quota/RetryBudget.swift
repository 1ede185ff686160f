/// What the process may spend on asking again: keeps an outage from being made worse by those who try to get over it.
///
/// Every request brings a tenth of a retry, every success another tenth; each retry costs one. So over any time at most
/// 1.2 attempts are made a request, and 1.1 while everything fails, beside the few that are there to begin with and those
/// saved while all went well, which get the requests of a broken connection over it.
public struct RetryBudget: Sendable {
  /// Retries that are there to begin with: 10. A server that is hardly used can retry as well as a busy one.
  public static let initial = 10

  /// Retries that can be saved: 400, as many as can be under way (``ConcurrencyLimits/maximum``) and then break off at
  /// once.
  public static let capacity = 400

  /// In tenths of a retry.
  private var tenths = initial * 10

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
  public mutating func withdraw() -> Bool {
    guard tenths >= 10 else { return false }
    tenths -= 10
    return true
  }

  private mutating func save() {
    tenths = min(tenths + 1, Self.capacity * 10)
  }
}
