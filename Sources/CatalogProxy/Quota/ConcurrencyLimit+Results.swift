extension ConcurrencyLimit {
  /// Whether a request may go now.
  public enum Admission: Sendable {
    /// It may: release the permit when it has ended.
    case granted(ConcurrencyPermit)
    /// It waits. Its waiter comes with a grant out of a later `release` or `advance`, unless the ticket is cancelled.
    case queued(QueueTicket)
    /// Too many wait already, of this caller or in all, or its turn would come too late.
    case refused(retryAfter: Duration)
  }

  /// A request for a permit.
  public struct Request: Sendable {
    /// Who pays for it. The share that it names is its client's from now on.
    public var caller: QuotaCaller
    /// How many turns it takes, 1 to ``ConcurrencyLimit/highestCost``. A caller that forces a validation of a fresh
    /// response pays more than one that needs a fetch anyway.
    public var cost = 1
    /// Whether it was sent before and refused with 429: then it is the first of its caller's.
    public var isRetry = false
    /// The longest that it can wait.
    public var patience: Duration = .seconds(3600)

    /// A request of a caller.
    public init(_ caller: QuotaCaller) {
      self.caller = caller
    }
  }

  /// A waiter whose turn has come.
  public struct Grant: Sendable {
    /// Release it when the request has ended, even if the caller that would send the request is gone.
    public let permit: ConcurrencyPermit
    /// The waiter that gets the permit.
    public let waiter: Waiter
  }
}
