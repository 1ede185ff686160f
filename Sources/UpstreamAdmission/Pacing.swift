import Bytes

/// What sets the pace of this replica's requests: what it has learned itself, or what its group has.
struct Pacing: Sendable {
  var own = RatePacer()
  var group: GroupTurns?

  func isActive(now: Double) -> Bool { group?.isActive(now: now) ?? (own.rate != nil) }

  /// The learned rate, or that of a probe which exceeds it and has not been refused. Of the whole team in a group.
  var rate: Double? {
    guard let group else { return own.rate.map { max($0, own.pace) } }
    return group.team.rate.map { max($0, group.team.pace) }
  }

  var pace: Double { group?.pace ?? own.pace }
  /// The pace for the estimate of a wait, also while one request at a time tests whether the upstream accepts again.
  var expectedPace: Double { group?.expectedPace ?? own.pace }

  /// The pace from which a client has its share.
  func pace(ofClient client: HashedText) -> Double { group?.pace(ofClient: client.teamNumber) ?? own.pace }

  /// When the next request may be sent. Nil while turns are asked for.
  var opening: Double? { group == nil ? own.opening : group?.opening }
  var opensWithTurn: Bool { group?.opensWithTurn ?? true }

  func mayPass(now: Double) -> Bool { group?.mayPass(now: now) ?? (own.rate == nil || now >= own.opening) }

  func isPaused(now: Double) -> Bool { group.map { now < $0.pausedUntil } ?? own.isPaused(now: now) }

  mutating func sent(now: Double, isWanted: Bool) {
    if group == nil { own.sent(now: now, isWanted: isWanted) } else { group?.sent(now: now, isWanted: isWanted) }
  }

  mutating func answered(sentAt: Double, now: Double) {
    if group == nil { own.answered(sentAt: sentAt, now: now) } else { group?.log.answered(sentAt: sentAt, now: now) }
  }

  mutating func refused(sentAt: Double, retryAfter: Double?, now: Double) {
    if group == nil {
      own.refused(sentAt: sentAt, retryAfter: retryAfter, now: now)
    } else {
      group?.refused(sentAt: sentAt, retryAfter: retryAfter, now: now)
    }
  }
}

extension HashedText {
  /// Stands for a client of this name among replicas (FNV-1a). Two with one number would share their part of the quota.
  var teamNumber: UInt64 { UInt64(fnv1a: text.utf8) }
}

/// The limits of a ``RatePacer``: name, default, unit and reason.
struct PacingLimits: Sendable {
  /// The number of replicas that pace their requests independently, each at its part of the rates.
  var replicas = 1.0

  // Holding

  /// The part of the learned rate at which requests are sent: 0.97. Evenly spaced requests at that rate tolerate 30 ms
  /// of jitter on the way to an upstream that counts in windows of a second.
  var holdFactor = 0.97
  /// The shortest hold between two probes: 24 requests, 1 s, and four times the last pause, so that pauses cost little.
  var leastHold = 24.0
  var leastHoldInSeconds = 1.0
  var holdPerPause = 4.0
  /// The same after a `Retry-After`: 26 times, because these pauses should cost at most a twenty-fifth of the quota.
  var holdPerRetryAfter = 26.0
  /// The shortest hold during a search, after the rate has grown: 8 requests.
  var searchHold = 8.0
  /// The rate after a refusal in a hold, as a part of the rate before, and after further ones until a hold ends without a
  /// refusal: 4 percent less, up to 15. A rate that was far too high is found soon.
  var falls = [0.96, 0.92, 0.88, 0.85]

  // Probing

