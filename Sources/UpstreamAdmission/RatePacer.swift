/// Learns the rate that the upstream's quota allows, and spaces requests evenly below it.
///
/// Apple announces its quota only by a 429. Until the first 429, the pacer does not delay requests. From then on, it
/// spaces them evenly, a little below the learned rate, which no token bucket, fixed window or sliding window refuses.
/// At times a probe exceeds the rate a little. A refused probe costs about one 429 and a short pause. A probe without a
/// refusal continues in growing steps. A 429 also shows the rate: the requests that were not refused before it.
///
/// The requests sent pay for probes, so that few requests are refused in the long run. After a 429 there is one pause
/// for all requests. Times are seconds of a monotonic clock.
struct RatePacer: Sendable {
  enum Phase: Sendable {
    /// No 429 has arrived yet.
    case free
    /// Requests go at the learned rate. The value counts the requests sent while others waited.
    case holding(Double)
    /// Requests go faster than the learned rate. The second value counts the requests in this step.
    case probing(step: Int, Double)
  }

  let limits: PacingLimits
  /// The learned rate in requests a second. Nil before the first 429.
  var rate: Double?
  /// The present rate of requests. Meaningless while `rate` is nil.
  var pace = 0.0
  var phase = Phase.free
  /// When the next request may be sent.
  var opening = 0.0
  var history = SendHistory()
  /// The evidence before the first 429.
  var peak = AcceptedPeak()
  /// A bucket with the learned rate. It shows when a probe must have been refused.
  var bucket = ImaginedBucket()
  /// The smoothed response time.
  private(set) var latency = 0.1
  /// The part of the price of a refusal event that has been paid, 0 to 1.
  var credit = 0.0
  /// The smoothed number of refusals in an event.
  var refusalsPerEvent = 1.0

  // The knowledge about the rate.

  /// Whether the rate was learned from too little evidence, so that the search starts at once.
  var isGuess = false
  /// Whether no probe has been refused since the rate was found, so that the next one is free.
  var isSearching = true
  /// The rate at which the last hold ended without a 429. 0 before the first.
  var confirmed = 0.0
  /// The lowest rate at which a hold ended with a 429. It rises with time.
  var ceiling = Double.infinity
  /// The number of times that the rate has fallen since a hold ended without a 429.
  var falls = 0
  /// The time in which the upstream counts, in seconds: 1, or more if it has refused everything for longer, twice.
  var window = 1.0
  /// The window that the last such time suggests, and when that time ended.
  var suspected = (window: 0.0, end: -Double.infinity)

  // The last refusals.

  /// When the last pause began. Refusals of requests sent before belong to the same event.
  var pauseBegan = -1.0
  var pauseLength = 0.0
  /// Whether the length of the pause is from a `Retry-After`.
  private(set) var isAsked = false
  /// The number of refusals in that event.
  private(set) var refusals = 0
  /// Whether a probe caused that event, and whether the event raised the rate.
  var wasProbe = false
  var hasGrown = false
  /// The number of events in quick succession.
  var strikes = 0
  /// Whether one request at a time tests if the upstream still refuses everything.
  var isTesting = false
  /// When the first refused request of that event was sent.
  var firstRefused = 0.0
  /// The rate that this refusal alone has shown.
  var firstRate = 0.0
  /// The refusals since the upstream last accepted a request. Nil if it has accepted one since the last refusal.
  var streak: RefusalStreak?
  /// The number of requests since the last pause, sent while others waited.
  private(set) var sinceResumed = 0.0
  /// When the last refused request was sent, and how many requests before it were sent and not refused.
  private(set) var lastRefusal: (sentAt: Double, accepted: Int)?
  private var lastSent = 0.0
  /// Since when the history has all requests.
  private(set) var knowsAllSince = -Double.infinity

  init(_ limits: PacingLimits = PacingLimits()) {
    self.limits = limits
  }

  func isPaused(now: Double) -> Bool { rate != nil && now < pauseBegan + pauseLength }

  /// Records a request that is sent.
  ///
  /// - Parameter isWanted: Whether other requests wait. Only then the pace is meaningful.
  mutating func sent(now: Double, isWanted: Bool) {
    history.record(at: now)
    lastSent = now
    guard let rate else { return }
    bucket.take(rate: rate, now: now)
    let isOnTime = now - opening < max(limits.catchUp.inSeconds * 0.8, 1 / pace)
    opening = max(opening, now - limits.catchUp.inSeconds) + 1 / pace
    earn()
    if isTesting { opening = now + max(4 * latency, 0.5, 1 / pace) }
    guard isWanted, isOnTime else { return }
    sinceResumed += 1
    switch phase {
    case .free: break
    case .holding(let count): hold(count + 1)
    case .probing(let step, let count): probe(step, count + 1)
    }
  }

