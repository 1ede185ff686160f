/// One replica's side of the protocol by which replicas share the quota: what it sends in each settlement, what replies
/// and messages of others mean, and what its ``ConcurrencyLimit`` is told.
///
/// One replica leads. The store gives it a short lease, which it renews in each settlement; when it has gone, the next
/// settlement of any other gets it. All replicas publish what they sent. The leader concludes the pace, and announces it.
/// A 429 is published at once, and pauses all replicas until the leader has judged it. A value without a lock and a clock.
public struct QuotaMember: Sendable {
  /// The arguments of the script that settles.
  public struct Settlement: Sendable {
    /// The message with the report; empty before the store's time is known.
    public var report: [UInt8] = []
    /// The leader's announcement; empty if nothing has changed.
    public var announcement: [UInt8] = []
    /// The number of the leader; 0 for a replica that does not lead.
    public var term: UInt32 = 0
    /// The time between two turns in microseconds; 0 without a rate.
    public var interval: Int64 = 0
    /// When the pause ends, by the store's clock in microseconds.
    public var pauseEnds: Int64 = 0
    /// How long all replicas must pause from now on because of a new 429, in microseconds; 0 for no new pause.
    public var pause: Int64 = 0
  }

  /// The reply of that script.
  public struct Reply: Sendable {
    /// The store's time in microseconds.
    public var time: Int64
    /// Whether this replica leads.
    public var leads: Bool
    /// The number of the leader.
    public var term: UInt32
    /// The last announcement.
    public var announcement: [UInt8]

    /// Creates a reply.
    public init(time: Int64, leads: Bool, term: UInt32, announcement: [UInt8]) {
      (self.time, self.leads, self.term, self.announcement) = (time, leads, term, announcement)
    }
  }

  /// What a message or a reply requires.
  public struct Effects: Sendable, Equatable {
    /// What the limit must use from now on.
    public var team: TeamQuota?
    /// Whether to settle now, before the next tenth of a second.
    public var settlesNow = false
    /// What another replica tells about its circuit.
    public var circuit: CircuitNews?
    /// That replica.
    public var replica: UInt64 = 0
  }

  private enum Kind: UInt8 {
    case report = 1
    case announcement = 2
    case circuit = 3
  }

  /// The shortest time between settlements because of 429s, in seconds: 0.02.
  private static let leastInterval = 0.02
  /// The greatest difference between clocks that a report may show, in seconds: 2.
  private static let mostSkew = 2.0

  /// The greatest difference between the store's time and what this replica expects, in seconds: 0.5. Beyond that a clock
  /// was set, or another server has taken over, and all times that are known mean nothing.
  private static let mostDrift = 0.5
  /// The latest time of a store in microseconds: in the year 2286.
  private static let latest: Int64 = 10_000_000_000_000_000

  private let id: UInt64
  private let limits: PacingLimits
  private var clock = StoreClock()
  private var learner: GroupLearner
  private var announced = QuotaAnnouncement()
  private var term: UInt32 = 0
  private var replicas = 1
  private var settledAt = -1.0
  private var hasLeft = false
  /// Whether the store has another announcement than this leader's last one, or none, as after a restart.
  private var isForgotten = false
  /// When the last pause of all replicas began that is not judged yet, by the store's clock.
  private var pauseBegan = 0.0

  /// Creates a replica that knows nothing of the others.
  public init(id: UInt64, _ concurrency: ConcurrencyLimits, pacing: PacingLimits = PacingLimits()) {
    self.id = id
    limits = pacing
    learner = GroupLearner(concurrency, pacing: pacing)
  }

  /// The most requests in flight of all replicas.
  public var limit: Int { announced.limit > 0 ? announced.limit : learner.limit }
  /// Whether this replica leads the group.
  public var isLeading: Bool { learner.isLeading }

  /// Notes that this replica keeps a limit of its own for a time, without the store.
  public mutating func left() { hasLeft = true }

  /// Takes the number of replicas.
  public mutating func changed(replicas: Int) { self.replicas = max(replicas, 1) }

  // MARK: Settlement

  /// Returns what to settle.
  public mutating func settlement(_ report: QuotaReport, now: Duration) -> Settlement {
    let now = now.inSeconds
    settledAt = now
    var settlement = Settlement()
    guard let time = clock.storeTime(at: now) else { return settlement }
    var writer = WireWriter()
    writer.append(Kind.report.rawValue)
    writer.append(id)
    writer.append(time)
    settlement.report = writer.bytes + report.bytes
    learner.take(report, of: id, at: time, now: time)
    learner.replay(now: time)
    if let end = unjudgedPause, learner.lastRefusal.time > pauseBegan, end > time {
      pauseBegan = learner.lastRefusal.time
      settlement.pause = Self.microseconds(end - time)
    }
    announce(in: &settlement, at: time)
    return settlement
  }

  private mutating func announce(in settlement: inout Settlement, at time: Double) {
    guard learner.isLeading else { return }
    var new = learner.announcement(own: id, now: time)
    let judges = announced.judgedUntil < learner.lastRefusal.time && learner.lastRefusal.time <= new.judgedUntil
    guard judges || isForgotten || !new.says(whatSays: announced) || announced.term != term else { return }
    (new.term, new.number) = (term, announced.term == term ? announced.number &+ 1 : 0)
    announced = new
    settlement.term = term
    settlement.announcement = [Kind.announcement.rawValue] + new.bytes
    settlement.interval = new.rate > 0 ? Self.microseconds(1 / new.pace) : 0
    settlement.pauseEnds = Self.microseconds(new.pauseEnds)
  }

  private static func microseconds(_ seconds: Double) -> Int64 { Int64(min(max(seconds, 0), 1e12) * 1e6) }