  /// The excess of a probe's first step over the learned rate: 1.4 requests a second, but 3 to 20 percent of the rate. An
  /// upstream that counts in windows of a second then refuses one or two requests, or 3 percent of a second's. With more, a
  /// modest client's slowest hundredth would be the refused requests.
  var excess = 1.4
  var leastExcess = 0.03
  var mostExcess = 0.2
  /// The shortest first step: 1.7 s, more than half of one window of a second and all of another, wherever they begin.
  var firstStepInSeconds = 1.7
  /// The multiple of the excess that follows if it was too small to overdraw a token bucket, full after a pause: 2.
  var overdraft = 2.0
  /// The next steps of a probe, as multiples of the learned rate; further ones are a quarter higher each. They are short, so
  /// that from 20 requests a second upwards a doubled quota is in use within 5 s.
  var steps = [1.5, 2.0]
  /// The same below ``wholeRequests``, where there is more time, and a refusal is weaker evidence.
  var slowSteps = [1.2, 1.5, 2.0]
  /// The same if the upstream counts for more than a second: each step takes as long as the window.
  var longSteps = [1.1, 1.25, 1.5, 2.0]

  // Price

  /// The requests that pay for one 429 of a probe: 58. So about 1.7 percent are refused; the aim is one in fifty.
  var price = 58.0
  /// The same below ``slowRate``: 66. Five minutes have 600 requests at 2 a second, so one more 429 is a sixth of a
  /// percent. There a doubled quota must be found within 60 s.
  var slowPrice = 66.0
  /// The rate below which ``slowPrice`` applies, in requests a second: 15.
  var slowRate = 15.0
  /// The most refusals that one event pays for: 4, or a twentieth of a second's. More would leave a quota unused.
  var mostRefusals = 4.0
  var mostRefusalsInSeconds = 0.05

  // Pauses

  /// The greatest delay that late requests may catch up: 25 ms. Timers count milliseconds, and busy machines are late.
  var catchUp: Duration = .milliseconds(25)
  /// The shortest pause after the very first 429: 500 ms. Of 70 observed refusals, 68 cleared in that time.
  var firstPause: Duration = .milliseconds(500)
  /// The shortest pause after a later 429: 40 ms. A probe exceeds a window by a few percent, so the next one has begun.
  var leastPause: Duration = .milliseconds(40)
  /// The longest pause without a `Retry-After`: 4 s. All observed refusals cleared within 3.5 s.
  var mostPause: Duration = .seconds(4)
  /// The longest pause for a `Retry-After`: 60 s. Then one request tries again.
  var mostRetryAfter: Duration = .seconds(60)
  /// The times in which the upstream may count its quota beside a second: 10 s and 60 s.
  var windows = [10.0, 60]

  // Blocks

  /// The time in seconds in which every limiter must accept a request: 1, the length of a window.
  var blockAfter = 1.0
  /// The same before a rate has been confirmed: 0.5, because no limit is known that a window could have reached.
  var firstBlockAfter = 0.5
  /// The pause between two tests of an upstream that refuses everything, as a part of that time: a thirty-second.
  var testPause = 1.0 / 32
  /// The shortest such pause: 250 ms.
  var leastTestPause: Duration = .milliseconds(250)
  /// The longest such pause: 1 s, so that an upstream that accepts again is in use within 5 s.
  var mostTestPause: Duration = .seconds(1)

  // Rates

  /// The lowest learned rate: 0.5 requests a second. Below it, pauses limit the requests.
  var leastRate: Double { 0.5 / replicas }
  /// The lowest rate after a first 429: 2 requests a second. The search starts there.
  var firstRate: Double { 2 / replicas }
  /// The same without any evidence: 10 requests a second. So a page whose requests were all refused is soon there.
  var unknownRate: Double { 10 / replicas }
  /// The rate below which one request is so large a part of a second's that a refused probe says little: 10 a second.
  var wholeRequests = 10.0
  /// The rate beyond which the pacer stops limiting: 5,000 requests a second.
  var mostRate: Double { 5_000 / replicas }
}

extension Duration {
  var inSeconds: Double {
    // In two halves, because the conversion or division of 128 bits takes hundreds of instructions.
    let high = Double(Int64(truncatingIfNeeded: attoseconds >> 64))
    let low = Double(UInt64(truncatingIfNeeded: attoseconds))
    return (high * 0x1p64 + low) / 1e18
  }

  init(inSeconds seconds: Double) { self = .nanoseconds(Int64(max(min(seconds, 1e9), -1e9) * 1e9)) }
}
