/// Learns the rate that the upstream's quota allows, and spaces requests evenly below it.
///
/// Apple announces its quota only by a 429. Until the first one, nothing is delayed. From then on, requests are spaced
/// evenly, a little below the learned rate, which no token bucket, fixed window or sliding window refuses. At times a probe
/// exceeds the rate a little. A refused probe costs about one 429 and a short pause; another continues in growing steps. A
/// 429 also shows the rate: the requests that were not refused before it.
///
/// The requests sent pay for probes, so that few are refused in the long run. After a 429 there is one pause for all.
/// ``QuotaScript`` does the same for a group. Times are seconds of a monotonic clock.
struct RatePacer: Sendable {
  let limits: PacingLimits
  /// The learned rate in requests a second. Nil before the first 429.
  private(set) var rate: Double?
  /// The present rate of requests. Meaningless while `rate` is nil.
  private(set) var pace = 0.0
  /// 0 while requests go at the learned rate. Otherwise the step of a probe, in which they go faster.
  private(set) var step = 0
  /// The requests of this hold or step, sent while others waited.
  private var count = 0.0
  /// When the next request may be sent.
  private(set) var opening = 0.0
  var history = SendHistory()
  /// The evidence before the first 429.
  private(set) var peak = AcceptedPeak()
  /// A bucket with the learned rate. It shows when a probe must have been refused.
  private var bucket = ImaginedBucket()
  /// The smoothed response time.
  private var latency = 0.1
  /// The part of the price of a refusal event that has been paid, 0 to 1.
  private var credit = 0.0
  /// The smoothed number of refusals in an event.
  private var refusalsPerEvent = 1.0

  /// Whether the rate was learned from too little evidence, so that it grows at once.
  var isGuess = false
  /// Whether no probe has been refused since the rate was found, so that the next one is free.
  var isSearching = true
  /// The rate at which the last hold ended without a 429 and without a search. 0 before the first.
  var confirmed = 0.0
  /// The number of times that the rate has fallen since a hold ended without a 429.
  var falls = 0
  /// The time in which the upstream counts, in seconds: 1, or more if it has refused everything for longer, twice.
  var window = 1.0
  /// The window that the last such time suggests, and when that time ended.
  var suspected = (window: 0.0, end: -Double.infinity)

  /// When the last pause began. Refusals of requests sent before belong to the same event.
  private(set) var pauseBegan = -1.0
  private(set) var pauseLength = 0.0
  /// Whether the length of the pause is from a `Retry-After`.
  private(set) var isAsked = false
  /// The number of refusals in that event, and when the first refused request of it was sent.
  private(set) var refusals = 0
  private(set) var firstRefused = 0.0
  /// The number of events in quick succession.
  var strikes = 0
  /// Whether one request at a time tests if the upstream still refuses everything.
  var isTesting = false
  /// The refusals since the upstream last accepted a request. Nil if it has accepted one since the last refusal.
  var streak: RefusalStreak?
  /// The number of requests since the last pause, sent while others waited.
  private(set) var sinceResumed = 0.0
  /// When the last refused request was sent, and how many requests before it were sent and not refused.
  private(set) var lastRefusal: (sentAt: Double, accepted: Int)?
  private var lastSent = 0.0
  /// Since when the history has all requests.
  private(set) var knowsAllSince = -Double.infinity

