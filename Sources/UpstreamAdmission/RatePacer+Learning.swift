// What a 429 says about the rate.
extension RatePacer {
  /// A request sent at this time was refused, the first one of an event.
  mutating func learn(at time: Double) {
    guard let old = rate else {
      isGuess = true
      return settle(at: max(accepted(before: time, seconds: 1), limits.firstRate))
    }
    let isEcho = wasProbe && isWindow(at: time)
    (wasProbe, hasGrown) = (false, false)
    let isUnconfirmed = confirmed > 0 && old > confirmed * 1.02
    let isSoon = sinceResumed < max(6, pace)
    strikes = isSoon && !isUnconfirmed ? strikes + 1 : 0
    if strikes >= 2 {
      isTesting = strikes >= 4
      return settle(at: min(old * 0.93, highest(at: time)))
    }
    switch phase {
    case .free: settle(at: min(old * 0.98, highest(at: time)))
    case .holding: learnFromHold(old, at: time, isSoon: isSoon, isEcho: isEcho, isUnconfirmed: isUnconfirmed)
    case .probing where isSoon && !isUnconfirmed: settle(at: min(old * 0.98, highest(at: time)))
    case .probing(step: 0, _): learnFromFirstStep(old, at: time)
    case .probing(let step, _): learnFromGrowth(old, step: step, at: time)
    }
  }

  /// A hold was refused: the rate is too high, unless it is the echo of a probe, whose requests the same window counts.
  private mutating func learnFromHold(
    _ old: Double, at time: Double, isSoon: Bool, isEcho: Bool, isUnconfirmed: Bool
  ) {
    if !isEcho { ceiling = min(ceiling, old) }
    if isUnconfirmed {
      if isEcho, old < limits.wholeRequests { return settle(at: min(old, highest(at: time))) }
      falls += 1
      if falls > 3 { confirmed *= 0.9 }
      guard let rate = fallen(from: old, at: time) else {
        // The pause was too short for the window to end.
        hasGrown = true
        return settle(at: old)
      }
      return settle(at: max(rate, confirmed))
    }
    settle(at: min(isEcho && isSoon ? old : isSoon ? old * 0.98 : old * 0.96, highest(at: time)))
  }

  /// The first step of a probe was refused, as it should be if the rate is right.
  private mutating func learnFromFirstStep(_ old: Double, at time: Double) {
    isSearching = false
    wasProbe = true
    ceiling *= 1.005
    // At a low rate one request is a large part, so a rate that is too low is refused as well. Try a little more, unless
    // that was refused before.
    let more = min(accepted(before: time, seconds: 1), old * 1.04)
    let isWorthTrying = old < limits.wholeRequests && more > old && more < ceiling * 0.98
    settle(at: isWorthTrying ? more : min(old, highest(at: time)))
  }

  /// A later step was refused: the rate has grown. Of a window, what it admitted in a second is the rate; of a bucket,
  /// the next refusal will say.
  private mutating func learnFromGrowth(_ old: Double, step: Int, at time: Double) {
    wasProbe = true
    ceiling = .infinity
    falls = 0
    let borne = step > 1 ? old * factor(step - 2) : old
    settle(at: min(max(accepted(before: time, seconds: 1), fullBucket(at: time), borne), pace))
    isSearching = (rate ?? 0) > old * 1.02
    hasGrown = isSearching
  }

  /// Another refusal of the same event. Many of them say that the quota is far below what was sent.
  mutating func learnMore(at time: Double) {
    guard refusals >= 3, let rate else { return }
    isGuess = false
    settle(at: min(rate, highest(at: time)))
  }

  mutating func settle(at rate: Double) {
    let bounded = max(rate, limits.leastRate)
    self.rate = bounded
    pace = bounded * limits.holdFactor
    phase = .holding(0)
  }

  // MARK: Estimates

  /// Whether the last refusal was so short a time before that a window of a second counts requests from before it.
  private func isWindow(at time: Double) -> Bool {
    lastRefusal.map { time - $0.sentAt < 1.05 + 1 / pace } ?? false
  }

  /// The most that the quota can be, if a request sent at this time was refused: in a second before that, as many went as
  /// it allows in a second; of a bucket, which was empty at the last refusal, as many as it has got since, less one.
  private func highest(at time: Double) -> Double {
    let second = accepted(before: time, seconds: 1)
    if let last = lastRefusal, time - last.sentAt >= 2 {
      return max(second, Double(history.accepted(before: time) - last.accepted + 1) / (time - last.sentAt))
    }
    let long = history.count(before: time, window: 4)
    return max(second, Double(long.sent - long.refused + 1) / long.seconds)
  }

  /// Requests a second that were not refused.
  private func accepted(before time: Double, seconds: Double) -> Double {
    let count = history.count(before: time, window: seconds)
    return Double(count.sent - count.refused) / count.seconds
  }

  /// The rate, if it has just grown, and is refused; nil if that says nothing.
  private func fallen(from old: Double, at time: Double) -> Double? {
    let most = old * 0.97
    guard let last = lastRefusal else { return most }
    let length = time - last.sentAt
    if length >= 1 { return min(most, accepted(before: time, seconds: 1)) }
    // A bucket has given what it got since it was empty. What would give less than is known is no bucket, but a window
    // that is still full.
    let rate = Double(history.accepted(before: time) - last.accepted) / max(length, 0.001)
    return rate >= confirmed || falls > 3 ? min(most, rate) : nil
  }

  /// The rate of a bucket that holds a second's requests and refuses one at this time: the least that explains what it
  /// has given, since it was full or since it was empty.
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
