@testable import UpstreamAdmission

/// What the scripts of the shared quota do at the store (`SharedQuota`), with the store's time as an argument.
struct SimulatedStore {
  private var leader: UInt64?
  private var leads = 0.0
  private var term: UInt32 = 0
  private var announcement: [UInt8] = []
  private var interval: Double = 0
  private var pause = 0.0
  private var line = 0.0
  private var members: [UInt64: Double] = [:]
  /// The turns given, for tests.
  private(set) var turns = 0

  /// Settles, and returns the reply, the messages for all, and the number of replicas.
  mutating func settle(
    _ settlement: QuotaMember.Settlement, of id: UInt64, now: Double
  ) -> (reply: QuotaMember.Reply, messages: [[UInt8]], replicas: Int) {
    members[id] = now
    members = members.filter { now - $0.value <= 1 }
    var messages: [[UInt8]] = []
    if leader != id, !(leads >= now && leads <= now + 0.5) {
      leader = id
      term += 1
    }
    if pause > now + 61 { pause = 0 }
    if !settlement.report.isEmpty { messages.append(settlement.report) }
    if leader == id {
      leads = now + 0.5
      if !settlement.announcement.isEmpty, settlement.term == term {
        announcement = settlement.announcement
        interval = Double(settlement.interval) / 1e6
        let end = Double(settlement.pauseEnds) / 1e6
        if pause > now || end > now { line = max(end, now) }
        pause = end
        messages.append(announcement)
      }
    }
    if settlement.pause > 0 {
      let end = now + Double(settlement.pause) / 1e6
      if end > pause { (pause, line) = (end, end) }
    }
    let reply = QuotaMember.Reply(
      time: Int64(now * 1e6), leads: leader == id, term: term, announcement: announcement)
    return (reply, messages, members.count)
  }

  /// Gives turns. The values are microseconds.
  mutating func lease(_ request: TurnRequest, now: Double) -> (count: Int64, start: Int64, interval: Int64)? {
    guard interval > 0 else { return nil }
    if pause > now + 61 { pause = 0 }
    line = min(line, max(pause, now + 0.1 + interval))
    let start = max(line, now - 0.025, pause)
    line = start
    let end = now + request.ahead.inSeconds
    guard line <= end else { return (0, Int64(start * 1e6), Int64(interval * 1e6)) }
    let count = min(request.count, Int((end - line) / interval) + 1)
    line += Double(count) * interval
    turns += count
    return (Int64(count), Int64(start * 1e6), Int64(interval * 1e6))
  }
}
