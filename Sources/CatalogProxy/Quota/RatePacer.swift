/// Learns the rate that the upstream's quota bears, and spaces requests evenly below it.
///
/// Apple announces its quota by nothing but a 429. Until the first one, requests go as they come. From then on they are
/// spaced evenly, a little below the learned rate, which no token bucket, fixed window or sliding window refuses. Now and
/// then a probe goes a little above it: one that is refused costs about one 429 and a short pause; one that is not goes
/// on in growing steps. A 429 tells the rate as well: it is what was not refused in the second before.
///
/// Probes are paid for out of the requests sent, so that few requests are refused in the long run. After a 429 there is
/// one pause for all requests. Times are seconds of a clock that never jumps.
struct RatePacer: Sendable {
  /// What the pacer does about the rate.
  private enum Phase: Sendable {
    /// No 429 has come yet.
    case free
    /// Requests go at the learned rate; so many have gone while others waited.
    case holding(Double)
    /// Requests go faster than the learned rate; so many have gone in this step.
    case probing(step: Int, Double)
  }

  let limits: PacingLimits
  /// The learned rate, in requests a second; nil before the first 429.
  private(set) var rate: Double?
  /// The rate at which requests go. It means nothing while `rate` is nil.
  private(set) var pace = 0.0
  private var phase = Phase.free
  /// When the next request may go.
  private(set) var opening = 0.0
  private var history = SendHistory()
  /// When the last pause began: refusals of requests from before it are part of the same event.
  private var pauseBegan = -1.0
  private var pauseLength = 0.0
  /// Refusals of that event.
  private var refusals = 0
  /// Whether it is the first of all, which no probe has caused.
  private var isFirst = false
  /// Whether the rate was learned from too little: then the search begins at once.
  private var isGuess = false
  /// Events one soon after the other.
  private var strikes = 0
  /// Whether one request at a time finds out if the upstream still refuses everything.
  private var isTesting = false
  /// Requests since the last pause, while others waited.
  private var sinceResumed = 0.0
  /// The highest rate at which a hold has ended without a 429.
  private var confirmed = 0.0
  /// How often the rate has fallen since it was last raised.
  private var falls = 0
  /// The refusals that may be spent on probes.
  private var credit = 1.0
  /// The time that a response takes, smoothed.
  private var latency = 0.1

  init(_ limits: PacingLimits = PacingLimits()) {
    self.limits = limits
  }

  /// Whether a pause is under way.
  func isPaused(now: Double) -> Bool { rate != nil && now < pauseBegan + pauseLength }

  /// A request goes.
  ///
  /// - Parameter isWanted: Whether others wait: only then does the pace mean anything.
  mutating func sent(now: Double, isWanted: Bool) {
    history.record(at: now)
    guard rate != nil else { return }
    let isOnTime = now - opening < max(limits.catchUp.inSeconds * 0.8, 1 / pace)
    opening = max(opening, now - limits.catchUp.inSeconds) + 1 / pace
    credit = min(credit + 1 / price, 2)
    if isTesting { opening = now + max(4 * latency, 0.5, 1 / pace) }
    guard isWanted, isOnTime else { return }
    sinceResumed += 1
    switch phase {
    case .free: break
    case .holding(let count): hold(count + 1)
    case .probing(let step, let count): probe(step, count + 1)
    }
  }

  /// A request was answered with anything but 429.
  mutating func answered(sentAt: Double, now: Double) {
    latency += (now - sentAt - latency) / 16
    guard isTesting, sentAt > pauseBegan else { return }
    isTesting = false
    strikes = 1
    credit = max(credit, 0)
    if let rate, rate < confirmed / 2 {
      // What was known before may hold again. It counts for less each time.
      confirmed /= 2
      settle(at: confirmed)
      isGuess = true
    }
    opening = max(now, sentAt + 1 / pace)
  }

  /// A request was refused with 429.
  ///
  /// - Parameter retryAfter: What its `Retry-After` says, if it has one, in seconds.
  mutating func refused(sentAt: Double, retryAfter: Double?, now: Double) {
    history.refuse(sentAt: sentAt)
    if sentAt <= pauseBegan {
      refusals += 1
      if !isFirst { credit = max(credit - 1, -limits.mostDebt) }
      learnMore(at: sentAt)
      let length = pauseAfterLearning(now: pauseBegan)
      if length > pauseLength { pause(for: length, now: pauseBegan) }
    } else {
      refusals = 1
      isFirst = rate == nil
      if !isFirst { credit = max(credit - 1, -limits.mostDebt) }
      learn(at: sentAt)
      pause(for: pauseAfterLearning(now: now), now: now)
    }
    guard let retryAfter else { return }
    let end = now + min(retryAfter, limits.mostRetryAfter.inSeconds)
    guard end > pauseBegan + pauseLength else { return }
    pauseLength = end - pauseBegan
    opening = end
  }

  // MARK: Phases

