import Bytes
import TestSupport
import Testing

@testable import UpstreamAdmission

@Suite struct ConcurrencyLimitTests {
  @Test("no more requests than the limit are in flight")
  func limit() {
    var gate = Turnstile()
    for caller in 0..<20 { gate.ask("\(caller)") }
    #expect(gate.limit.inFlight == 8 && gate.limit.waiting == 12)
    #expect(gate.end().count == 1)
    #expect(gate.limit.inFlight == 8 && gate.limit.waiting == 11)
  }

  @Test("requests of one caller are sent in the order of arrival")
  func order() {
    var gate = Turnstile()
    for _ in 0..<40 { gate.ask("a") }
    var order: [Int] = []
    while gate.limit.waiting > 0 { order += gate.end() }
    #expect(order == Array(8...40))
  }

  @Test("a greedy caller waits, and another caller's request is sent immediately")
  func share() {
    var gate = Turnstile()
    for _ in 0..<1000 { gate.ask("greedy") }
    #expect(gate.limit.inFlight == 7 && gate.limit.waiting == 993)
    #expect(gate.ask("modest").goes)
    #expect(!gate.ask("greedy").goes && gate.limit.inFlight == 8)
    for _ in 0..<7 { #expect(gate.end().count == 1) }
    #expect(gate.end().isEmpty && gate.limit.inFlight == 7, "the modest one's place stays free")
    #expect(gate.ask("modest").goes)
  }

  @Test("beside a greedy caller, no modest caller waits for more than a round")
  func fairness() {
    var gate = Turnstile()
    for _ in 0..<1000 { gate.ask("greedy") }
    for round in 0..<50 {
      var modest: [Int: Int] = [:]
      for caller in 0..<10 {
        let (number, goes) = gate.ask("modest \(caller)")
        if !goes { modest[number] = 0 }
      }
      // In a round, each of the ten modest callers and the greedy caller has one turn.
      for _ in 0..<11 { for number in gate.end() { modest[number] = nil } }
      #expect(modest.isEmpty, "in round \(round)")
    }
    #expect(gate.limit.waiting > 0, "the greedy one still waits")
  }

  @Test("callers that all request more than available are served equally")
  func equality() {
    var gate = Turnstile()
    var owner: [Int: Int] = [:]
    for caller in 0..<5 {
      for _ in 0..<(100 * (caller + 1)) { owner[gate.ask("\(caller)").number] = caller }
    }
    var served = [Int](repeating: 0, count: 5)
    for _ in 0..<300 { for number in gate.end() { served[owner[number] ?? 0] += 1 } }
    #expect(served.allSatisfy { (59...61).contains($0) }, "\(served)")
  }

  @Test("a cancelled request is skipped and leaves nothing behind")
  func cancellation() throws {
    var gate = Turnstile(initial: 1, maximum: 1)
    gate.ask("a")
    let numbers = (0..<5).map { _ in gate.ask("b").number }
    let ticket = try #require(gate.tickets[numbers[2]])
    #expect(gate.limit.cancel(ticket) == numbers[2])
    #expect(gate.limit.cancel(ticket) == nil)
    let first = try #require(gate.tickets[numbers[0]])
    #expect(gate.limit.cancel(first) == numbers[0])
    let last = try #require(gate.tickets[numbers[4]])
    #expect(gate.limit.cancel(last) == numbers[4])
    #expect(gate.end() == [numbers[1]] && gate.end() == [numbers[3]])
    #expect(gate.limit.cancel(last) == nil, "a ticket is not used again")
    gate.end()
    #expect(gate.limit.inFlight == 0 && gate.limit.waiting == 0 && gate.limit.known.count == 0)
  }

  @Test("a caller whose only request is cancelled loses its turn")
  func cancelledCaller() throws {
    var gate = Turnstile(initial: 1, maximum: 1)
    gate.ask("a")
    let number = gate.ask("b").number
    let ticket = try #require(gate.tickets[number])
    let next = gate.ask("c").number
    _ = gate.limit.cancel(ticket)
    #expect(gate.limit.known.count == 2)
    #expect(gate.end() == [next])
  }

  @Test("a permit counts once, however often it is released")
  func doubleRelease() {
    var limit = ConcurrencyLimit<Int>()
    let request = ConcurrencyLimit<Int>.Request(QuotaCaller(client: "only", identity: "a"))
    guard case .granted(let permit) = limit.acquire(request, waiter: 1, now: .zero) else {
      Issue.record("not granted")
      return
    }
    #expect(limit.release(permit, .answered, now: .zero).isEmpty)
    #expect(limit.release(permit, .limited(retryAfter: nil), now: .zero).isEmpty)
    #expect(limit.inFlight == 0 && limit.limit == 200 && limit.rate == nil)
  }

  @Test("rate and waits are those of a probe while it sends faster than the learned rate")
  func probe() {
    var limit = ConcurrencyLimit<Int>()
    for index in 0..<40 { limit.pacing.own.sent(now: 0.001 * Double(index), isWanted: true) }
    for index in 20..<40 { limit.pacing.own.refused(sentAt: 0.001 * Double(index), retryAfter: nil, now: 0.1) }
    #expect(limit.rate == 21)
    var request = ConcurrencyLimit<Int>.Request(QuotaCaller(client: "only", identity: ByteString("a")))
    func wait() -> Double? {
      let now = Duration(inSeconds: limit.pacing.own.opening - 0.5)
      guard case .refused(let wait) = limit.acquire(request, waiter: 0, now: now) else { return nil }
      return wait.inSeconds - 0.5
    }
    request.patience = .zero
    #expect(abs((wait() ?? 1)) < 1e-6, "the first goes when the pacer opens")
    request.patience = .milliseconds(501)
    #expect(wait() == nil, "it waits")
    request.patience = .zero
    #expect(abs((wait() ?? 0) - 1 / (0.97 * 21)) < 1e-6)
    while limit.pacing.own.pace < 40, limit.pacing.own.opening < 600 {
      limit.pacing.own.sent(now: limit.pacing.own.opening, isWanted: true)
    }
    #expect(limit.rate == 42)
    #expect(abs((wait() ?? 0) - 1.0 / 42) < 1e-6)
  }

  @Test("the wait in a group is a turn longer as long as the store has given no turn")
  func groupWait() {
    var limit = ConcurrencyLimit<Int>()
    limit.join(2, seed: 1, now: .zero)
    func use(_ turns: [Int64], to report: QuotaReport) -> Bool {
      // The store has a rate of one in two seconds, of which this replica has half.
      let numbers = turns + [2_000_000, 500_000, 500_000, 0, 10, 20, 500_000, 1, 2]
      let reply = QuotaReply(numbers, parts: [], now: .zero)
      return reply.map { limit.use($0, to: report, now: .zero).isEmpty } ?? false
    }
    #expect(use([0, 0], to: QuotaReport()))
    var request = ConcurrencyLimit<Int>.Request(QuotaCaller(client: "only", identity: ByteString("a")))
    request.patience = .zero
    func wait() -> Duration? {
      guard case .refused(let wait) = limit.acquire(request, waiter: 0, now: .zero) else { return nil }
      return wait
    }
    #expect(wait() == .seconds(4))
    request.patience = .seconds(5)
    #expect(wait() == nil, "it waits")
    let needsStore = limit.needsStore(now: .zero)
    let report = limit.report(now: .zero)
    let stillNeedsStore = limit.needsStore(now: .zero)
    #expect(needsStore && report.turns != nil && !stillNeedsStore)
    #expect(use([1, 900_000], to: report))
    request.patience = .zero
    #expect(wait() == .milliseconds(900 + 4000), "after the one that waits")
  }

  @Test("a greedy caller can fill only part of the waiting room, and other callers still have room")
  func room() {
    var gate = Turnstile(initial: 200, maximum: 200)
    for _ in 0..<20_000 { gate.ask("greedy") }
    #expect(gate.limit.waiting == 12_288 && gate.refused == 20_000 - 12_288 - 175)
    for caller in 0..<1000 { gate.ask("modest \(caller)") }
    #expect(gate.refused == 20_000 - 12_288 - 175, "each of them goes or waits")
    #expect(gate.limit.waiting == 12_288 + 975)
  }

  @Test("ten thousand callers with one request each all have room")
  func manyCallers() {
    var gate = Turnstile(initial: 200, maximum: 200)
    for caller in 0..<10_200 { gate.ask("\(caller)") }
    #expect(gate.refused == 0 && gate.limit.waiting == 10_000)
    var served = 0
    while gate.limit.inFlight > 0 {
      gate.end()
      served += 1
    }
    #expect(served == 10_200 && gate.limit.known.count == 0)
  }

  @Test("a full waiting room refuses with a time to retry")
  func full() {
    var limits = ConcurrencyLimits()
    (limits.initial, limits.waiting) = (1, 0)
    var limit = ConcurrencyLimit<Int>(limits)
    _ = limit.acquire(.init(QuotaCaller(client: "only", identity: "a")), waiter: 1, now: .zero)
    let another = QuotaCaller(client: "only", identity: "b")
    guard case .refused(let retryAfter) = limit.acquire(.init(another), waiter: 2, now: .zero) else {
      Issue.record("not refused")
      return
    }
    #expect(retryAfter == .seconds(1))
  }

  /// What came of a flood of one caller, which has an arrival each millisecond.
  private struct Flood {
    var limit: ConcurrencyLimit<Int>
    private var underWay: [(permit: ConcurrencyPermit, end: Int)] = []
    private(set) var arrivals: [Int: Int] = [:]
    /// The milliseconds of refusals, and the waits of what was sent, by the millisecond of the sending.
    private(set) var refusals: [Int] = []
    private(set) var waits: [(sent: Int, wait: Int)] = []
    private(set) var least = Int.max

    init(_ limits: ConcurrencyLimits) { limit = ConcurrencyLimit(limits) }

    /// Lets `requests` of a caller arrive, and ends those that were sent 200 ms before.
    mutating func pass(_ millisecond: Int, _ requests: [QuotaCaller]) -> [ConcurrencyLimit<Int>.Acquisition] {
      let now = Duration.milliseconds(millisecond)
      while let first = underWay.first, first.end <= millisecond {
        underWay.removeFirst()
        for grant in limit.release(first.permit, .answered, now: now) {
          underWay.append((grant.permit, millisecond + 200))
          waits.append((millisecond, millisecond - arrivals[grant.waiter, default: 0]))
        }
      }
      if millisecond > 1000 { least = min(least, limit.inFlight) }
      return requests.map { caller in
        let number = arrivals.count
        arrivals[number] = millisecond
        let admission = limit.acquire(.init(caller), waiter: number, now: now)
        switch admission {
        case .granted(let permit): underWay.append((permit, millisecond + 200))
        case .queued: break
        case .refused: refusals.append(millisecond)
        }
        return admission
      }
    }
  }

  @Test("a burst waits, but a standing queue is kept short, and no other caller or client notices it")
  func standing() throws {
    var limits = ConcurrencyLimits()
    (limits.initial, limits.maximum) = (40, 40)
    var flood = Flood(limits)
    let greedy = QuotaCaller(client: "a", share: QuotaCaller.usualShare, identity: "greedy")
    let modest = [
      QuotaCaller(client: "a", share: QuotaCaller.usualShare, identity: "modest"),
      QuotaCaller(client: "b", share: QuotaCaller.usualShare, identity: "modest"),
    ]
    // Five times as many as can be sent.
    for millisecond in 0..<6000 {
      _ = flood.pass(millisecond, [greedy])
      guard millisecond % 100 == 0 else { continue }
      for admission in flood.pass(millisecond, modest) {
        if case .refused = admission { Issue.record("a modest request was refused after \(millisecond) ms") }
      }
    }
    // The greedy caller may have 31 in flight, which is 155 in a second. More than that wait when the first request ends,
    // which tells how long one takes.
    #expect(try (200...210).contains(#require(flood.refusals.first)))
    #expect(flood.refusals.count > 4500)
    #expect(flood.waits.contains { $0.wait > 800 })
    // Requests in flight end in groups, so one more group may end before.
    #expect(flood.waits.filter { $0.sent > 5000 }.allSatisfy { $0.wait <= 150 + 200 })
    #expect(flood.least >= 30, "a caller's share is always in use")
    // A burst after it waits again.
    for millisecond in 6000..<12_000 { _ = flood.pass(millisecond, []) }
    let count = flood.refusals.count
    _ = flood.pass(12_000, Array(repeating: greedy, count: 180))
    #expect(flood.refusals.count == count && flood.limit.waiting == 149)
  }

  @Test("a client's greedy callers are refused, but not its caller of which no other request waits")
  func standingByOthers() {
    var limits = ConcurrencyLimits()
    (limits.initial, limits.maximum) = (40, 40)
    var flood = Flood(limits)
    func caller(_ name: ByteString) -> QuotaCaller {
      QuotaCaller(client: "a", share: QuotaCaller.usualShare, identity: name)
    }
    // Forty callers have a turn before the modest one, which takes longer than a request may wait under overload.
    let greedy = (0..<40).map { caller(ByteString("greedy \($0)")) }
    for millisecond in 0..<6000 {
      _ = flood.pass(millisecond, [greedy[millisecond % 40]])
      guard millisecond % 1000 == 999 else { continue }
      if case .refused = flood.pass(millisecond, [caller("modest")])[0] {
        Issue.record("a modest request was refused after \(millisecond) ms")
      }
    }
    #expect(flood.refusals.count > 4000)
    #expect(flood.waits.allSatisfy { $0.wait <= 1200 })
  }

  @Test("the slow requests of one client do not make a burst of another one late")
  func slowClient() {
    var limits = ConcurrencyLimits()
    (limits.initial, limits.maximum) = (40, 40)
    var limit = ConcurrencyLimit<Int>(limits)
    func acquire(_ client: String, _ number: Int, at milliseconds: Int) -> ConcurrencyLimit<Int>.Acquisition {
      let caller = QuotaCaller(client: HashedText(client), share: QuotaCaller.usualShare, identity: "a")
      return limit.acquire(.init(caller), waiter: number, now: .milliseconds(milliseconds))
    }
    for (client, end) in [("fast", 20), ("slow", 10_000)] {
      guard case .granted(let permit) = acquire(client, 0, at: 0) else {
        Issue.record("not granted")
        return
      }
      // The fast client remains known by a request in flight.
      if client == "fast" { _ = acquire(client, 0, at: 1) }
      _ = limit.release(permit, .answered, now: .milliseconds(end))
    }
    let refused = (0..<300).count { if case .refused = acquire("fast", $0, at: 10_001) { true } else { false } }
    #expect(refused == 0)
  }

  @Test("a request that has waited elsewhere may wait for the rest of a burst", arguments: [0, 600, 900, 1100])
  func waited(_ milliseconds: Int) {
    var limits = ConcurrencyLimits()
    (limits.initial, limits.maximum) = (40, 40)
    var flood = Flood(limits)
    func acquire(_ caller: ByteString, at time: Int) -> Bool {
      var request = ConcurrencyLimit<Int>.Request(QuotaCaller(client: "only", identity: caller))
      request.waited = .milliseconds(milliseconds)
      if case .refused = flood.limit.acquire(request, waiter: -1, now: .milliseconds(time)) { return false }
      return true
    }
    func callers(_ names: [ByteString]) -> [QuotaCaller] { names.map { .init(client: "only", identity: $0) } }
    // The first response tells that a request takes 200 ms.
    _ = flood.pass(0, callers(["first"]))
    _ = flood.pass(200, [])
    // All places are taken: 35 by one caller, of which 60 more wait.
    _ = flood.pass(201, callers(Array(repeating: "a", count: 95) + ["c", "d", "e", "f", "g"]))
    // 61 of 35 in 200 ms.
    #expect(acquire("a", at: 202) == (milliseconds <= 600))
    #expect(acquire("b", at: 202) == (milliseconds <= 900))
  }

  @Test("a further attempt at a request is not refused because others wait")
  func repeated() {
    var limits = ConcurrencyLimits()
    (limits.initial, limits.maximum) = (40, 40)
    var flood = Flood(limits)
    let caller = QuotaCaller(client: "only", identity: "a")
    for millisecond in 0..<4000 { _ = flood.pass(millisecond, [caller]) }
    for isRepeated in [true, false] {
      var request = ConcurrencyLimit<Int>.Request(caller)
      request.isRepeated = isRepeated
      let admission = flood.limit.acquire(request, waiter: -1, now: .milliseconds(4000))
      if case .refused = admission { #expect(!isRepeated) } else { #expect(isRepeated) }
    }
  }

  @Test("a queue that has emptied for a moment is no burst again, and a refusal has a time to retry")
  func refusedAgain() {
    var limits = ConcurrencyLimits()
    (limits.initial, limits.maximum) = (40, 40)
    var flood = Flood(limits)
    let caller = QuotaCaller(client: "only", identity: "a")
    for millisecond in 0..<8000 { _ = flood.pass(millisecond, [caller]) }
    var millisecond = 8000
    while flood.limit.waiting > 0 {
      _ = flood.pass(millisecond, [])
      millisecond += 1
    }
    let admissions = flood.pass(millisecond, Array(repeating: caller, count: 1000))
    let times = admissions.compactMap { if case .refused(let retryAfter) = $0 { retryAfter } else { nil } }
    #expect(times.count > 900)
    #expect(times.allSatisfy { $0 == .seconds(1) })
  }

  @Test("a queue that stands in front of a few slow requests keeps an eighth of the limit, and at least one request")
  func slow() {
    for (most, kept) in [(1, 1), (40, 5)] {
      var limits = ConcurrencyLimits()
      (limits.initial, limits.maximum) = (most, most)
      var limit = ConcurrencyLimit<Int>(limits)
      let caller = QuotaCaller(client: "only", identity: "a")
      var admissions: [ConcurrencyLimit<Int>.Acquisition] = []
      // One after 10 s tells how long a request takes.
      if case .granted(let permit) = limit.acquire(.init(caller), waiter: 0, now: .zero) {
        _ = limit.release(permit, .answered, now: .seconds(10))
      }
      for number in 0..<100 {
        admissions.append(limit.acquire(.init(caller), waiter: number, now: .seconds(11 + 2 * number)))
      }
      #expect(admissions.count { if case .refused = $0 { true } else { false } } > 0)
      #expect(limit.waiting == kept)
    }
  }

  @Test("after any events, no request is lost or served twice", arguments: 1...20)
  func anything(seed: UInt64) {
    var random = SplitMix(seed: seed)
    var gate = Turnstile(initial: .random(in: 1...9, using: &random), maximum: 12, waiting: 200)
    var waiting: Set<Int> = []
    for step in 0..<5000 {
      switch Int.random(in: 0..<10, using: &random) {
      case 0..<5:
        let caller = "\(Int.random(in: 0..<6, using: &random))"
        let (number, goes) = gate.ask(caller)
        if !goes, gate.tickets[number] != nil { waiting.insert(number) }
      case 5..<9:
        let outcome: ConcurrencyOutcome = Int.random(in: 0..<20, using: &random) == 0 ? .inconclusive : .answered
        for number in gate.end(outcome, now: .milliseconds(step)) { #expect(waiting.remove(number) != nil) }
      default:
        guard let number = waiting.randomElement(using: &random), let ticket = gate.tickets[number] else { continue }
        #expect(gate.limit.cancel(ticket) == number)
        waiting.remove(number)
      }
      #expect(gate.limit.waiting == waiting.count && gate.limit.inFlight == gate.underWay.count)
    }
    while gate.limit.inFlight > 0 { for number in gate.end() { waiting.remove(number) } }
    #expect(waiting.isEmpty && gate.limit.known.count == 0)
  }
}
