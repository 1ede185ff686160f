// The evidence of a 429 about the rate.
extension RatePacer {
  /// Learns from the first refusal of an event. The refused request was sent at `time`.
  mutating func learn(at time: Double) {
    guard let old = rate else {
      isGuess = true
      return hold(at: max(accepted(before: time, seconds: 1), firstGuess(before: time)))
    }
    let isEcho = wasProbe && isWindow(at: time)
    (wasProbe, hasGrown) = (false, false)
    let isUnconfirmed = confirmed > 0 && old > confirmed * 1.02
    let isSoon = sinceResumed < max(6, pace)
    strikes = isSoon && !isUnconfirmed ? strikes + 1 : 0
    if strikes >= 2 {
      isTesting = strikes >= 4
      return hold(at: min(old * 0.93, highest(at: time)))
    }
    switch phase {
    case .free: hold(at: min(old * 0.98, highest(at: time)))
    case .holding: learnFromHold(old, at: time, isSoon: isSoon, isEcho: isEcho, isUnconfirmed: isUnconfirmed)
    case .probing where isSoon && !isUnconfirmed: hold(at: min(old * 0.98, highest(at: time)))
    case .probing(step: 0, _): learnFromFirstStep(old, at: time)
    case .probing(let step, _): learnFromGrowth(old, step: step, at: time)
    }
  }

  /// Learns from a refusal in a hold: the rate is too high, unless this is the echo of a probe in the same window.
  private mutating func learnFromHold(
    _ old: Double, at time: Double, isSoon: Bool, isEcho: Bool, isUnconfirmed: Bool
  ) {
    if !isEcho { ceiling = min(ceiling, old) }
    if isUnconfirmed {
      if isEcho, old < limits.wholeRequests { return hold(at: min(old, highest(at: time))) }
      falls += 1
      if falls > 3 { confirmed *= 0.9 }
      guard let rate = fallen(from: old, at: time) else {
        // The pause was too short for the window to end.
        hasGrown = true
        return hold(at: old)
      }
      return hold(at: max(rate, confirmed))
    }
    hold(at: min(isEcho && isSoon ? old : isSoon ? old * 0.98 : old * 0.96, highest(at: time)))
  }

  /// Learns from a refusal in the first step of a probe. The refusal is expected if the rate is right.
  private mutating func learnFromFirstStep(_ old: Double, at time: Double) {
    isSearching = false
    wasProbe = true
    ceiling *= 1.005
    // At a low rate one request is a large part, so the probe of a rate that is too low is refused as well. Try a
    // little more, unless that was refused before.
    let more = min(accepted(before: time, seconds: window), old * 1.04)
    let isWorthTrying = old < limits.wholeRequests && more > old && more < ceiling * 0.98
    hold(at: isWorthTrying ? more : min(old, highest(at: time)))
  }

  /// Learns from a refusal in a later step: the rate has grown. For a window, the rate is what it admitted in a second.
  /// For a bucket, the next refusal will show the rate.
  private mutating func learnFromGrowth(_ old: Double, step: Int, at time: Double) {
    wasProbe = true
    ceiling = .infinity
    falls = 0
    let borne = step > 1 ? old * factor(step - 2) : old
    hold(at: min(max(accepted(before: time, seconds: window), fullBucket(at: time), borne), pace))
    isSearching = (rate ?? 0) > old * 1.02
    hasGrown = isSearching
  }

  /// Learns from another refusal of the same event. Many refusals show that the quota is far below the rate sent.
  mutating func learnMore(at time: Double) {
    guard refusals >= 3, let rate else { return }
    let before = history.count(before: firstRefused, window: 1)
    let since = history.count(before: time, window: max(time - firstRefused, 0))
    let isFirst = confirmed == 0 && streak?.events == 1
    isGuess = isFirst && before.sent == before.refused && since.sent == since.refused
    if isGuess {
      // All were refused, so they show no limit.
      hold(at: max(Double(before.sent), firstGuess(before: firstRefused)))
    } else {
      hold(at: min(rate, highest(at: time)))
    }
    // An upstream that refuses for another reason than the rate accepts nothing behind the first refused request. So
    // only what it accepted before that request counts afterwards.
    let known = isGuess ? self.rate ?? rate : min(firstRate, highest(at: firstRefused))
    correctStreak(isBlock: isGuess, rate: known)
  }

  mutating func hold(at rate: Double) {
    let bounded = max(rate, limits.leastRate)
    self.rate = bounded
    pace = bounded * limits.holdFactor
    phase = .holding(0)
  }

  /// Returns whether the last refusal was so recent that a window of a second also counts requests from before it.
  private func isWindow(at time: Double) -> Bool {
    lastRefusal.map { time - $0.sentAt < 1.05 + 1 / pace } ?? false
  }

  /// Returns the highest possible quota, if a request sent at `time` was refused: for a window, the requests admitted
  /// in the second before; for a bucket, empty at the last refusal, the requests admitted since, less one.
  private func highest(at time: Double) -> Double {
    guard time - knowsAllSince >= 1 else { return .infinity }
    let second = accepted(before: time, seconds: window)
    if let last = lastRefusal, time - last.sentAt >= 2 * window {
      return max(second, Double(history.accepted(before: time) - last.accepted + 1) / (time - last.sentAt))
    }
    guard window == 1 else { return second }
    let long = history.count(before: time, window: 4)
    return max(second, Double(long.sent - long.refused + 1) / long.seconds)
  }

