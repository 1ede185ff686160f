/// The bounds of a ``ConcurrencyLimit``: name, default, unit and reason.
public struct ConcurrencyLimits: Sendable, Equatable {
  /// Requests upstream at a time to begin with: 200. Two connections' worth of streams; Apple's peers allow 100 on each.
  public var initial = 200

  /// The most that it grows to: 400. Four connections' worth of streams; beyond that, requests wait in the client.
  public var maximum = 400

  /// Requests that wait for their turn, of all callers: 16 384. Each costs about 100 bytes here. One caller alone may use
  /// three quarters of it, see ``ConcurrencyLimit``, which is more than ten thousand; one client among others seven
  /// eighths.
  public var waiting = 16_384

  /// When a request that finds no room to wait may come back: 1 s. Long waits did the damage that was observed.
  public var retryAfter: Duration = .seconds(1)

  /// The defaults.
  public init() {}
}
