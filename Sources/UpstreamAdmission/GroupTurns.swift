/// What a replica knows of its team's quota from the store: the pace of all replicas together, and its own part.
package struct TeamQuota: Sendable, Equatable {
  /// The learned rate in requests a second. Nil before the first 429.
  var rate: Double?
  /// The present pace of all replicas together.
  var pace = 0.0
  /// When the pause after the last 429 ends, by this process's clock.
  var pausedUntil = Duration.zero
  /// This replica's part of the turns by the clients that wait, 0 to 1.
  var weight = 1.0
  /// The requests that this replica may have in flight, and the most of all replicas.
  var inFlight = 1
  var limit = 1
  /// The time in which the upstream counts, in seconds.
  var window = 1.0
  package internal(set) var replicas = 1
  /// The part of each client's queued requests that wait here, by the hash of its name; all if it is not listed.
  var fractions: [UInt64: Double] = [:]
}

/// A question for turns at the store, which gives them to all replicas on one line.
public struct TurnRequest: Sendable, Equatable {
  /// The most turns.
  let count: Int
  /// How far ahead of now the turns may be. Zero for a replica that has used up its part: it gets what no other wants.
  let ahead: Duration
}

/// Turns from the store.
struct TurnLease: Sendable, Equatable {
  /// The number of turns; 0 if the line has none so early.
  let count: Int
  /// The first turn, by this process's clock. Without a turn: the end of the line.
  let start: Duration
  let spacing: Duration
}

/// The turns of a replica whose group has one pace for all. It takes the place of ``RatePacer``: the store has the pace.
///
/// With a known rate each request has a turn from the store. The replica asks for its part of the next tenth of a
/// second. If it has used it up, it may still take turns that no other wants. Times are seconds of a monotonic clock.
struct GroupTurns: Sendable {
  /// How far ahead a replica may take turns within its part, in seconds: 0.1, the time between two settlements.
  static let ahead = 0.1
  /// The longest time to wait before the next question, in seconds: 1. The line may be wrong, or the pause may end.
  private static let longestWait = 1.0
  /// The pause until the store has judged a 429, in seconds: 0.04. Others report for 0.03 what they sent before it.
  private static let pauseUntilJudged = 0.04

  private(set) var team: TeamQuota
  var log = TrafficLog()
  /// When the pause after the last 429 ends.
  private(set) var pausedUntil = 0.0
  /// Whether a 429 must be reported at once.
  private(set) var isUrgent = false

  /// The turns that are left, when the next one is, and the time between two.
  private(set) var left = 0
  private var next = 0.0
  private var spacing = 0.0
  private(set) var isAsking = false
  private var askedWithinPart = false
  /// The questions in a row without a reply in time.
  private var misses = 0
  private var askAt = 0.0
  private var lastSent = 0.0
  /// Until when a 429 is perhaps not judged, so that a reply cannot shorten the pause.
  private var heldUntil = 0.0
  /// The turns that this replica may take within its part.
  private var level = 1.0
  private var levelAt = 0.0
  private var random: UInt64

  private static let catchUp = PacingLimits().catchUp.inSeconds
  private static let mostRetryAfter = PacingLimits().mostRetryAfter.inSeconds

  init(_ team: TeamQuota, seed: UInt64) {
    self.team = team
    random = seed | 1
    pausedUntil = team.pausedUntil.inSeconds
  }

  /// Whether requests wait for turns or for the end of a pause.
  func isActive(now: Double) -> Bool { team.rate != nil || now < pausedUntil }

  /// The pace that this replica may expect.
  var pace: Double { max(team.pace * leastWeight, 0.05) }

  /// The pace that this replica may expect once the tests of an upstream that refuses everything have ended.
  var expectedPace: Double {
    guard let rate = team.rate, team.pace < rate / 2 else { return pace }
    return max(rate * leastWeight, 0.05)
  }

  private var leastWeight: Double { max(team.weight, 0.5 / Double(max(team.replicas, 1))) }

  /// Returns the part of the team's pace for a client that belongs to this replica, by the requests that wait here.
  func pace(ofClient client: UInt64) -> Double { max(team.pace * (team.fractions[client] ?? 1), 0.01) }

  /// When the next request may be sent. Nil while the store is asked.
  var opening: Double? {
    guard team.rate != nil else { return pausedUntil }
    if left > 0 { return max(next, pausedUntil) }
    return isAsking ? nil : max(askAt, pausedUntil)
  }

