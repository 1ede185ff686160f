import Bytes
import TestSupport
import Testing

@testable import UpstreamAdmission

@Suite("What the store says about the quota")
struct QuotaReplyTests {
  private static let usual: [Int64] = [2, 5000, 50_000, 20_000_000, 19_400_000, 0, 67, 200, 333_333, 1, 3]

  @Test("is refused if a number is missing or one is too many, and has bounds")
  func bounds() {
    #expect(QuotaReply(Self.usual, parts: [], now: .zero) != nil)
    #expect(QuotaReply(Self.usual.dropLast(), parts: [], now: .zero) == nil)
    #expect(QuotaReply(Self.usual + [1], parts: [], now: .zero) == nil)
    let most = [Int64](repeating: 999_999_999_999, count: 11)
    let wild = QuotaReply(most, parts: Array("x;ff,2000000;,".utf8), now: .zero)
    #expect(wild?.team.rate == PacingLimits().mostRate)
    #expect(wild?.team.pausedUntil ?? .seconds(999) <= .seconds(61))
    #expect(wild?.team.weight == 1 && wild?.team.window == 60 && wild?.team.replicas == 1024)
    #expect(wild?.team.fractions == [255: 1])
    #expect(QuotaReply([Int64](repeating: .min, count: 11), parts: [], now: .zero) == nil)
  }

  @Test("cannot stop a replica, or make it send faster than it may, if the store makes up everything")
  func hostile() {
    var random = SplitMix(seed: 7)
    var limit = ConcurrencyLimit<Int>()
    limit.join(3, seed: 1, now: .seconds(1))
    var now = 1.0
    for _ in 0..<3000 {
      now += 0.01
      let time = Duration(inSeconds: now)
      var numbers = Self.usual
      for _ in 0..<random.next() % 4 {
        numbers[Int(random.next() % 11)] = Int64(bitPattern: random.next() >> (random.next() % 64))
      }
      let parts = (0..<20).map { _ in UInt8(truncatingIfNeeded: random.next()) }
      let report = limit.report(now: time)
      if let reply = QuotaReply(numbers, parts: parts, now: time) {
        _ = limit.use(reply, to: report, now: time)
      }
      if random.next() % 2 == 0 { limit.pauseForRefusal(now: time) }
      #expect((1...ConcurrencyLimits().maximum).contains(limit.limit))
    }
    // A minute later at the latest it sends again.
    let caller = QuotaCaller(client: "a", identity: "caller")
    var granted = false
    for step in 0..<7000 where !granted {
      let time = Duration(inSeconds: now + Double(step) * 0.01)
      if case .granted = limit.acquire(.init(caller), waiter: 0, now: time) { granted = true }
      if !limit.advance(now: time).isEmpty { granted = true }
      if limit.report(now: time).turns != nil, !limit.missTurns(now: time).isEmpty { granted = true }
    }
    #expect(granted)
  }

  @Test("means the same for the circuit after a way over the wire")
  func circuit() {
    for news in [CircuitNews.closed, .open(pause: .milliseconds(1500))] {
      #expect(CircuitNews(news.bytes[...]) == news)
      #expect(CircuitNews(news.bytes.dropLast()) == nil && CircuitNews((news.bytes + [0])[...]) == nil)
    }
  }

  @Test("begins again if the state is what another program has written", .otherPrograms)
  func state() throws {
    let store = try QuotaStore()
    var report = QuotaReport()
    report.known = 20
    for command in [
      ["SET", QuotaStore.key, "x"], ["RPUSH", QuotaStore.key, "x"], ["HSET", QuotaStore.key, "rate", "nan"],
      ["SET", QuotaStore.key, "\u{81}"],
    ] + Self.changes {
      try store.empty()
      _ = try store.settle(report, of: 1, now: 1.7e9)
      if command[0] != "EVAL" { try store.run(["DEL", QuotaStore.key]) }
      try store.run(command)
      report.turns = TurnRequest(count: 1, ahead: .milliseconds(100))
      var turns: Int64 = 0
      for step in 0..<700 where turns == 0 {
        turns = try store.settle(report, of: 1, now: 1.7e9 + Double(step) * 0.1).0.numbers[0]
      }
      #expect(turns == 1, "\(command)")
    }
  }

  /// Numbers that the script does not write.
  private static let changes: [[String]] = ["0/0", "1/0", "-1/0", "1e14", "-1e14", "'x'", "{}", "nil"].map { value in
    let script = """
      local state = cmsgpack.unpack(redis.call('GET', KEYS[1]))
      for name, old in pairs(state) do state[name] = \(value) end
      redis.call('SET', KEYS[1], cmsgpack.pack(state))
      """
    return ["EVAL", script, "1", QuotaStore.key]
  }
}