  /// Returns the rate of requests that were not refused, in requests a second.
  private func accepted(before time: Double, seconds: Double) -> Double {
    history.rate(before: time, window: seconds)
  }

  /// Returns whether a request of the second before `time` was accepted, or may still be.
  private func hasAccepted(before time: Double) -> Bool {
    let count = history.count(before: time, window: 1)
    return count.sent > count.refused
  }

  /// Returns the lowest first rate to begin with.
  private func firstGuess(before time: Double) -> Double {
    max(peak.leastQuota, hasAccepted(before: time) ? limits.firstRate : limits.unknownRate)
  }

  /// Returns the rate after a refusal of a rate that has just grown. Returns nil if the refusal is no evidence.
  private func fallen(from old: Double, at time: Double) -> Double? {
    let most = old * 0.97
    guard let last = lastRefusal else { return most }
    let length = time - last.sentAt
    if length >= 1 { return min(most, accepted(before: time, seconds: window)) }
    // A bucket has admitted what it received since it was empty. If the result is below the confirmed rate, the limiter
    // is not a bucket, but a window that is still full.
    let rate = Double(history.accepted(before: time) - last.accepted) / max(length, 0.001)
    return rate >= confirmed || falls > 3 ? min(most, rate) : nil
  }

  /// Returns the rate of a bucket that holds the requests of one second and refuses a request at `time`: the lowest
  /// rate that explains what the bucket has admitted since it was full or since it was empty.
  private func fullBucket(at time: Double) -> Double {
    var rate = 0.0
    for window in stride(from: 0.25, through: 5, by: 0.25) {
      let count = history.count(before: time, window: window)
      rate = max(rate, Double(count.sent - count.refused) / (window + 1))
    }
    guard let last = lastRefusal, time - last.sentAt > 0.5 else { return rate }
    return max(rate, Double(history.accepted(before: time) - last.accepted) / (time - last.sentAt))
  }
}

// The times in which the upstream refuses everything.
extension RatePacer {
  /// Refusals in a row, without a request that was accepted between them.
  struct RefusalStreak: Sendable {
    /// When the first refused request was sent.
    var began: Double
    /// The rate that its refusal has shown.
    var rate: Double
    var events = 1
    /// Whether the upstream refuses everything.
    var isBlock = false
  }

  /// Begins or continues a streak with an event that was learned from.
  mutating func noteStreak() {
    guard let rate else { return }
    if streak == nil { streak = RefusalStreak(began: firstRefused, rate: rate) } else { streak?.events += 1 }
  }

  /// Corrects the streak after another refusal of its first event.
  mutating func correctStreak(isBlock: Bool, rate: Double) {
    guard streak?.events == 1 else { return }
    streak = RefusalStreak(began: firstRefused, rate: max(rate, limits.leastRate), isBlock: isBlock)
    if isBlock { isTesting = true }
  }

  /// Whether a block is known since an earlier event than the last one.
  var isKnownBlock: Bool { streak.map { $0.isBlock && $0.events > 1 } ?? false }

  /// Returns whether nothing is accepted in a time in which every limiter with the known rate must accept something.
  mutating func isBlocked(at time: Double) -> Bool {
    guard let known = streak, rate != nil else { return false }
    let least = confirmed > 0 ? limits.blockAfter : limits.firstBlockAfter
    if !known.isBlock, time - known.began > max(least, 1 / known.rate) { streak?.isBlock = true }
    return streak?.isBlock ?? false
  }

  /// Lets one request at a time test whether the upstream accepts again. The rate stays as it was before the streak.
  mutating func testAgain(now: Double) {
    streak?.events += 1
    guard let streak else { return }
    if !isTesting || rate != streak.rate { hold(at: streak.rate) }
    isTesting = true
    let (blocked, least) = (now - streak.began, limits.leastTestPause.inSeconds)
    let part =
      window > 1
      ? max(min(blocked / 4, window / 16), least)
      : min(max(blocked * limits.testPause, least, 2 / streak.rate), limits.mostTestPause.inSeconds)
    pause(for: max(part, 1 / streak.rate), now: now)
    opening = now + pauseLength
  }

  /// Ends a streak with a request that was accepted. Returns whether the upstream had refused everything.
  mutating func endStreak(sentAt: Double) -> Bool {
    guard let ended = streak, sentAt > ended.began else { return false }
    streak = nil
    guard ended.isBlock || isAsked && pauseLength > max(1.5, 1.5 / ended.rate) else { return false }
    hold(at: min(ended.rate, borne(before: ended.began, until: sentAt)))
    return true
  }

  /// Learns the window from the end of a time in which everything was refused. Returns what was borne before it, in a time
  /// as long.
  ///
  /// The end of such a time may be that of a window, or that of a failure of the upstream. A second one within a window of the
  /// first shows the window.
  private mutating func borne(before began: Double, until end: Double) -> Double {
    let length = end - began
    guard let longest = limits.windows.last, length > 1.5 * window || window > 1 && length > 1 else { return .infinity }
    let long = max(limits.windows.first { $0 >= length } ?? longest, window, suspected.window)
    if began - suspected.end < long, length <= longest { window = long }
    suspected = (long, end)
    let rate = history.rate(before: began, window: max(min(length, longest), window))
    return rate > 0 ? rate : .infinity
  }

  /// Goes on at the rate from before a block.
  mutating func resume(sentAt: Double, now: Double) {
    strikes = 0
    credit = max(credit, 0)
    // A rate that was never confirmed is no limit.
    if confirmed == 0, window == 1 { isGuess = true }
    opening = max(now, sentAt + 1 / pace)
  }
}
