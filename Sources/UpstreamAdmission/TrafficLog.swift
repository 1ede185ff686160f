/// What this replica has sent to the upstream since its last report to the others. Bounded: the oldest entries go first.
struct TrafficLog: Sendable {
  /// The most entries for sent requests: 600. Requests of the same millisecond share one.
  static let mostSends = 600
  /// The most entries for 429s: 64. More of them in one report say nothing more about the quota.
  static let mostRefusals = 64
  /// The age at which an entry no longer counts, in seconds: 1.
  static let lifetime = 1.0

  /// The requests sent within one millisecond.
  struct Sends: Sendable {
    var time: Double
    var count: Int
    /// How many of them were sent while others waited.
    var wanted: Int
  }

  /// A 429.
  struct Refusal: Sendable {
    var sentAt: Double
    var time: Double
    var retryAfter: Double?
  }

  private(set) var sends: [Sends] = []
  private(set) var refusals: [Refusal] = []
  /// The number of responses other than 429, and the last one.
  private(set) var answers = 0
  private(set) var lastAnswer: (sentAt: Double, time: Double)?

  mutating func sent(now: Double, isWanted: Bool) {
    let wanted = isWanted ? 1 : 0
    if let last = sends.last, now - last.time < 0.001 {
      sends[sends.count - 1].count += 1
      sends[sends.count - 1].wanted += wanted
      return
    }
    if sends.count >= Self.mostSends { sends.removeFirst(Self.mostSends / 2) }
    sends.append(Sends(time: now, count: 1, wanted: wanted))
  }

  mutating func answered(sentAt: Double, now: Double) {
    answers += 1
    lastAnswer = (sentAt, now)
  }

  mutating func refused(sentAt: Double, retryAfter: Double?, now: Double) {
    guard refusals.count < Self.mostRefusals else { return }
    refusals.append(Refusal(sentAt: sentAt, time: now, retryAfter: retryAfter))
  }

  /// Forgets entries until `time`, because the others have them.
  mutating func forget(until time: Double) {
    sends.removeAll { $0.time <= time }
    refusals.removeAll { $0.time <= time }
    if let last = lastAnswer, last.time <= time { (answers, lastAnswer) = (0, nil) }
  }
}
