import Bytes
import DequeModule

/// What a replica has sent and received since the store last heard of it. Bounded: the oldest entries go first.
///
/// Each entry has a number, so that the store counts it once if a reply is lost and the replica reports it again.
struct TrafficLog: Sendable {
  /// The most entries for sent requests: 200. Requests of the same 10 ms share one, so a second has 100.
  private static let mostSends = 200
  /// The most entries for 429s: 64. More of them in one report say nothing more about the quota.
  private static let mostRefusals = 64
  /// The age at which an entry no longer counts, in seconds: 1.
  private static let lifetime = 1.0
  /// The time for which requests share an entry, in seconds: 0.01, half of the store's resolution.
  private static let resolution = 0.01

  private struct Entry: Sendable {
    var serial: Int
    var time: Double
    var count = 1
    /// When the requests were sent that were answered or refused.
    var sentAt: Double
    /// How many of the sent ones were sent while others waited; for 429s the `Retry-After` in milliseconds, or -1.
    var more = 0
  }

  private var sends: Deque<Entry> = []
  private var refusals: Deque<Entry> = []
  private var answers: Deque<Entry> = []
  private var lastSerial = 0
  /// The last number that a report has had.
  private var reported = 0

  mutating func sent(now: Double, isWanted: Bool) {
    let wanted = isWanted ? 1 : 0
    if let last = sends.last, last.serial > reported, now - last.time < Self.resolution {
      sends[sends.count - 1].count += 1
      sends[sends.count - 1].more += wanted
      return
    }
    if sends.count >= Self.mostSends { sends.removeFirst(Self.mostSends / 2) }
    sends.append(Entry(serial: next(), time: now, sentAt: now, more: wanted))
  }

  mutating func answered(sentAt: Double, now: Double) {
    guard let last = answers.last, last.serial > reported else {
      if answers.count >= Self.mostRefusals { answers.removeFirst() }
      return answers.append(Entry(serial: next(), time: now, sentAt: sentAt))
    }
    answers[answers.count - 1].count += 1
    if sentAt > last.sentAt {
      answers[answers.count - 1].sentAt = sentAt
      answers[answers.count - 1].time = now
    }
  }

  mutating func refused(sentAt: Double, retryAfter: Double?, now: Double) {
    let asked = retryAfter.map { Int(min(max($0, 0), 60) * 1000) } ?? -1
    if let last = refusals.last, last.serial > reported, last.more == asked,
      abs(sentAt - last.sentAt) < Self.resolution
    {
      refusals[refusals.count - 1].count += 1
      return
    }
    guard refusals.count < Self.mostRefusals else { return }
    refusals.append(Entry(serial: next(), time: now, sentAt: sentAt, more: asked))
  }

  private mutating func next() -> Int {
    lastSerial += 1
    return lastSerial
  }

  /// Returns the entries for the store, and the number of the last one.
  mutating func report(now: Double) -> (text: [UInt8], last: Int) {
    forget(until: 0, now: now)
    reported = lastSerial
    var text: [UInt8] = []
    func add(_ kind: Character, _ entries: Deque<Entry>) {
      for entry in entries {
        let (age, sentAge) = (Self.units(now - entry.time), Self.units(now - entry.sentAt))
        text += "\(kind)\(entry.serial),\(age),\(sentAge),\(entry.more),\(entry.count);".utf8
      }
    }
    add("s", sends)
    add("a", answers)
    add("r", refusals)
    return (text, lastSerial)
  }

  /// Forgets entries until a number, because the store has them, and those that are too old.
  mutating func forget(until serial: Int, now: Double) {
    func isOver(_ entry: Entry) -> Bool { entry.serial <= serial || now - entry.time > Self.lifetime }
    sends.removeAll(where: isOver)
    answers.removeAll(where: isOver)
    refusals.removeAll(where: isOver)
  }

  /// An age in units of 100 µs.
  private static func units(_ age: Double) -> Int { Int(min(max(age, 0), 1e5) * 10_000) }
}

/// What a replica tells the store in each settlement: its requests since the last one, its demand, and what it would like.
public struct QuotaReport: Sendable, Equatable {
  /// The most clients in a report: 32. Those with the most queued requests count.
  static let mostClients = 32

