// The limit of one replica in a group that shares the quota.
extension ConcurrencyLimit {
  /// Follows a group from now on, as soon as the store has replied to the first report.
  ///
  /// - Parameters:
  ///   - replicas: The number of replicas, this one included.
  ///   - seed: A number that differs among replicas.
  public mutating func join(_ replicas: Int, seed: UInt64, now: Duration) {
    self.now = now.inSeconds
    guard pacing.group == nil else { return }
    var team = TeamQuota()
    team.replicas = max(replicas, 1)
    team.weight = 1 / Double(team.replicas)
    // A replica that was one of several has its part already. Another begins with one request at a time.
    team.inFlight = divisor > 1 || replicas == 1 ? adaptive.value * divisor / max(replicas, 1) : 1
    if let rate = pacing.own.rate {
      team.rate = rate * Double(divisor)
      team.pace = pacing.own.pace * Double(divisor)
      let pauseEnds = pacing.own.pauseBegan + pacing.own.pauseLength
      team.pausedUntil = Duration(inSeconds: max(pauseEnds, 0))
    }
    pacing.group = GroupTurns(team, seed: seed)
    adaptive.use(part: team.inFlight)
    groupLimit = adaptive.value * max(replicas, 1)
  }

  /// Keeps a limit of its own from now on: an equal part of what the group had.
  ///
  /// - Parameter seed: A number that differs among replicas. Their first requests are spread by it.
  public mutating func leave(seed: UInt64, now: Duration) -> [Grant] {
    begin(now: now)
    guard let group = pacing.group else { return [] }
    pacing.group = nil
    divisor = group.team.replicas
    adaptive.leave(group: max(groupLimit, divisor), of: divisor)
    let part = 1 / Double(divisor)
    pacing.own = RatePacer(PacingLimits(replicas: Double(divisor)))
    pacing.own.window = group.team.window
    hasLearned = false
    // After a first 429, the store may not have learned a rate yet. The pause holds even so.
    if let rate = group.team.rate ?? (group.pausedUntil > self.now ? PacingLimits().unknownRate : nil) {
      let spread = Double(seed >> 11) * 0x1p-53 / (rate * part)
      pacing.own.adopt(rate: rate * part, pauseEnds: max(group.pausedUntil, self.now) + spread, now: self.now)
    }
    return grants()
  }

  /// Uses the store's reply to a report, and the turns in it. Returns the waiters that may send now.
  public mutating func use(_ reply: QuotaReply, to report: QuotaReport, now: Duration) -> [Grant] {
    self.now = now.inSeconds
    guard pacing.group != nil else { return [] }
    pacing.group?.log.forget(until: report.last, now: self.now)
    pacing.group?.use(reply.team, now: self.now)
    if report.turns != nil { pacing.group?.take(reply.lease, now: self.now) }
    adaptive.use(part: reply.team.inFlight)
    groupLimit = reply.team.limit
    begin(now: now)
    return grants()
  }

  /// Notes that the store did not give the turns in time. Returns the waiters that may send now.
  public mutating func missTurns(now: Duration) -> [Grant] {
    begin(now: now)
    pacing.group?.take(nil, now: self.now)
    return grants()
  }

  /// Pauses because another replica has met a 429.
  public mutating func pauseForRefusal(now: Duration) {
    self.now = now.inSeconds
    pacing.group?.pauseForRefusal(now: self.now)
  }

  /// Whether the store must be told or asked now.
  public mutating func needsStore(now: Duration) -> Bool {
    guard let group = pacing.group else { return false }
    return group.isUrgent || !order.isEmpty && inFlight < adaptive.value && group.wantsTurns(now: now.inSeconds)
  }

  /// Returns what the store must know, with the turns that are needed.
  public mutating func report(now time: Duration) -> QuotaReport {
    let now = time.inSeconds
    var report = QuotaReport(limits)
    (report.inFlight, report.waiting, report.grown) = (inFlight, waiting, adaptive.grown)
    report.demand = demand()
    guard let (log, last) = pacing.group?.report(now: now), let team = pacing.group?.team else {
      // What this replica has learned alone.
      (report.known, report.window) = ((pacing.own.rate ?? 0) * Double(divisor), pacing.own.window)
      report.hasLearned = hasLearned
      return report
    }
    (report.log, report.last, report.part) = (log, last, adaptive.value)
    (report.known, report.window, report.limit) = (team.rate ?? 0, team.window, max(groupLimit, 1))
    let possible = order.isEmpty ? 0 : min(waiting, adaptive.value - inFlight)
    report.turns = pacing.group?.request(waiting: possible, now: now)
    return report
  }

  /// The clients with queued requests. Those with the most come first.
  private func demand() -> String {
    let waiting = clients.filter { $0.waiting > 0 }.map { ($0.waiting, name: $0.name.teamNumber, share: $0.share ?? 1) }
    let most = waiting.sorted { ($0.0, $0.name) > ($1.0, $1.name) }.prefix(QuotaReport.mostClients)
    return most.map { "\(String($1, radix: 16)),\($0),\(Int(min(max($2, 0), 1) * 10_000));" }.joined()
  }
}
