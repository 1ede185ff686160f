/// What a group of replicas has sent, and what its leader concludes: the team's rate and pace, pauses, and each replica's
/// part of the requests in flight.
///
/// Every replica replays what all have reported, in the order of time, so that any of them can lead. Only the leader draws
/// conclusions, by a ``RatePacer``. Times are seconds of the store's clock.
struct GroupLearner: Sendable {
  /// The most replicas that are known: 1,024, as many as an announcement has parts for.
  private static let mostMembers = QuotaAnnouncement.mostParts
  /// The most requests that wait for the reports of others: 16,384, three seconds of the highest rate. A store that
  /// makes up reports must not make a replica replay more.
  private static let mostRequests = 16_384
  /// A replica without a report for this long does not count, in seconds: 1.
  static let lifetime = 1.0
  /// The longest time to wait for the reports of others, in seconds: 0.25, two settlements.
  private static let patience = 0.25

  fileprivate struct Member: Sendable {
    var reportedUntil: Double
    var heard: Double
    var report = QuotaReport()
    /// The requests in flight that it may have by the last announcement, and the most that it may use at present: a part
    /// that was lowered counts until it reports the lower one.
    var announced = 0
    var granted = 0
  }

  private struct Event: Sendable {
    enum Kind: Sendable {
      case sent(count: Int, wanted: Int)
      case answered(sentAt: Double, count: Int)
      case refused(sentAt: Double, retryAfter: Double?)
    }
    var time: Double
    var kind: Kind

    var requests: Int {
      switch kind {
      case .sent(let count, _), .answered(_, let count): count
      case .refused: 1
      }
    }
  }

  private let limits: PacingLimits
  private let concurrency: ConcurrencyLimits
  private var members: [UInt64: Member] = [:]
  private var events: [Event] = []
  /// The requests of all events.
  private var requests = 0
  private(set) var pacer: RatePacer
  private(set) var limit: Int
  private(set) var isLeading = false
  /// The time until which events have been replayed.
  private(set) var judgedUntil = 0.0
  /// When the last reported 429 arrived, when its request was sent, and until when a 429 has asked to wait.
  private(set) var lastRefusal = (time: 0.0, sentAt: 0.0, askedUntil: 0.0)

  init(_ concurrency: ConcurrencyLimits, pacing: PacingLimits = PacingLimits()) {
    self.concurrency = concurrency
    limits = pacing
    pacer = RatePacer(pacing)
    limit = max(min(concurrency.initial, concurrency.maximum), 1)
  }

  // MARK: Reports

  /// Takes a report that a replica made at a time of the store's clock.
  mutating func take(_ report: QuotaReport, of id: UInt64, at time: Double, now: Double) {
    let isKnown = members[id] != nil
    guard isKnown || members.count < Self.mostMembers else { return }
    var member = members[id] ?? Member(reportedUntil: 0, heard: now)
    // A clock that went back begins again.
    let since = time > member.reportedUntil - Self.lifetime ? member.reportedUntil : 0
    add(report, at: time, since: since)
    if isLeading, isKnown, report.grown > member.report.grown, isLimitInUse {
      limit = min(limit + Int(min(report.grown - member.report.grown, 400)), concurrency.maximum)
    }
    member.reportedUntil = max(time, since)
    member.heard = now
    member.report = report
    member.report.sends = []
    if !isKnown { member.announced = report.part }
    member.granted = max(report.part, member.announced, 1)
    members[id] = member
    if isLeading { learn(known: report) }
  }

  private var isLimitInUse: Bool {
    members.values.reduce(0) { $0 + $1.report.inFlight } >= limit / 2
  }

  private mutating func add(_ report: QuotaReport, at time: Double, since: Double) {
    for sends in report.sends {
      add(Event(time: time - sends.age, kind: .sent(count: sends.count, wanted: sends.wanted)), since: since)
    }
    if report.answers > 0 {
      let answered = Event.Kind.answered(
        sentAt: time - report.lastAnswer.sentAge, count: min(report.answers, 16))
      add(Event(time: time - report.lastAnswer.age, kind: answered), since: since)
    }
    for refusal in report.refusals {
      let at = time - refusal.age
      guard at > since else { continue }
      let sentAt = time - refusal.sentAge
      add(Event(time: at, kind: .refused(sentAt: sentAt, retryAfter: refusal.retryAfter)), since: since)
      let askedUntil = max(refusal.retryAfter.map { at + $0 } ?? 0, lastRefusal.askedUntil)
      lastRefusal =
        at > lastRefusal.time ? (at, sentAt, askedUntil) : (lastRefusal.time, lastRefusal.sentAt, askedUntil)
    }
  }

  private mutating func add(_ event: Event, since: Double) {
    guard event.time > since, requests + event.requests <= Self.mostRequests else { return }
    requests += event.requests
    events.append(event)
  }

  /// Adopts what a replica has learned while it was alone, if that is more cautious.
  private mutating func learn(known report: QuotaReport) {
    guard report.known > 0 else { return }
    if let rate = pacer.rate, !report.hasLearned || report.known >= rate { return }
    pacer.adopt(rate: report.known, pauseEnds: 0, now: judgedUntil)
  }

  /// Whether all replicas have reported what happened until the last 429.
  var canJudge: Bool { members.values.allSatisfy { $0.reportedUntil >= lastRefusal.time } }

  // MARK: Replay

  /// Replays what the replicas have reported, up to the time from which all reports are there.
  mutating func replay(now: Double) {
    members = members.filter { now - $0.value.heard <= Self.lifetime }
    let complete = members.values.reduce(now) { min($0, $1.reportedUntil) }
    let end = max(complete, now - Self.patience)
    events.sort { $0.time < $1.time }
    let count = events.firstIndex { $0.time > end } ?? events.count
    for event in events[..<count] {
      requests -= event.requests
      if isLeading { judge(event) } else { note(event) }
    }
    events.removeFirst(count)
    judgedUntil = max(judgedUntil, end)
  }