  /// Whether a request may be sent at ``opening``. Otherwise the store is asked then, and its turn is one turn later.
  var opensWithTurn: Bool { team.rate == nil || left > 0 }

  func mayPass(now: Double) -> Bool { now >= pausedUntil && (team.rate == nil || left > 0 && now >= next) }

  /// Drops turns that are over.
  mutating func advance(now: Double) {
    while left > 0, next < now - Self.catchUp {
      left -= 1
      next += spacing
    }
  }

  mutating func sent(now: Double, isWanted: Bool) {
    log.sent(now: now, isWanted: isWanted)
    lastSent = now
    guard left > 0 else { return }
    left -= 1
    next += spacing
  }

  mutating func refused(sentAt: Double, retryAfter: Double?, now: Double) {
    log.refused(sentAt: sentAt, retryAfter: retryAfter, now: now)
    isUrgent = true
    pauseForRefusal(now: now)
    pausedUntil = max(pausedUntil, now + min(retryAfter ?? 0, Self.mostRetryAfter))
  }

  /// Pauses until the store has judged a 429, which this replica or another one has met.
  mutating func pauseForRefusal(now: Double) {
    heldUntil = now + Self.pauseUntilJudged
    pausedUntil = max(pausedUntil, heldUntil)
    drop(now: now)
  }

  /// Gives up the turns: the line begins again after a pause.
  private mutating func drop(now: Double) {
    left = 0
    askAt = max(pausedUntil, now) + jitter() * 0.002
  }

  mutating func report(now: Double) -> (text: [UInt8], last: Int) {
    isUrgent = false
    return log.report(now: now)
  }

  mutating func use(_ team: TeamQuota, now: Double) {
    if self.team.rate == nil, team.rate != nil { (level, levelAt) = (1, now) }
    self.team = team
    let wasPaused = now < pausedUntil
    pausedUntil = max(min(team.pausedUntil.inSeconds, now + Self.mostRetryAfter + 1), heldUntil)
    if now < pausedUntil || wasPaused { drop(now: now) }
  }

  /// Whether the store must be asked for turns, if requests wait.
  func wantsTurns(now: Double) -> Bool {
    team.rate != nil && left == 0 && !isAsking && now >= askAt && now >= pausedUntil
  }

  /// Returns a question for the store if requests wait and no turn is left.
  ///
  /// - Parameter waiting: The number of requests that could be sent.
  mutating func request(waiting: Int, now: Double) -> TurnRequest? {
    guard waiting > 0, wantsTurns(now: now) else { return nil }
    let rate = leastWeight * team.pace
    level = min(level + max(now - levelAt, 0) * rate, max(1, rate * Self.ahead))
    levelAt = now
    isAsking = true
    askedWithinPart = level >= 0.999
    if askedWithinPart {
      return TurnRequest(count: min(waiting, Int(level + 0.001)), ahead: Duration(inSeconds: Self.ahead))
    }
    return TurnRequest(count: min(waiting, max(Int(team.pace * 0.01), 1)), ahead: .zero)
  }

  /// Takes the store's turns; nil if it did not reply in time.
  mutating func take(_ lease: TurnLease?, now: Double) {
    guard isAsking else { return }
    isAsking = false
    guard let lease else {
      // One reply may be lost. Turns of its own, beside the line, are for a store that does not respond.
      misses += 1
      return misses > 1 ? takeOwn(now: now) : ()
    }
    misses = 0
    let start = min(max(lease.start.inSeconds, now - Self.catchUp), now + Self.longestWait)
    if lease.count > 0 {
      left = lease.count
      next = start
      spacing = min(max(lease.spacing.inSeconds, 0.0001), 20)
      level = max(level - Double(left), -1)
      // During a pause that began meanwhile, the line begins again.
      if now < pausedUntil { drop(now: now) }
    } else {
      let wait = askedWithinPart ? start - Self.ahead : start + jitter() * 0.005
      askAt = max(wait, now + 0.001)
    }
  }

  /// Takes one turn by this replica's part of the pace.
  private mutating func takeOwn(now: Double) {
    left = 1
    spacing = 1 / pace
    next = max(lastSent + spacing, now)
  }

  /// Returns a number from 0 to 1: replicas that wait for the same turn ask one after another (xorshift: Marsaglia 2003).
  private mutating func jitter() -> Double {
    random ^= random << 13
    random ^= random >> 7
    random ^= random << 17
    return Double(random >> 11) * 0x1p-53
  }
}
