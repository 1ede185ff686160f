import Bytes
import TestSupport
import Testing

@testable import UpstreamAdmission

@Suite("The messages of replicas about the quota")
struct QuotaMessageTests {
  private var report: QuotaReport {
    var report = QuotaReport()
    report.sends = [.init(age: 0.1, count: 3, wanted: 2), .init(age: 0.05, count: 1, wanted: 0)]
    report.refusals = [
      .init(sentAge: 0.2, age: 0.1, retryAfter: 2), .init(sentAge: 12, age: 0, retryAfter: nil),
    ]
    (report.answers, report.lastAnswer) = (4, (0.3, 0.2))
    (report.inFlight, report.waiting, report.part, report.grown) = (5, 6, 7, 8)
    (report.known, report.hasLearned) = (20.5, true)
    report.demands = [.init(client: .max, waiting: 6, share: 0.25)]
    return report
  }

  private var announcement: QuotaAnnouncement {
    var announcement = QuotaAnnouncement()
    (announcement.term, announcement.number) = (3, 4)
    (announcement.judgedUntil, announcement.rate, announcement.pace) = (1.7e9, 20, 19.4)
    (announcement.pauseBegan, announcement.pauseEnds, announcement.limit) = (1.7e9, 1.7e9 + 2, 200)
    announcement.parts = [.init(replica: 1, inFlight: 100), .init(replica: .max, inFlight: 99)]
    return announcement
  }

  @Test("mean the same after a way over the wire")
  func roundTrip() {
    #expect(QuotaReport(report.bytes[...]) == report)
    #expect(QuotaAnnouncement(announcement.bytes[...]) == announcement)
    for news in [CircuitNews.closed, .open(pause: .milliseconds(1500))] {
      #expect(CircuitNews(news.bytes[...]) == news)
    }
  }

  @Test("are refused if a byte is missing or one is too many")
  func length() {
    for (bytes, parses) in [
      (report.bytes, { QuotaReport($0) != nil }), (announcement.bytes, { QuotaAnnouncement($0) != nil }),
      (CircuitNews.closed.bytes, { CircuitNews($0) != nil }),
    ] as [([UInt8], (ArraySlice<UInt8>) -> Bool)] {
      for count in 0..<bytes.count { #expect(!parses(bytes[..<count])) }
      #expect(!parses((bytes + [0])[...]))
    }
  }

  @Test("have values within bounds, whatever they say")
  func bounds() {
    var wild = announcement
    (wild.rate, wild.pace, wild.pauseEnds, wild.limit) = (1e12, 1e12, 1e12, 65_535)
    let read = QuotaAnnouncement(wild.bytes[...])
    #expect(read?.rate == PacingLimits().mostRate)
    #expect(read?.pauseEnds ?? .infinity <= 1.7e9 + 61)
    wild.rate = .nan
    #expect(QuotaAnnouncement(wild.bytes[...]) == nil)
    var many = QuotaReport()
    many.sends = (0..<600).map { .init(age: Double($0) / 1000, count: 255, wanted: 255) }
    #expect(QuotaReport(many.bytes[...])?.sends.reduce(0) { $0 + $1.count } == QuotaReport.mostSent)
  }

  @Test("of a store that makes up everything cannot stop a replica, or make it send faster than it may")
  func hostile() {
    var random = SplitMix(seed: 7)
    var limit = ConcurrencyLimit<Int>()
    var member = QuotaMember(id: 1, ConcurrencyLimits())
    limit.join(3, seed: 1, now: .seconds(1))
    var now = 1.0
    for _ in 0..<3000 {
      now += 0.01
      let time = Duration(inSeconds: now)
      var bytes = [announcement.bytes, report.bytes][Int(random.next() % 2)]
      for _ in 0..<random.next() % 4 {
        bytes[Int(random.next() % UInt64(bytes.count))] = UInt8(truncatingIfNeeded: random.next())
      }
      let reply = QuotaMember.Reply(
        time: Int64(bitPattern: random.next() >> (random.next() % 64)), leads: random.next() % 2 == 0,
        term: UInt32(truncatingIfNeeded: random.next()), announcement: [2] + bytes)
      _ = member.settlement(limit.report(now: time) ?? QuotaReport(), now: time)
      var effects = [member.settled(reply, sentAt: time, now: time)]
      let kind = UInt8(random.next() % 4)
      effects.append(
        member.received([kind] + (0..<16).map { _ in UInt8(truncatingIfNeeded: random.next()) } + bytes, now: time))
      for team in effects.compactMap(\.team) { _ = limit.use(team, limit: member.limit, now: time) }
      let turns = member.lease(
        count: Int64(bitPattern: random.next()), start: Int64(bitPattern: random.next()),
        interval: Int64(bitPattern: random.next()))
      _ = limit.take(turns, now: time)
      #expect((1...ConcurrencyLimits().maximum).contains(limit.limit))
    }
    // A minute later at the latest it sends again.
    let caller = QuotaCaller(client: "a", rateLimitPrefix: "caller")
    var granted = false
    for step in 0..<7000 where !granted {
      let time = Duration(inSeconds: now + Double(step) * 0.01)
      if case .granted = limit.acquire(.init(caller), waiter: 0, now: time) { granted = true }
      if !limit.advance(now: time).isEmpty { granted = true }
      if limit.turnRequest(now: time) != nil, !limit.take(nil, now: time).isEmpty { granted = true }
    }
    #expect(granted)
  }
}
