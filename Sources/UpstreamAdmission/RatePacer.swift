/// Learns the rate that the upstream's quota bears, and spaces requests evenly below it.
///
/// Apple announces its quota by nothing but a 429. Until the first one, requests go as they come. From then on they are
/// spaced evenly, a little below the learned rate, which no token bucket, fixed window or sliding window refuses. Now and
/// then a probe goes a little above it: one that is refused costs about one 429 and a short pause; one that is not goes
/// on in growing steps. A 429 tells the rate as well: it is what was not refused before.
///
/// Probes are paid for out of the requests sent, so that few requests are refused in the long run. After a 429 there is
/// one pause for all requests. Times are seconds of a clock that never jumps.
struct RatePacer: Sendable {
  /// What the pacer does about the rate.
  enum Phase: Sendable {
    /// No 429 has come yet.
    case free
    /// Requests go at the learned rate; so many have gone while others waited.
    case holding(Double)
    /// Requests go faster than the learned rate; so many have gone in this step.
    case probing(step: Int, Double)
  }

  let limits: PacingLimits
  /// The learned rate, in requests a second; nil before the first 429.
  var rate: Double?
  /// The rate at which requests go. It means nothing while `rate` is nil.
  var pace = 0.0
  var phase = Phase.free
  /// When the next request may go.
  var opening = 0.0
  var history = SendHistory()
  /// A bucket of the learned rate, to tell when a probe must have been refused.
  var bucket = ImaginedBucket()
  /// The time that a response takes, smoothed.
  private(set) var latency = 0.1
  /// The part of an event of refusals that has been paid for, 0 to 1.
  var credit = 0.0
  /// How many requests an event refuses, smoothed.
  var refusalsPerEvent = 1.0

  // What is known of the rate.

  /// Whether the rate was learned from too little: then the search begins at once.
  var isGuess = false
  /// Whether no probe has been refused yet since the rate was found: then the next one need not be paid for.
  var isSearching = true
  /// The rate at which the last hold ended without a 429; 0 before the first.
  var confirmed = 0.0
  /// The lowest rate at which a hold ended with a 429. Time raises it.
  var ceiling = Double.infinity
  /// How often the rate has fallen since a hold ended without a 429.
  var falls = 0

  // The last refusals.

