// The limit of one replica in a group that shares the quota.
extension ConcurrencyLimit {
  /// Follows a group from now on. What this replica has learned goes into its reports, until the group has it.
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
    // A replica that was one of several has its part already. Another one begins with one request at a time.
    team.inFlight = divisor > 1 || replicas == 1 ? adaptive.value * divisor / max(replicas, 1) : 1
    if let rate = pacing.own.rate {
      team.rate = rate * Double(divisor)
      team.pace = pacing.own.pace * Double(divisor)
      let pauseEnds = pacing.own.pauseBegan + pacing.own.pauseLength
      team.pausedUntil = Duration(inSeconds: max(pauseEnds, 0))
    }
    learnedAlone = (team.rate, hasLearnedAlone, self.now + GroupLearner.lifetime)
    pacing.group = GroupTurns(team, seed: seed, limits: pacingLimits)
    adaptive.use(part: team.inFlight)
    groupLimit = adaptive.value * max(replicas, 1)
  }

  /// Keeps a limit of its own from now on: an equal part of what the group had.
  ///
  /// - Parameter seed: A number that differs among replicas. Their first requests are spread by it.
  public mutating func leave(_ replicas: Int, seed: UInt64, now: Duration) -> [Grant] {
    begin(now: now)
    guard let group = pacing.group else { return [] }
    pacing.group = nil
    divisor = max(replicas, 1)
    adaptive.leave(group: max(groupLimit, divisor), of: divisor)
    let part = 1 / Double(divisor)
    pacing.own = RatePacer(pacingLimits.divided(by: divisor))
    refusalsBefore = refusals
    if let rate = group.team.rate {
      let spread = Double(seed >> 11) * 0x1p-53 / (rate * part)
      pacing.own.adopt(rate: rate * part, pauseEnds: max(group.pausedUntil, self.now) + spread, now: self.now)
    }
    return grants()
  }

  /// Uses what the group knows. Returns the waiters that may send now.
  ///
  /// - Parameter limit: The most requests in flight of all replicas.
  public mutating func use(_ team: TeamQuota, limit: Int, now: Duration) -> [Grant] {
    begin(now: now)
    guard pacing.group != nil else { return [] }
    pacing.group?.use(team, now: self.now)
    adaptive.use(part: team.inFlight)
    groupLimit = limit
    return grants()
  }

  /// Whether this replica follows a group.
  public var isInGroup: Bool { pacing.group != nil }

  /// Whether a 429 must be reported at once.
  public var isUrgent: Bool { pacing.group?.isUrgent ?? false }

  /// Returns what the others must know. Nil outside of a group.
  public mutating func report(now: Duration) -> QuotaReport? {
    let now = now.inSeconds
    pacing.group?.reported()
    guard let group = pacing.group else { return nil }
    var report = QuotaReport()
    for sends in group.log.sends where now - sends.time < TrafficLog.lifetime {
      report.sends.append(.init(age: now - sends.time, count: sends.count, wanted: sends.wanted))
    }
    for refusal in group.log.refusals where now - refusal.time < TrafficLog.lifetime {
      report.refusals.append(
        .init(sentAge: now - refusal.sentAt, age: now - refusal.time, retryAfter: refusal.retryAfter))
    }
    if let last = group.log.lastAnswer {
      report.answers = group.log.answers
      report.lastAnswer = (now - last.sentAt, now - last.time)
    }
    (report.inFlight, report.waiting, report.part) = (inFlight, waiting, adaptive.value)
    report.grown = adaptive.grown
    if now < learnedAlone.until {
      (report.known, report.hasLearned) = (learnedAlone.rate ?? 0, learnedAlone.isLearned)
    }
    report.demands = demands()
    return report
  }

  /// The clients with queued requests. Those with the most come first.
  private func demands() -> [QuotaReport.Demand] {
    let waiting = clients.lazy.filter { $0.value.waiting > 0 }.map { name, client in
      QuotaReport.Demand(
        client: QuotaCaller.hash(ofClient: name), waiting: client.waiting, share: client.share ?? 1)
    }
    return Array(waiting.sorted { ($0.waiting, $0.client) > ($1.waiting, $1.client) }.prefix(QuotaReport.mostClients))
  }

  /// Notes that the others have the report that was made at a time.
  public mutating func reported(at time: Duration) {
    pacing.group?.log.forget(until: time.inSeconds)
  }

  /// Returns a question for turns at the store if requests wait for them.
  public mutating func turnRequest(now: Duration) -> TurnRequest? {
    guard pacing.group != nil, !order.isEmpty else { return nil }
    let possible = min(waiting, adaptive.value - inFlight)
    return pacing.group?.request(waiting: possible, now: now.inSeconds)
  }

  /// Takes turns from the store; nil if it did not reply in time. Returns the waiters that may send now.
  public mutating func take(_ lease: TurnLease?, now: Duration) -> [Grant] {
    self.now = now.inSeconds
    pacing.group?.take(lease, now: self.now)
    begin(now: now)
    return grants()
  }
}

extension PacingLimits {
  /// The limits of one of several replicas that pace their requests independently.
  fileprivate func divided(by replicas: Int) -> PacingLimits {
    var limits = self
    let replicas = Double(max(replicas, 1))
    limits.leastRate /= replicas
    limits.firstRate /= replicas
    limits.unknownRate /= replicas
    limits.mostRate /= replicas
    return limits
  }
}
