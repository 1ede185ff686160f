import Bytes

/// What sets the pace of this replica's requests: what it has learned itself, or what its group has.
struct Pacing: Sendable {
  var own: RatePacer
  var group: GroupTurns?

  func isActive(now: Double) -> Bool { group?.isActive(now: now) ?? (own.rate != nil) }

  /// The learned rate, or that of a probe which exceeds it and has not been refused. Of the whole team in a group.
  var rate: Double? {
    guard let group else { return own.rate.map { max($0, own.pace) } }
    return group.team.rate.map { max($0, group.team.pace) }
  }

  var pace: Double { group?.pace ?? own.pace }

  /// The pace for the estimate of a wait: also while one request at a time tests whether the upstream accepts again.
  var expectedPace: Double { group?.expectedPace ?? own.pace }

  /// Returns the pace from which a client has its share.
  func pace(ofClient name: String) -> Double { group?.pace(ofClient: QuotaCaller.hash(ofClient: name)) ?? own.pace }

  /// When the next request may be sent. Nil while turns are asked for.
  var opening: Double? { group == nil ? own.opening : group?.opening }

  var opensWithTurn: Bool { group?.opensWithTurn ?? true }

  func mayPass(now: Double) -> Bool { group?.mayPass(now: now) ?? (own.rate == nil || now >= own.opening) }

  func isPaused(now: Double) -> Bool { group.map { now < $0.pausedUntil } ?? own.isPaused(now: now) }

  mutating func sent(now: Double, isWanted: Bool) {
    if group == nil { own.sent(now: now, isWanted: isWanted) } else { group?.sent(now: now, isWanted: isWanted) }
  }

  mutating func answered(sentAt: Double, now: Double) {
    if group == nil {
      own.answered(sentAt: sentAt, now: now)
    } else {
      group?.log.answered(sentAt: sentAt, now: now)
    }
  }

  mutating func refused(sentAt: Double, retryAfter: Double?, now: Double) {
    if group == nil {
      own.refused(sentAt: sentAt, retryAfter: retryAfter, now: now)
    } else {
      group?.refused(sentAt: sentAt, retryAfter: retryAfter, now: now)
    }
  }
}

extension QuotaCaller {
  /// Returns the number that stands for a client among replicas (FNV-1a). Two clients with one number would share their
  /// part of the quota.
  static func hash(ofClient name: String) -> UInt64 {
    UInt64(fnv1a: name.utf8)
  }
}