  /// Records a response other than 429.
  mutating func answered(sentAt: Double, now: Double) {
    latency += (now - sentAt - latency) / 16
    peak.add(now: now)
    let wasBlocked = endStreak(sentAt: sentAt)
    guard isTesting, sentAt > pauseBegan else { return }
    isTesting = false
    if wasBlocked { return resume(sentAt: sentAt, now: now) }
    strikes = 1
    credit = max(credit, 0)
    if let rate, rate < confirmed / 2 {
      // The earlier rate may apply again. It counts for less each time.
      confirmed /= 2
      hold(at: confirmed)
      isGuess = true
    }
    opening = max(now, sentAt + 1 / pace)
  }

  /// Records a 429.
  ///
  /// - Parameter retryAfter: The value of its `Retry-After` in seconds, if it has one.
  mutating func refused(sentAt: Double, retryAfter: Double?, now: Double) {
    history.refuse(sentAt: sentAt)
    if sentAt <= pauseBegan {
      refusals += 1
      firstRefused = min(firstRefused, sentAt)
      if !isKnownBlock { learnFurther(at: sentAt) }
    } else if isBlocked(at: sentAt) {
      refusals = 1
      bucket.empty(now: now)
      testAgain(now: now)
    } else {
      pay()
      refusals = 1
      firstRefused = sentAt
      learn(at: sentAt)
      firstRate = rate ?? 0
      noteStreak()
      bucket.empty(now: now)
      // A refused request has used none of the quota, so the next request may take its place.
      if sentAt >= lastSent { opening -= 1 / pace }
      pause(for: pauseAfterLearning(now: now), now: now)
    }
    lastRefusal = (sentAt, history.accepted(before: sentAt))
    if let retryAfter { wait(for: min(retryAfter, limits.mostRetryAfter.inSeconds), now: now) }
  }

  private mutating func learnFurther(at sentAt: Double) {
    learnMore(at: sentAt)
    let length = pauseAfterLearning(now: pauseBegan)
    if length > pauseLength {
      pause(for: length, now: pauseBegan)
    } else if streak?.isBlock ?? false, !isAsked {
      // The first refusals made the rate seem low, and a low rate has a long pause.
      (pauseLength, opening) = (length, pauseBegan + length)
    }
  }

  /// Uses a rate that another pacer has learned. Probes begin as after a hold that was refused.
  ///
  /// What others have sent is unknown at first, so for a second a 429 is no evidence of a much lower rate.
  mutating func adopt(rate: Double, pauseEnds: Double, now: Double) {
    knowsAllSince = now
    lastRefusal = nil
    hold(at: rate)
    confirmed = self.rate ?? 0
    (isGuess, isSearching, isTesting) = (false, false, false)
    (credit, strikes, falls, ceiling, streak) = (0, 0, 0, .infinity, nil)
    opening = max(opening, pauseEnds)
  }

  /// Forgets the rate, but not what was sent.
  mutating func disown() {
    (rate, streak) = (nil, nil)
    phase = .free
  }

  private func pauseAfterLearning(now: Double) -> Double {
    let least = isGuess ? limits.firstPause : hasGrown ? limits.pauseAfterGrowth : limits.leastPause
    // The pause lasts until a window of a second has room for another request. A rate is seldom exact to a tenth.
    let clear = history.timeUntil(atMost: Int(((rate ?? 1) - 0.1).rounded(.up)) - 1, now: now)
    return min(max(least.inSeconds, clear) * Double(1 << min(strikes, 8)), limits.mostPause.inSeconds)
  }

  mutating func pause(for length: Double, now: Double) {
    pauseBegan = now
    pauseLength = length
    isAsked = false
    opening = max(opening, now + length)
    sinceResumed = 0
  }

  /// Extends the pause to a `Retry-After`.
  private mutating func wait(for length: Double, now: Double) {
    let end = now + length
    guard end > pauseBegan + pauseLength else { return }
    pauseLength = end - pauseBegan
    isAsked = true
    opening = end
  }
}

extension Duration {
  var inSeconds: Double {
    // In two halves, because the conversion or division of 128 bits takes hundreds of instructions.
    let high = Double(Int64(truncatingIfNeeded: attoseconds >> 64))
    let low = Double(UInt64(truncatingIfNeeded: attoseconds))
    return (high * 0x1p64 + low) / 1e18
  }