  var log: [UInt8] = []
  /// The number of the last entry of the log.
  var last = 0
  var inFlight = 0
  var waiting = 0
  /// The requests in flight that the replica may have at present.
  var part = 0
  /// How often its traffic has tested the limit of requests in flight, since the start of the process.
  var grown: UInt32 = 0
  /// The team's rate as the replica knows it; 0 for none.
  var known = 0.0
  /// Whether it has learned the rate from a 429 while it was alone.
  var hasLearned = false
  /// The time in which the upstream counts, in seconds, and the limit of requests in flight of all, as the replica knows it.
  var window = 1.0
  var limit: Int
  var maximum: Int
  /// The clients with queued requests: the hash of the name, their number, and the share in ten-thousandths.
  var demand = ""
  /// The turns that the replica needs; nil for none.
  public internal(set) var turns: TurnRequest?

  init(_ limits: ConcurrencyLimits = ConcurrencyLimits()) { (limit, maximum) = (limits.initial, limits.maximum) }

  /// The arguments of ``QuotaScript``.
  ///
  /// - Parameters:
  ///   - message: Tells the other replicas that there is a 429.
  ///   - time: The store's time in seconds in a test; nil for the store's clock.
  package func arguments(of replica: [UInt8], channel: [UInt8], message: [UInt8], time: Double? = nil) -> [[UInt8]] {
    let numbers: [String] = [
      "\(known)", hasLearned ? "1" : "0", "\(window)", "\(inFlight)", "\(waiting)", "\(part)", "\(grown)", "\(limit)",
      "\(maximum)", time.map { "\($0)" } ?? "", "\(turns?.count ?? 0)", "\(turns?.ahead.inSeconds ?? 0)", demand,
    ]
    return [replica, channel, message, log] + numbers.map { Array($0.utf8) }
  }
}

/// What the store replies to a settlement. It comes from outside, so it may be anything; the values here have bounds.
public struct QuotaReply: Sendable, Equatable {
  /// What the replica has of the team's quota.
  package private(set) var team = TeamQuota()
  let lease: TurnLease

  /// The most replicas, as many as the script remembers: 1,024.
  private static let mostReplicas = 1024

  /// Reads the numbers of the reply and the parts of clients. Returns nil for anything else.
  ///
  /// - Parameter now: The time at which the store has replied, by this process's clock.
  public init?(_ numbers: [Int64], parts: [UInt8], now: Duration) {
    let limits = PacingLimits()
    guard numbers.count == 11, numbers.allSatisfy({ $0 > -100_000_000 && $0 < 1_000_000_000_000 }) else { return nil }
    func seconds(_ index: Int) -> Double { Double(numbers[index]) / 1e6 }
    lease = TurnLease(
      count: min(max(Int(numbers[0]), 0), 65_536), start: now + Duration(inSeconds: seconds(1)),
      spacing: Duration(inSeconds: max(seconds(2), 0.0001)))
    if numbers[3] > 0 {
      team.rate = min(max(seconds(3), limits.leastRate), limits.mostRate)
      // A test after many refusals is slower than any rate.
      team.pace = min(max(seconds(4), 0.05), limits.mostRate)
    }
    team.pausedUntil = now + Duration(inSeconds: min(max(seconds(5), 0), limits.mostRetryAfter.inSeconds + 1))
    team.inFlight = min(max(Int(numbers[6]), 1), 65_536)
    team.limit = min(max(Int(numbers[7]), 1), 65_536)
    team.weight = min(max(seconds(8), 0), 1)
    team.window = min(max(Double(numbers[9]), 1), limits.windows.last ?? 1)
    team.replicas = min(max(Int(numbers[10]), 1), Self.mostReplicas)
    for part in parts.split(separator: UInt8(ascii: ";")).prefix(QuotaReport.mostClients) {
      let fields = part.split(separator: UInt8(ascii: ","))
      guard fields.count == 2, let client = UInt64(String(decoding: fields[0], as: UTF8.self), radix: 16),
        let fraction = Int(String(decoding: fields[1], as: UTF8.self))
      else { continue }
      team.fractions[client] = min(max(Double(fraction) / 1e6, 0), 1)
    }
  }
}