  /// When the pause ends that follows a 429 which the leader has not judged. Nil without one.
  private var unjudgedPause: Double? {
    let last = learner.lastRefusal
    guard last.time > announced.judgedUntil else { return nil }
    let isNew = last.sentAt > announced.pauseBegan
    let pause = isNew ? last.time + GroupTurns.provisionalPause(rate: announced.rate > 0 ? announced.rate : nil) : 0
    return max(pause, min(last.askedUntil, last.time + limits.mostRetryAfter.inSeconds))
  }

  /// Takes the reply of a settlement.
  public mutating func settled(_ reply: Reply, sentAt: Duration, now: Duration) -> Effects {
    let now = now.inSeconds
    guard (0..<Self.latest).contains(reply.time) else { return Effects() }
    let time = Double(reply.time) / 1e6
    if let expected = clock.storeTime(at: now), abs(time - expected) > Self.mostDrift { hasLeft = true }
    clock.note(time, sentAt: sentAt.inSeconds, now: now)
    if hasLeft {
      hasLeft = false
      learner.restart(now: time)
      pauseBegan = 0
      (announced.judgedUntil, announced.pauseBegan, announced.pauseEnds) = (time, 0, 0)
    }
    // What is from the future was announced before the clock was set.
    let stored = QuotaAnnouncement(reply.announcement.dropFirst(), limits: limits).flatMap {
      $0.judgedUntil <= time + Self.mostSkew ? $0 : nil
    }
    term = reply.term
    if reply.leads, !learner.isLeading {
      learner.lead(after: stored ?? announced)
    } else if !reply.leads {
      learner.follow()
    }
    isForgotten = learner.isLeading && stored?.bytes != announced.bytes
    // The store has the last word: a message is only faster, and may be a lie.
    if let stored, !learner.isLeading { announced = stored }
    return effects
  }

  private mutating func accept(_ new: QuotaAnnouncement) {
    guard (new.term, new.number) > (announced.term, announced.number) || announced.limit == 0 else { return }
    announced = new
  }

  // MARK: Messages

  /// Takes a message of another replica.
  public mutating func received(_ payload: ArraySlice<UInt8>, now: Duration) -> Effects {
    let now = now.inSeconds
    switch payload.first.flatMap({ Kind(rawValue: $0) }) {
    case .report: return received(report: payload.dropFirst(), now: now)
    case .announcement:
      guard !learner.isLeading, let new = QuotaAnnouncement(payload.dropFirst(), limits: limits) else {
        return Effects()
      }
      accept(new)
      return effects
    case .circuit:
      var news = Effects()
      var reader = WireReader(payload.dropFirst().prefix(8))
      guard let replica = reader.number(UInt64.self), let circuit = CircuitNews(payload.dropFirst(9)) else {
        return news
      }
      (news.circuit, news.replica) = (circuit, replica)
      return news
    case nil: return Effects()
    }
  }

  private mutating func received(report payload: ArraySlice<UInt8>, now: Double) -> Effects {
    var reader = WireReader(payload.prefix(16))
    guard let id = reader.number(UInt64.self), id != self.id, let time = reader.double(),
      let report = QuotaReport(payload.dropFirst(16)), let present = clock.storeTime(at: now),
      abs(time - present) < Self.mostSkew
    else { return Effects() }
    let before = learner.lastRefusal.time
    learner.take(report, of: id, at: time, now: present)
    var news = Effects()
    if learner.lastRefusal.time > before, unjudgedPause != nil {
      pauseBegan = learner.lastRefusal.time
      news = effects
      news.settlesNow = now - settledAt >= Self.leastInterval
    }
    if learner.isLeading, learner.lastRefusal.time > announced.judgedUntil, learner.canJudge { news.settlesNow = true }
    return news
  }

  /// Returns the message about a replica's circuit.
  public static func message(_ news: CircuitNews, of replica: UInt64) -> [UInt8] {
    var writer = WireWriter()
    writer.append(Kind.circuit.rawValue)
    writer.append(replica)
    return writer.bytes + news.bytes
  }

  private var effects: Effects {
    var effects = Effects()
    effects.team = team
    return effects
  }

  // MARK: The team

  /// What the limit of this replica must use. Nil before the group has announced anything.
  public var team: TeamQuota? {
    guard announced.limit > 0 else { return nil }
    var team = TeamQuota()
    team.replicas = replicas
    team.inFlight = max(announced.parts.first { $0.replica == id }?.inFlight ?? 1, 1)
    (team.weight, team.fractions) = learner.weight(of: id)
    if announced.rate > 0 { (team.rate, team.pace) = (announced.rate, announced.pace) }
    let pause = max(announced.judgedUntil >= learner.lastRefusal.time ? 0 : unjudgedPause ?? 0, announced.pauseEnds)
    team.pausedUntil = clock.localTime(at: pause).map { Duration(inSeconds: max($0, 0)) } ?? .zero
    return team
  }

  /// Returns the turns that the store has given, by this process's clock.
  ///
  /// - Parameters:
  ///   - start: The first turn, by the store's clock in microseconds.
  ///   - interval: The time between two turns in microseconds.
  public func lease(count: Int64, start: Int64, interval: Int64) -> TurnLease? {
    guard (0...65_536).contains(count), interval > 0, let start = clock.localTime(at: Double(start) / 1e6) else {
      return nil
    }
    return TurnLease(
      count: Int(count), start: Duration(inSeconds: start), spacing: Duration(inSeconds: Double(interval) / 1e6))
  }
}

extension QuotaAnnouncement {
  /// Whether another announcement says the same.
  fileprivate func says(whatSays other: QuotaAnnouncement) -> Bool {
    var other = other
    (other.term, other.number, other.judgedUntil) = (term, number, judgedUntil)
    return self == other
  }
}