  init(_ limits: PacingLimits = PacingLimits()) { self.limits = limits }

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
    // An event is paid for after as many requests as its refusals cost on average: a fixed window refuses one request of
    // one probe and two of the next, and the time to the next probe is the same after both.
    credit = min(credit + 1 / ((isSlow ? limits.slowPrice : limits.price) * refusalsPerEvent), 1)
    if isTesting { opening = now + max(4 * latency, 0.5, 1 / pace) }
    if isWanted, isOnTime { advance() }
  }

  /// Records a response other than 429.
  mutating func answered(sentAt: Double, now: Double) {
    latency += (now - sentAt - latency) / 16
    peak.add(now: now)
    let wasBlocked = streak != nil && endStreak(sentAt: sentAt)
    guard isTesting, sentAt > pauseBegan else { return }
    (isTesting, credit, strikes) = (false, max(credit, 0), wasBlocked ? 0 : 1)
    // A rate that was never confirmed is no limit.
    if wasBlocked, confirmed == 0, window == 1 { isGuess = true }
    opening = max(now, sentAt + 1 / pace)
  }

  /// Records a 429 with its `Retry-After` in seconds, if it has one.
  mutating func refused(sentAt: Double, retryAfter: Double?, now: Double) {
    history.refuse(sentAt: sentAt)
    if sentAt <= pauseBegan {
      refusals += 1
      firstRefused = min(firstRefused, sentAt)
      if refusals >= 3, !isKnownBlock { learnFurther(at: sentAt) }
    } else if isBlocked(at: sentAt) {
      refusals = 1
      bucket.empty(now: now)
      testAgain(now: now)
    } else {
      pay()
      (refusals, firstRefused) = (1, sentAt)
      learn(at: sentAt)
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
    } else if isGuess, !isAsked {
      // The first refusals made the rate seem low, and a low rate has a long pause.
      (pauseLength, opening) = (length, pauseBegan + length)
    }
  }

  /// Uses the rate of another pacer. What others have sent is unknown, so for a second no 429 shows a much lower one.
  mutating func adopt(rate: Double, pauseEnds: Double, now: Double) {
    knowsAllSince = now
    lastRefusal = nil
    hold(at: rate)
    confirmed = self.rate ?? 0
    (isGuess, isSearching, isTesting) = (false, false, false)
    (credit, strikes, falls, streak) = (0, 0, 0, nil)
    opening = max(opening, pauseEnds)
  }

  private func pauseAfterLearning(now: Double) -> Double {
    let least = isGuess ? limits.firstPause : limits.leastPause
    // The pause lasts until a window of a second has room for another request. A rate is seldom exact to a tenth.
    let clear = history.timeUntil(atMost: Int(((rate ?? 1) - 0.1).rounded(.up)) - 1, now: now)
    return min(max(least.inSeconds, clear) * Double(1 << min(strikes, 8)), limits.mostPause.inSeconds)
  }

  /// Pauses, for exactly this time if the upstream refuses everything.
  mutating func pause(for length: Double, now: Double, isTest: Bool = false) {
    (pauseBegan, pauseLength, isAsked, sinceResumed) = (now, length, false, 0)
    opening = isTest ? now + length : max(opening, now + length)
  }

  /// Extends the pause to a `Retry-After`.
  private mutating func wait(for length: Double, now: Double) {
    let end = now + length
    guard end > pauseBegan + pauseLength else { return }
    (pauseLength, isAsked, opening) = (end - pauseBegan, true, end)
  }

  /// Holds a rate: sends a little below it.
  mutating func hold(at rate: Double) {
    let bounded = max(rate, limits.leastRate)
    self.rate = bounded
    (pace, step, count) = (bounded * limits.holdFactor, 0, 0)
  }
}

// The probes, in which the pacer exceeds the learned rate, and their price.
extension RatePacer {
  /// Counts a request for which others waited. Ends a hold or a step when it has been long enough.
  private mutating func advance() {
    sinceResumed += 1
    count += 1
    switch step {
    case 0 where isGuess:
      isGuess = false
      begin(step: 2)
    case 0:
      guard count >= leastHold else { return }
      if !isSearching, !isMisled { confirmed = rate ?? 0 }
      falls = 0
      // The first step earns the other half of the price.
      if isSearching || isMisled || credit >= 0.5 { begin(step: isMisled && window == 1 ? 2 : 1) }
    case 1:
      // The first window, a whole second one, and jitter on the way. At a low rate, until the excess is a whole request.
      let seconds = limits.firstStepInSeconds * window + 0.3 * latency
      guard count >= max(limits.excess / firstExcess, seconds * pace) else { return }
      // If the quota is the learned rate, every window must have refused a request by now. A bucket that filled up during
      // the last pause is overdrawn sooner at a higher pace. At a low rate, which is seldom exact, that pace would exceed a
      // window too far, and its refusals would be weak evidence.
      if window > 1 || bucket.stored <= (isSlow ? -2 : -1) { return begin(step: 2) }
      if let rate, !hasWholeRequests { pace = rate * (1 + limits.overdraft * firstExcess) }
    default:
      // A window of a minute refuses nothing before it is full. Otherwise there is no time to wait for the responses.
      let seconds = window > 1 ? 1.1 * window : step <= steps.count + 1 ? 0.15 + latency / 2 : 0.25 + latency
      if count >= max(5, seconds * pace) { begin(step: step + 1) }
    }
  }

  private mutating func begin(step: Int) {
    guard let rate else { return }
    (self.step, count, pace) = (step, 0, rate * factor(step))
    guard pace > limits.mostRate else { return }
    // No limit from now on.
    (self.rate, streak, self.step, opening) = (nil, nil, 0, 0)
  }

  /// The fewest requests in a hold.
  private var leastHold: Double {
    if isSearching || isMisled { return max(limits.searchHold, window * pace) }
    let seconds = pauseLength * (isAsked ? limits.holdPerRetryAfter : limits.holdPerPause)
    return max(limits.leastHold, max(limits.leastHoldInSeconds * window, seconds) * pace)
  }

