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