  private mutating func hold(_ count: Double) {
    phase = .holding(count)
    if isGuess {
      isGuess = false
      return begin(step: 1)
    }
    let least = max(limits.leastHold, limits.leastHoldInSeconds * pace, limits.holdPerPause * pauseLength * pace)
    // The other half of the price is earned during the first step.
    if count >= least { confirmed = rate ?? 0 }
    if count >= least, credit >= 0.5 { begin(step: 0) }
  }

  private mutating func probe(_ step: Int, _ count: Double) {
    phase = .probing(step: step, count)
    if count >= requests(in: step) { begin(step: step + 1) }
  }

  /// How many requests a step has.
  private func requests(in step: Int) -> Double {
    let pace = (rate ?? 0) * factor(step)
    return step == 0 ? max(1.4 / firstExcess, (1.6 + latency) * pace) : max(6, (0.25 + latency) * pace)
  }

  private mutating func begin(step: Int) {
    guard let rate else { return }
    phase = .probing(step: step, 0)
    pace = rate * factor(step)
    guard pace <= limits.mostRate else { return forget() }
  }

  /// The requests that pay for a refusal.
  private var price: Double {
    guard let rate, rate >= 20 else { return limits.slowPrice }
    return min(max(limits.priceInSeconds * rate, limits.leastPrice), limits.mostPrice)
  }

  private var firstExcess: Double {
    min(max(1.4 / max(rate ?? 1, 0.001), limits.leastExcess), limits.mostExcess)
  }

  private func factor(_ step: Int) -> Double {
    guard step > 0, let last = limits.steps.last else { return 1 + firstExcess }
    guard step > limits.steps.count else { return limits.steps[step - 1] }
    var factor = last
    for _ in limits.steps.count..<step { factor *= 1.25 }
    return factor
  }

  private mutating func forget() {
    rate = nil
    phase = .free
    opening = 0
  }

  // MARK: Learning

  private mutating func learn(at time: Double) {
    guard let old = rate else {
      isGuess = true
      return settle(at: max(measured(before: time, window: 1), limits.firstRate))
    }
    let isUnconfirmed = confirmed > 0 && old > confirmed * 1.02
    let isSoon = sinceResumed < max(6, pace)
    strikes = isSoon && !isUnconfirmed ? strikes + 1 : 0
    let highest = highest(at: time)
    switch phase {
    case _ where strikes >= 2:
      isTesting = strikes >= 4
      settle(at: old * 0.93)
    case .holding where isUnconfirmed:
      falls += 1
      settle(at: min(falls > 1 ? max(old * 0.85, confirmed) : old, highest))
    case _ where isSoon, .free: settle(at: min(old * 0.98, highest))
    case .holding: settle(at: min(old * 0.96, highest))
    case .probing(step: 0, _): settle(at: min(old, highest))
    case .probing(let step, _):
      falls = 0
      let window = min(max(20 / pace, 1), 4)
      // A step that was as long as a window and the way there and back was borne.
      let last = old * factor(step - 1)
      let isBorne = requests(in: step - 1) >= (1 + latency) * last
      settle(at: min(max(measured(before: time, window: window), isBorne ? last : old), pace))
    }
  }

  /// Another refusal of the same event. Many of them say that the quota is far below what was sent.
  private mutating func learnMore(at time: Double) {
    guard refusals >= 3, let rate else { return }
    isGuess = false
    settle(at: min(rate, highest(at: time)))
  }

  private mutating func settle(at rate: Double) {
    let bounded = max(rate, limits.leastRate)
    self.rate = bounded
    pace = bounded * limits.holdFactor
    phase = .holding(0)
  }

  /// The most that the quota can be, if a request sent at this time was refused: in a second before that, as many went as
  /// it allows in a second; of a bucket, one less.
  private func highest(at time: Double) -> Double {
    let long = history.count(before: time, window: 4)
    return max(measured(before: time, window: 1), Double(long.sent - long.refused + 1) / long.seconds)
  }

  /// Requests a second that were not refused.
  private func measured(before time: Double, window: Double) -> Double {
    let count = history.count(before: time, window: window)
    let served = count.sent - count.refused
    // The edges of a long window are worth up to one request.
    return Double(served < 12 && window > 1 ? served - 1 : served) / count.seconds
  }

  private func pauseAfterLearning(now: Double) -> Double {
    let least = isGuess ? limits.firstPause : limits.leastPause
    let clear = history.timeUntil(atMost: Int((rate ?? 1).rounded(.up)) - 1, now: now)
    return min(max(least.inSeconds, clear) * Double(1 << min(strikes, 8)), limits.mostPause.inSeconds)
  }

  private mutating func pause(for length: Double, now: Double) {
    pauseBegan = now
    pauseLength = length
    // What was refused has used nothing of the quota.
    opening = max(opening - 1 / pace, now + length)
    sinceResumed = 0
  }
}

extension Duration {
  /// As seconds of 64 bits.
  var inSeconds: Double {
    let (seconds, attoseconds) = components
    return Double(seconds) + Double(attoseconds) * 1e-18
  }

  /// From seconds.
  init(inSeconds seconds: Double) {
    self = .nanoseconds(Int64(max(min(seconds, 1e9), -1e9) * 1e9))
  }
}
