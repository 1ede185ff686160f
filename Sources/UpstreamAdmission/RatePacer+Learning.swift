// What a 429 shows.
extension RatePacer {
  /// Learns from the first refusal of an event, of a request that was sent at `time`.
  mutating func learn(at time: Double) {
    let accepted = history.rate(before: time, window: window)
    guard let old = rate else {
      isGuess = true
      return hold(at: max(accepted, peak.leastQuota, accepted > 0 ? limits.firstRate : limits.unknownRate))
    }
    strikes = sinceResumed < max(6, min(pace, old)) ? strikes + 1 : 0
    if strikes >= 4 { isTesting = true }
    // The probe followed a hold without a refusal: that rate is about right, however far it has fallen.
    if step > 0 { confirmed = min(confirmed, old) }
    switch step {
    case 0:
      hold(at: min(old * limits.falls[min(falls, limits.falls.count - 1)], highest(at: time)))
      falls += 1
    case 1:
      // The rate is right, and the refusal was expected. A low rate may be too low by a part of a request.
      isSearching = false
      hold(at: max(old, hasWholeRequests ? min(accepted, old * 1.04) : 0))
    default:
      // The rate has grown: to what a window admitted, or to the last step that nothing refused.
      hold(at: min(max(accepted, step > 2 ? old * factor(step - 1) : old), pace))
      isSearching = (rate ?? 0) > old * 1.02
      falls = 0
    }
  }

  /// Learns from another refusal of the same event. Many refusals show that the quota is far below the rate sent.
  mutating func learnMore(at time: Double) {
    guard let rate else { return }
    let first = streak.flatMap { $0.events == 1 ? $0 : nil }
    // If all were refused, they show no limit.
    isGuess = first != nil && confirmed == 0 && history.rate(before: firstRefused, window: 1) <= 0
    hold(at: isGuess ? max(limits.unknownRate, peak.leastQuota, first?.rate ?? 0) : min(rate, highest(at: time)))
    if isGuess { isTesting = true }
    // An upstream that refuses for another reason than the rate accepts nothing behind the first refused request. So
    // only what it accepted before that request counts afterwards.
    guard let first else { return }
    let known = isGuess ? self.rate ?? rate : max(min(first.rate, highest(at: firstRefused)), limits.leastRate)
    streak = RefusalStreak(began: firstRefused, rate: known, isBlock: isGuess)
  }

  /// The highest possible quota if a request sent at `time` was refused: for a window, the requests admitted in the second
  /// before; for a bucket, empty at the last refusal, those admitted since, less one.
  private func highest(at time: Double) -> Double {
    guard time - knowsAllSince >= 1 else { return .infinity }
    let second = history.rate(before: time, window: window)
    if let last = lastRefusal, time - last.sentAt >= 2 * window {
      return max(second, Double(history.accepted(before: time) - last.accepted + 1) / (time - last.sentAt))
    }
    guard window == 1 else { return second }
    let long = history.count(before: time, window: 4)
    return max(second, Double(long.accepted + 1) / long.seconds)
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
    hold(at: streak.rate)
    isTesting = true
    let (blocked, least) = (now - streak.began, limits.leastTestPause.inSeconds)
    let part =
      window > 1
      ? max(min(blocked / 4, window / 16), least)
      : min(max(blocked * limits.testPause, least, 2 / streak.rate), limits.mostTestPause.inSeconds)
    pause(for: max(part, 1 / streak.rate), now: now, isTest: true)
  }

  /// Ends a streak with a request that was accepted. Returns whether the upstream had refused everything.
  mutating func endStreak(sentAt: Double) -> Bool {
    guard let ended = streak, sentAt > ended.began else { return false }
    streak = nil
    guard ended.isBlock || isAsked && pauseLength > max(1.5, 1.5 / ended.rate) else { return false }
    hold(at: min(ended.rate, borne(before: ended.began, until: sentAt)))
    return true
  }

  /// Learns the window from the end of a time in which everything was refused: that of a window, or of a failure of the
  /// upstream. A second one within a window of the first shows it. Returns what was borne before, in a time as long.
  private mutating func borne(before began: Double, until end: Double) -> Double {
    let length = end - began
    guard let longest = limits.windows.last, length > 1.5 * window || window > 1 && length > 1 else { return .infinity }
    let long = max(limits.windows.first { $0 >= length } ?? longest, window, suspected.window)
    if began - suspected.end < long, length <= longest { window = long }
    suspected = (long, end)
    let rate = history.rate(before: began, window: max(min(length, longest), window))
    return rate > 0 ? rate : .infinity
  }
}
