// The probes, in which the pacer exceeds the learned rate, and their price.
extension RatePacer {
  /// Records a request at the learned rate.
  mutating func hold(_ count: Double) {
    phase = .holding(count)
    if isGuess {
      isGuess = false
      return begin(step: 1)
    }
    guard count >= leastHold else { return }
    (confirmed, falls) = (rate ?? 0, 0)
    // The first step earns the other half of the price.
    if isSearching || credit >= 0.5 { begin(step: 0) }
  }

  /// The fewest requests in a hold.
  private var leastHold: Double {
    if isSearching { return max(limits.searchHold, limits.leastHoldInSeconds * window * pace) }
    let seconds = pauseLength * (isAsked ? limits.holdPerRetryAfter : limits.holdPerPause)
    return max(limits.leastHold, max(limits.leastHoldInSeconds * window, seconds) * pace)
  }

  /// Records a request of a probe.
  mutating func probe(_ step: Int, _ count: Double) {
    phase = .probing(step: step, count)
    guard count >= requests(in: step) else { return }
    // The first step ends when every kind of limiter must have refused a request, if the quota is the learned rate. No
    // window has refused one. A bucket that filled up during the last pause is overdrawn sooner at a higher pace. At a
    // low rate that pace would exceed a window too far, and its refusals would be weak evidence.
    guard step > 0 || window > 1 || bucket.stored <= -bucketMargin else {
      if let rate, rate >= limits.wholeRequests { pace = rate * (1 + limits.overdraft * firstExcess) }
      return
    }
    begin(step: step + 1)
  }

  private mutating func begin(step: Int) {
    guard let rate else { return }
    phase = .probing(step: step, 0)
    pace = rate * factor(step)
    guard pace > limits.mostRate else { return }
    disown()
    opening = 0
  }

  /// Returns the fewest requests in a step.
  private func requests(in step: Int) -> Double {
    let pace = (rate ?? 0) * factor(step)
    switch step {
    // The first window, a whole second one, and jitter on the way. At a low rate, until the excess is a whole request.
    case 0: return max(limits.excess / firstExcess, (limits.firstStepInSeconds * window + 0.3 * latency) * pace)
    // A window of a minute refuses nothing before it is full.
    case _ where window > 1: return 1.1 * window * pace
    // The quota may have doubled: there is no time to wait for the responses of each step.
    case 1...steps.count: return max(5, (0.15 + latency / 2) * pace)
    default: return max(5, (0.25 + latency) * pace)
    }
  }

  /// The excess of the first step, as a part of the learned rate.
  private var firstExcess: Double {
    min(max(limits.excess / max((rate ?? 1) * window, 0.001), limits.leastExcess), limits.mostExcess)
  }

  private var steps: [Double] {
    if window > 1 { return limits.longSteps }
    return (rate ?? 0) < limits.wholeRequests ? limits.slowSteps : limits.steps
  }

  /// Returns the pace of a step, as a multiple of the learned rate.
  func factor(_ step: Int) -> Double {
    guard step > 0, let last = steps.last else { return 1 + firstExcess }
    guard step > steps.count else { return max(steps[step - 1], 1 + firstExcess * Double(step + 1)) }
    var factor = last
    for _ in steps.count..<step { factor *= 1.25 }
    return factor
  }

  /// The overdraft of the imagined bucket at which its refusal is overdue, in requests. A low rate is seldom exact.
  private var bucketMargin: Double { isSlow ? 2 : 1 }

  private var isSlow: Bool { (rate ?? 0) < limits.slowRate }

  /// Adds credit for a request that was sent. An event of refusals is paid for after as many requests as its refusals
  /// cost on average. A fixed window refuses one request of one probe and two of the next. With the average, the time
  /// to the next probe is the same after both.
  mutating func earn() {
    credit = min(credit + 1 / ((isSlow ? limits.slowPrice : limits.price) * refusalsPerEvent), 1)
  }

  /// Pays for the first refusal of an event. The search for the first rate is free.
  mutating func pay() {
    guard confirmed > 0 else { return }
    credit = max(credit - 1, -1)
    guard !hasGrown, refusals > 0 else { return }
    let most = max(limits.mostRefusals, limits.mostRefusalsInSeconds * (rate ?? 0))
    refusalsPerEvent += (min(Double(refusals), most) - refusalsPerEvent) / 4
  }
}