  init(inSeconds seconds: Double) {
    self = .nanoseconds(Int64(max(min(seconds, 1e9), -1e9) * 1e9))
  }
}

/// The number of sent and of refused requests in each fiftieth of the last five seconds, and in each of the last 64 seconds.
struct SendHistory: Sendable {
  private static let slotsPerSecond = 50.0
  /// The longest time of the fine counts, in seconds.
  private static let fine = 5.0

  /// The requests sent and not refused in each second.
  private var accepted = RollingCounts(slots: 64)
  private var sent = RollingCounts(slots: 256)
  private var refused = RollingCounts(slots: 256)
  /// The number of requests ever sent and not refused.
  private var total = 0
  /// When the first request ever was sent.
  private var beginning: Double?

  mutating func record(at time: Double) {
    if beginning == nil { beginning = time }
    sent.add(in: Self.slot(time))
    accepted.add(in: max(Int(time), 0))
    total += 1
  }

  /// Records the refusal of a request that was sent at `time`.
  mutating func refuse(sentAt time: Double) {
    guard sent.kept.contains(Self.slot(time)) else { return }
    refused.add(in: Self.slot(time))
    accepted.add(-1, in: max(Int(time), 0))
    total -= 1
  }

  /// Returns the requests a second that were sent in some seconds before a time, and not refused.
  func rate(before end: Double, window: Double) -> Double {
    guard window > Self.fine else {
      let count = count(before: end, window: window)
      return Double(count.sent - count.refused) / count.seconds
    }
    let span = max(min(window, end - (beginning ?? end)), 1)
    return Double(accepted.sum(from: Int(end - span), through: Int(end))) / span
  }

  /// Returns the numbers of requests sent before `end`, and of refusals among them.
  ///
  /// - Parameter window: The time in seconds, at most five.
  /// - Returns: Also the time in seconds with traffic: at most `window`, at least one second.
  func count(before end: Double, window: Double) -> (sent: Int, refused: Int, seconds: Double) {
    let last = min(Self.slot(end), sent.newest)
    let first = max(last - Int(window * Self.slotsPerSecond) + 1, sent.kept.lowerBound)
    let seconds = max(min(window, end - (beginning ?? end)), 1)
    return (sent.sum(from: first, through: last), refused.sum(from: first, through: last), seconds)
  }

  /// Returns the number of requests sent before `end` and not refused. `end` is at most five seconds ago.
  func accepted(before end: Double) -> Int {
    let since = max(Self.slot(end) + 1, sent.kept.lowerBound)
    return total - sent.sum(from: since, through: sent.newest) + refused.sum(from: since, through: sent.newest)
  }

  /// Returns the time until at most `most` requests are in the last second, if no more are sent. Refused requests do
  /// not count.
  func timeUntil(atMost most: Int, now: Double) -> Double {
    let first = max(Self.slot(now) - Int(Self.slotsPerSecond) + 1, sent.kept.lowerBound)
    var count = 0
    for slot in stride(from: sent.newest, through: first, by: -1) {
      count += sent[slot] - refused[slot]
      if count > most { return max(Double(slot + 1) / Self.slotsPerSecond + 1 - now, 0) }
    }
    return 0
  }

  private static func slot(_ time: Double) -> Int { max(Int(time * slotsPerSecond), 0) }
}

/// The most requests that the upstream has accepted in one second.
struct AcceptedPeak: Sendable {
  private var highest = 0
  private var second = 0
  private var count = 0

  mutating func add(now: Double) {
    let present = Int(now)
    if present != second { (second, count) = (present, 0) }
    count += 1
    highest = max(highest, count)
  }

  /// A rate that no quota is below: a bucket, or two windows of which one ends, accept at most twice the quota in a second.
  var leastQuota: Double { Double(highest) / 2 }
}

/// A simulated token bucket that fills at the learned rate, holds at most the requests of one second, and was empty at
/// the last 429. If it is overdrawn without a refusal, the quota is no such bucket and allows more.
struct ImaginedBucket: Sendable {
  /// The stored requests. Negative if overdrawn.
  private(set) var stored = 0.0
  private var updated = 0.0

  mutating func take(rate: Double, now: Double) {
    stored = min(stored + (now - updated) * rate, rate) - 1
    updated = now
  }

  mutating func empty(now: Double) {
    (stored, updated) = (0, now)
  }
}
