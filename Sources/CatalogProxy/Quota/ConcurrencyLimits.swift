/// The bounds of a ``ConcurrencyLimit``: name, default, unit and reason.
public struct ConcurrencyLimits: Sendable, Equatable {
  /// Requests upstream at a time to begin with: 200. Two connections' worth of streams; Apple's peers allow 100 on each.
  public var initial = 200

  /// The fewest that the limit falls to: 4. A quota that lets nothing through for a moment lets something through again
  /// within half a second (68 of 70 refusals that were observed): those who ask then have to be there.
  public var minimum = 4

  /// The most that it grows to: 400. Four connections' worth of streams; beyond that, requests wait in the client.
  public var maximum = 400

  /// Requests that wait for their turn, of all callers: 16 384. Each costs about 100 bytes here. One caller alone may use
  /// three quarters of it, see ``ConcurrencyLimit``, which is more than ten thousand; one client among others seven
  /// eighths.
  public var waiting = 16_384

  /// Least time between two decreases: 500 ms. What had been sent before a decrease may still be refused and says
  /// nothing new; and the same 68 of 70 cleared in that time.
  public var decreaseInterval: Duration = .milliseconds(500)

  /// What is left of the limit after a decrease: one half, as in TCP (RFC 5681 §3.1).
  public var decreaseFactor = 0.5

  /// When a request that finds no room to wait may come back: 1 s. Long waits did the damage that was observed.
  public var retryAfter: Duration = .seconds(1)

  /// The defaults.
  public init() {}
}
