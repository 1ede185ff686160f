/// The bounds of a ``ConcurrencyLimit``: name, default, unit and reason.
public struct ConcurrencyLimits: Sendable, Equatable {
  /// Requests upstream at a time to begin with: 200. Two connections' worth of streams; Apple's peers allow 100 on each.
  public var initial = 200

  /// The most that it grows to: 400. Four connections' worth of streams; beyond that, requests wait in the client.
  public var maximum = 400

  /// Requests that wait for their turn, of all callers: 16 384. Each costs about 100 bytes here.
  public var waiting = 16_384

  /// How many times the room that is left one caller's requests may wait: 3 times, so that a caller alone has three
  /// quarters of all, more than ten thousand, and there is always room for a newcomer.
  public var waitingOfCaller = 3
  /// How many times the room that is left one client's callers may wait among other clients: 7 times, so that a client
  /// alone has seven eighths of all, as it has of the requests at once.
  public var waitingOfClient = 7

  /// When a request that finds no room to wait may come back: 1 s. Long waits did the damage that was observed.
  public var retryAfter: Duration = .seconds(1)

  /// The defaults.
  public init() {}
}
