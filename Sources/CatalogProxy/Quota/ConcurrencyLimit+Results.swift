extension ConcurrencyLimit {
  /// Whether a request may go now.
  public enum Admission: Sendable {
    /// It may: release the permit when it has ended.
    case granted(ConcurrencyPermit)
    /// It waits. Its waiter comes with a grant out of a later `release`, unless the ticket is cancelled.
    case queued(QueueTicket)
    /// Too many wait already, of this caller or in all.
    case refused(retryAfter: Duration)
  }

  /// A waiter whose turn has come.
  public struct Grant: Sendable {
    /// Release it when the request has ended, even if nobody is there any more to send it.
    public let permit: ConcurrencyPermit
    /// Who waited.
    public let waiter: Waiter
  }
}
