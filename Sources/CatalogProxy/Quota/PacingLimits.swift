/// The bounds of a ``RatePacer``: name, default, unit and reason.
public struct PacingLimits: Sendable, Equatable {
  /// The part of the learned rate at which requests go: 0.97. Even spacing at that rate bears 30 ms of jitter on the way
  /// to an upstream that counts in windows of a second.
  public var holdFactor = 0.97

  /// By how much the first step of a probe exceeds the learned rate: 1.4 requests a second, but 3 to 7 percent. An
  /// upstream that counts in windows of a second then refuses one or two requests, or 3 percent of a second's.
  public var leastExcess = 0.03
  /// See ``leastExcess``.
  public var mostExcess = 0.07

  /// The next steps of a probe, as multiples of the learned rate; after the last one, each is a quarter more. They begin
  /// after the first one has met no 429, and are short: a quota that has doubled is to be in use within 5 s from 20
  /// requests a second upwards.
  public var steps = [1.2, 1.5, 2.0]

  /// Requests that pay for one 429 of a probe, from 20 requests a second upwards: as many as go in 3 s, but 60 to 110.
  /// At most 1.7 percent of the requests are refused in the long run.
  public var leastPrice = 60.0
  /// See ``leastPrice``.
  public var mostPrice = 110.0
  /// See ``leastPrice``.
  public var priceInSeconds = 3.0
  /// Requests that pay for one 429 below 20 requests a second: 75. A doubled quota has 60 s to be found there.
  public var slowPrice = 75.0

  /// The 429s that may be owed at most: 12. Repaying more would keep a raised quota unused for too long.
  public var mostDebt = 12.0

  /// The shortest hold between two probes: 24 requests, 1.5 s, and 12 times the last pause, so that pauses cost a twelfth
  /// of the quota at most, even if `Retry-After` makes each a second long.
  public var leastHold = 24.0
  /// See ``leastHold``.
  public var leastHoldInSeconds = 1.5
  /// See ``leastHold``.
  public var holdPerPause = 12.0

  /// How far requests may lag behind their even spacing and catch up: 25 ms. Timers have milliseconds, and busy machines
  /// are late.
  public var catchUp: Duration = .milliseconds(25)

  /// The shortest pause after the first 429 of all: 500 ms. Of 70 refusals that were observed, 68 cleared in that time.
  public var firstPause: Duration = .milliseconds(500)

  /// The shortest pause after a later one: 50 ms. A probe exceeds a window of a second by a few percent, so the next
  /// window has begun by then.
  public var leastPause: Duration = .milliseconds(50)

  /// The longest pause without a `Retry-After`: 4 s. All refusals that were observed cleared within 3.5 s; long back-offs
  /// did the damage.
  public var mostPause: Duration = .seconds(4)

  /// The longest pause that a `Retry-After` gets: 60 s. One request tries again then.
  public var mostRetryAfter: Duration = .seconds(60)

  /// The lowest rate that is learned: 0.5 requests a second. Below it, pauses do the rest.
  public var leastRate = 0.5
  /// What a first 429 is taken to mean at least: 2 requests a second. The search begins there.
  public var firstRate = 2.0
  /// The rate beyond which there is no limit any more: 5,000 requests a second.
  public var mostRate = 5_000.0

  /// The defaults.
  public init() {}
}