  /// Whether the rate is far below what was known. Perhaps the evidence was wrong, so it grows at once.
  private var isMisled: Bool { (rate ?? 0) < 0.8 * confirmed }

  /// The excess of the first step, as a part of the learned rate.
  private var firstExcess: Double {
    min(max(limits.excess / max((rate ?? 1) * window, 0.001), limits.leastExcess), limits.mostExcess)
  }

  private var steps: [Double] { window > 1 ? limits.longSteps : hasWholeRequests ? limits.slowSteps : limits.steps }

  /// Returns the pace of a step, as a multiple of the learned rate.
  func factor(_ step: Int) -> Double {
    guard step > 1, let last = steps.last else { return 1 + firstExcess }
    let further = step - 1 - steps.count
    guard further > 0 else { return max(steps[step - 2], 1 + firstExcess * Double(step)) }
    return (0..<further).reduce(last) { factor, _ in factor * 1.25 }
  }

  private var isSlow: Bool { (rate ?? 0) < limits.slowRate }
  /// Whether one request is a large part of a second's.
  var hasWholeRequests: Bool { (rate ?? 0) < limits.wholeRequests }

  /// Pays for the first refusal of an event. The search for the first rate is free.
  private mutating func pay() {
    guard confirmed > 0 else { return }
    credit = max(credit - 1, -1)
    guard refusals > 0 else { return }
    let most = max(limits.mostRefusals, limits.mostRefusalsInSeconds * (rate ?? 0))
    refusalsPerEvent += (min(Double(refusals), most) - refusalsPerEvent) / 4
  }
}

/// The requests sent and not refused in each fiftieth of the last five seconds, and in each of the last 64 seconds.
struct SendHistory: Sendable {
  private static let slotsPerSecond = 50.0
  /// The longest time of the fine counts, in seconds.
  private static let longest = 5.0

  private var fine = RollingCounts(slots: 256)
  private var coarse = RollingCounts(slots: 64)
  /// The number of requests ever sent and not refused.
  private var total = 0
  /// When the first request ever was sent.
  private var beginning: Double?

  mutating func record(at time: Double) {
    if beginning == nil { beginning = time }
    add(1, at: time)
  }

  /// Records the refusal of a request that was sent at `time`.
  mutating func refuse(sentAt time: Double) {
    if fine.kept.contains(Self.slot(time)) { add(-1, at: time) }
  }

  private mutating func add(_ change: Int, at time: Double) {
    fine.add(Int32(change), in: Self.slot(time))
    coarse.add(Int32(change), in: max(Int(time), 0))
    total += change
  }

  /// Returns the requests a second that were sent in some seconds before a time, and not refused.
  func rate(before end: Double, window: Double) -> Double {
    guard window > Self.longest else {
      let count = count(before: end, window: window)
      return Double(count.accepted) / count.seconds
    }
    let span = max(min(window, end - (beginning ?? end)), 1)
    return Double(coarse.sum(from: Int(end - span), through: Int(end))) / span
  }

  /// Returns the number of requests sent before `end` and not refused.
  ///
  /// - Parameter window: The time in seconds, at most five.
  /// - Returns: Also the time in seconds with traffic: at most `window`, at least one second.
  func count(before end: Double, window: Double) -> (accepted: Int, seconds: Double) {
    let last = min(Self.slot(end), fine.newest)
    let seconds = max(min(window, end - (beginning ?? end)), 1)
    return (fine.sum(from: last - Int(window * Self.slotsPerSecond) + 1, through: last), seconds)
  }

  /// Returns the number of requests ever sent before `end` and not refused. `end` is at most five seconds ago.
  func accepted(before end: Double) -> Int { total - fine.sum(from: Self.slot(end) + 1, through: fine.newest) }

  /// Returns the time until at most `most` requests are in the last second, if no more are sent.
  func timeUntil(atMost most: Int, now: Double) -> Double {
    let first = max(Self.slot(now) - Int(Self.slotsPerSecond) + 1, fine.kept.lowerBound)
    var count = 0
    for slot in stride(from: fine.newest, through: first, by: -1) {
      count += fine[slot]
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

/// A simulated token bucket that fills at the learned rate, holds the requests of one second, and was empty at the last 429.
/// If it is overdrawn without a refusal, the quota is no such bucket and allows more.
struct ImaginedBucket: Sendable {
  /// The stored requests. Negative if overdrawn.
  private(set) var stored = 0.0
  private var updated = 0.0

  mutating func take(rate: Double, now: Double) {
    stored = min(stored + (now - updated) * rate, rate) - 1
    updated = now
  }

  mutating func empty(now: Double) { (stored, updated) = (0, now) }
}
