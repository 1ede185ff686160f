/// The bounds of a ``RatePacer``: name, default, unit and reason.
public struct PacingLimits: Sendable, Equatable {
  // Holding

  /// The part of the learned rate at which requests go: 0.97. Even spacing at that rate bears 30 ms of jitter on the way
  /// to an upstream that counts in windows of a second.
  public var holdFactor = 0.97

  /// The shortest hold between two probes: 24 requests, 1 s, and four times the last pause, so that pauses cost a small
  /// part of the quota.
  public var leastHold = 24.0
  /// See ``leastHold``.
  public var leastHoldInSeconds = 1.0
  /// See ``leastHold``.
  public var holdPerPause = 4.0
  /// The same, after a pause that a `Retry-After` asked for: 26 times. Each is a second long at least, and pauses are to
  /// cost a twenty-fifth of the quota at most.
  public var holdPerRetryAfter = 26.0
  /// The shortest hold while the rate is searched for, because it has just grown: 8 requests.
  public var searchHold = 8.0

  // Probing

  /// By how many requests a second the first step of a probe exceeds the learned rate: 1.4, but at least 3 percent of it
  /// and at most 20. An upstream that counts in windows of a second then refuses one or two requests, or 3 percent of a
  /// second's. With more, a modest client's slowest hundredth is the requests that are refused.
  public var excess = 1.4
  /// See ``excess``.
  public var leastExcess = 0.03
  /// See ``excess``.
  public var mostExcess = 0.2

  /// How long the first step lasts at least: 1.7 s. In that time there is more than half of one window of a second, and
  /// all of another, wherever they begin.
  public var firstStepInSeconds = 1.7

  /// How many times the excess follows if that did not suffice to overdraw a token bucket, which is full after a pause:
  /// 2 times.
  public var overdraft = 2.0

  /// The next steps of a probe, as multiples of the learned rate; after the last one, each is a quarter more. They begin
  /// after the first one has met no 429, and are short: a quota that has doubled is to be in use within 5 s from 20
  /// requests a second upwards.
  public var steps = [1.5, 2.0]
  /// The same below ``wholeRequests``, where there is more time, and a refusal tells less.
  public var slowSteps = [1.2, 1.5, 2.0]

  // Price

  /// How many requests earn one 429 of a probe: 52. The aim is that one request in fifty is refused; most probes are longer
  /// than they need be, so about 1.7 percent are.
  public var price = 52.0
  /// The same below ``slowRate``: 66. Five minutes have 600 requests at 2 a second, so that one 429 more is a sixth of a
  /// percent; a doubled quota has 60 s to be found there.
  public var slowPrice = 66.0
  /// The rate below which the ``slowPrice`` holds, in requests a second: 15.
  public var slowRate = 15.0

  /// The most refusals that one event is charged with: 4, or a twentieth of a second's requests. Paying for more would
  /// keep a raised quota unused for too long.
  public var mostRefusals = 4.0
  /// See ``mostRefusals``.
  public var mostRefusalsInSeconds = 0.05

  // Pauses

  /// How far requests may lag behind their even spacing and catch up: 25 ms. Timers have milliseconds, and busy machines
  /// are late.
  public var catchUp: Duration = .milliseconds(25)

  /// The shortest pause after the first 429 of all: 500 ms. Of 70 refusals that were observed, 68 cleared in that time.
  public var firstPause: Duration = .milliseconds(500)

  /// The shortest pause after a later one: 40 ms. A probe exceeds a window of a second by a few percent, so the next
  /// window has begun by then.
  public var leastPause: Duration = .milliseconds(40)

  /// The shortest pause after one that has shown that the quota has grown: 250 ms. The last step of such a probe exceeds
  /// the new quota by up to a quarter, which fills a window a fifth before its end.
  public var pauseAfterGrowth: Duration = .milliseconds(250)

  /// The longest pause without a `Retry-After`: 4 s. All refusals that were observed cleared within 3.5 s; long back-offs
  /// did the damage.
  public var mostPause: Duration = .seconds(4)

  /// The longest pause that a `Retry-After` gets: 60 s. One request tries again then.
  public var mostRetryAfter: Duration = .seconds(60)

  // Rates

  /// The lowest rate that is learned: 0.5 requests a second. Below it, pauses do the rest.
  public var leastRate = 0.5
  /// What a first 429 is taken to mean at least: 2 requests a second. The search begins there.
  public var firstRate = 2.0
  /// The rate below which one request is so large a part of a second's that a refused probe says little: 10 a second.
  public var wholeRequests = 10.0
  /// The rate beyond which there is no limit any more: 5,000 requests a second.
  public var mostRate = 5_000.0

  /// The defaults.
  public init() {}
}