  /// When the last pause began: refusals of requests from before it are part of the same event.
  var pauseBegan = -1.0
  var pauseLength = 0.0
  /// Whether the pause is as long as a `Retry-After` says.
  private(set) var isAsked = false
  /// Refusals of that event.
  private(set) var refusals = 0
  /// Whether a probe caused that event, and whether the rate has grown by it.
  var wasProbe = false
  var hasGrown = false
  /// Events one soon after the other.
  var strikes = 0
  /// Whether one request at a time finds out if the upstream still refuses everything.
  var isTesting = false
  /// Requests since the last pause, while others waited.
  private(set) var sinceResumed = 0.0
  /// When the last refused request was sent, and how many had been sent by then that were not refused.
  private(set) var lastRefusal: (sentAt: Double, accepted: Int)?
  private var lastSent = 0.0

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
      learnMore(at: sentAt)
      let length = pauseAfterLearning(now: pauseBegan)
      if length > pauseLength { pause(for: length, now: pauseBegan) }
    } else {
      pay()
      refusals = 1
      learn(at: sentAt)
      bucket.empty(now: now)
      // A request that was refused has used nothing of the quota, so the next one may take its place.
      if sentAt >= lastSent { opening -= 1 / pace }
      pause(for: pauseAfterLearning(now: now), now: now)
    }
    lastRefusal = (sentAt, history.accepted(before: sentAt))
    if let retryAfter { wait(for: min(retryAfter, limits.mostRetryAfter.inSeconds), now: now) }
  }

  // MARK: Pauses

  private func pauseAfterLearning(now: Double) -> Double {
    let least = isGuess ? limits.firstPause : hasGrown ? limits.pauseAfterGrowth : limits.leastPause
    // The pause lasts until a window of a second has room for another request. A rate is seldom exact to a tenth.
    let clear = history.timeUntil(atMost: Int(((rate ?? 1) - 0.1).rounded(.up)) - 1, now: now)
    return min(max(least.inSeconds, clear) * Double(1 << min(strikes, 8)), limits.mostPause.inSeconds)
  }

  private mutating func pause(for length: Double, now: Double) {
    pauseBegan = now
    pauseLength = length
    isAsked = false
    opening = max(opening, now + length)
    sinceResumed = 0
  }

  /// Obeys a `Retry-After`.
  private mutating func wait(for length: Double, now: Double) {
    let end = now + length
    guard end > pauseBegan + pauseLength else { return }
    pauseLength = end - pauseBegan
    isAsked = true
    opening = end
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

/// How many requests were sent in each fiftieth of the last five seconds, and how many of these were refused.
struct SendHistory: Sendable {
  private static let slots = 256
  private static let slotsPerSecond = 50.0

  private var sent = [Int32](repeating: 0, count: slots)
  private var refused = [Int32](repeating: 0, count: slots)
  /// The number of the newest slot, counted from the clock's zero.
  private var newest = 0
  /// All that were sent and not refused.
  private var accepted = 0
  /// When the first request of all was sent.
  private var beginning: Double?

  /// A request is sent.
  mutating func record(at time: Double) {
    if beginning == nil { beginning = time }
    let slot = Self.slot(time)
    if slot > newest {
      let stale = min(slot - newest, Self.slots)
      for index in (slot - stale + 1)...slot {
        sent[index % Self.slots] = 0
        refused[index % Self.slots] = 0
      }
      newest = slot
    }
    sent[slot % Self.slots] &+= 1
    accepted += 1
  }

  /// A request that was sent at `time` has been refused.
  mutating func refuse(sentAt time: Double) {
    let slot = Self.slot(time)
    guard slot > newest - Self.slots, slot <= newest else { return }
    refused[slot % Self.slots] &+= 1
    accepted -= 1
  }

  /// Requests sent in the time before `end`, and those of them that were refused.
  ///
  /// - Parameter window: The time in seconds, at most five.
  /// - Returns: Also the time in seconds in which there were any: `window` at most, one second at least.
  func count(before end: Double, window: Double) -> (sent: Int, refused: Int, seconds: Double) {
    let last = min(Self.slot(end), newest)
    let first = max(last - Int(window * Self.slotsPerSecond) + 1, newest - Self.slots + 1, 0)
    var sums = (sent: 0, refused: 0, seconds: max(min(window, end - (beginning ?? end)), 1))
    guard first <= last else { return sums }
    for slot in first...last {
      sums.sent += Int(sent[slot % Self.slots])
      sums.refused += Int(refused[slot % Self.slots])
    }
    return sums
  }

  /// All requests sent before then, at most five seconds ago, and not refused.
  func accepted(before end: Double) -> Int {
    var count = accepted
    for slot in stride(from: newest, to: max(Self.slot(end), newest - Self.slots, -1), by: -1) {
      count -= Int(sent[slot % Self.slots] - refused[slot % Self.slots])
    }
    return count
  }

  /// How long it takes until at most so many requests have gone in the last second, if none goes: those that were refused
  /// do not count.
  func timeUntil(atMost most: Int, now: Double) -> Double {
    let last = Self.slot(now)
    var count = 0
    for slot in stride(from: newest, to: max(last - Int(Self.slotsPerSecond), newest - Self.slots, -1), by: -1) {
      count += Int(sent[slot % Self.slots] - refused[slot % Self.slots])
      if count > most { return max(Double(slot + 1) / Self.slotsPerSecond + 1 - now, 0) }
    }
    return 0
  }

  private static func slot(_ time: Double) -> Int { max(Int(time * slotsPerSecond), 0) }
}

/// What a token bucket would hold that fills at the learned rate, holds a second's requests at most, and was empty at the
/// last 429. When it is overdrawn and nothing was refused, the quota is no such bucket: it allows more.
struct ImaginedBucket: Sendable {
  /// Requests; below zero if it is overdrawn.
  private(set) var stored = 0.0
  private var updated = 0.0

  /// A request goes.
  mutating func take(rate: Double, now: Double) {
    stored = min(stored + (now - updated) * rate, rate) - 1
    updated = now
  }

  /// A request was refused.
  mutating func empty(now: Double) {
    (stored, updated) = (0, now)
  }
}