  private mutating func judge(_ event: Event) {
    switch event.kind {
    case .sent(let count, let wanted):
      for index in 0..<count { pacer.sent(now: event.time, isWanted: index < wanted) }
    case .answered(let sentAt, let count):
      for _ in 0..<count { pacer.answered(sentAt: sentAt, now: event.time) }
    case .refused(let sentAt, let retryAfter):
      pacer.refused(sentAt: sentAt, retryAfter: retryAfter, now: event.time)
    }
  }

  private mutating func note(_ event: Event) {
    switch event.kind {
    case .sent(let count, _): for _ in 0..<count { pacer.history.record(at: event.time) }
    case .answered: break
    case .refused(let sentAt, _): pacer.history.refuse(sentAt: sentAt)
    }
  }

  // MARK: Leading

  /// Leads from now on, with what the last leader has announced.
  mutating func lead(after last: QuotaAnnouncement?) {
    isLeading = true
    if let last, last.rate > 0 {
      pacer.adopt(rate: last.rate, pauseEnds: last.pauseEnds, now: judgedUntil)
    } else {
      pacer.disown()
    }
    if let last, last.limit > 0 { limit = min(last.limit, concurrency.maximum) }
    for part in last?.parts ?? [] { members[part.replica]?.announced = part.inFlight }
    for member in members.values { learn(known: member.report) }
  }

  mutating func follow() { isLeading = false }

  /// Begins again after a time without the store, in which the others have sent what no report tells.
  mutating func restart(now: Double) {
    let rate = pacer.rate
    (members, events, requests, pacer) = ([:], [], 0, RatePacer(limits))
    judgedUntil = now
    lastRefusal = (0, 0, 0)
    if let rate { pacer.adopt(rate: rate, pauseEnds: 0, now: now) }
  }

  /// Returns what the leader announces.
  mutating func announcement(own: UInt64, now: Double) -> QuotaAnnouncement {
    var announcement = QuotaAnnouncement()
    announcement.judgedUntil = judgedUntil
    announcement.limit = limit
    announcement.parts = divide()
    guard let rate = pacer.rate else { return announcement }
    announcement.rate = rate
    announcement.pace = pacer.isTesting ? min(pacer.pace, 1 / max(4 * pacer.latency, 0.5)) : pacer.pace
    announcement.pauseBegan = max(pacer.pauseBegan, 0)
    announcement.pauseEnds = max(pacer.pauseBegan + pacer.pauseLength, 0)
    return announcement
  }

  /// Divides the limit of requests in flight: half of it equally, so that a replica whose callers come back need not wait
  /// for a settlement, and the rest by demand; at least one for each replica. A part grows only by what no other replica
  /// has: another's part that has been lowered counts until it is in use no more.
  private mutating func divide() -> [QuotaAnnouncement.Part] {
    let ids = members.keys.sorted().prefix(QuotaAnnouncement.mostParts)
    let demand = ids.reduce(0) { $0 + (members[$1]?.demand ?? 0) }
    let least = max(limit / (2 * max(ids.count, 1)), 1)
    let spare = max(limit - ids.count * least, 0)
    var free = limit - members.values.reduce(0) { $0 + $1.held }
    var parts: [QuotaAnnouncement.Part] = []
    for id in ids {
      guard var member = members[id] else { continue }
      let wanted = least + (demand > 0 ? spare * member.demand / demand : spare / ids.count)
      let held = member.held
      let part = wanted <= held ? wanted : max(min(wanted, held + max(free, 0)), 1)
      if part > held { free -= part - held }
      (member.announced, member.granted) = (part, max(part, member.granted))
      members[id] = member
      parts.append(.init(replica: id, inFlight: part))
    }
    return parts
  }

  // MARK: Demand

  /// Returns a replica's part of the turns, and of the turns of each client that waits there.
  ///
  /// Clients that wait share the turns equally, each up to its share. A client's turns go to the replicas where its requests
  /// wait.
  func weight(of id: UInt64) -> (weight: Double, fractions: [UInt64: Double]) {
    var clients: [UInt64: (waiting: Int, share: Double)] = [:]
    for demand in members.values.lazy.flatMap(\.report.demands) where demand.waiting > 0 {
      clients[demand.client, default: (0, demand.share)].waiting += demand.waiting
    }
    guard !clients.isEmpty else { return (1 / Double(max(members.count, 1)), [:]) }
    let parts = Self.divide(clients.mapValues(\.share))
    var weight = 0.0
    var fractions: [UInt64: Double] = [:]
    for demand in members[id]?.report.demands ?? [] where demand.waiting > 0 {
      guard let all = clients[demand.client]?.waiting, let part = parts[demand.client] else { continue }
      let fraction = Double(demand.waiting) / Double(all)
      fractions[demand.client] = fraction
      weight += part * fraction
    }
    return (min(weight, 1), fractions)
  }

  /// Divides one equally, each part up to its bound.
  private static func divide(_ bounds: [UInt64: Double]) -> [UInt64: Double] {
    var rest = 1.0
    var parts: [UInt64: Double] = [:]
    var left = bounds.count
    for (id, bound) in bounds.sorted(by: { $0.value < $1.value }) {
      let part = min(bound, rest / Double(left))
      parts[id] = part
      rest -= part
      left -= 1
    }
    return parts
  }
}

extension GroupLearner.Member {
  fileprivate var demand: Int { report.inFlight + report.waiting }
  /// The requests in flight that no other replica may have.
  fileprivate var held: Int { max(granted, report.inFlight) }
}
