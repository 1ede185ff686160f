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

  @Test("a caller pays for an expensive request with missed rounds, and other callers do not")
  func cost() {
    var gate = Turnstile(initial: 4, maximum: 4)
    var owner: [Int: String] = [:]
    for _ in 0..<400 {
      owner[gate.ask("forcing", cost: 4).number] = "forcing"
      owner[gate.ask("plain").number] = "plain"
      owner[gate.ask("other").number] = "other"
    }
    var served: [String: Int] = [:]
    for _ in 0..<270 { for number in gate.end() { served[owner[number] ?? "", default: 0] += 1 } }
    #expect((28...31).contains(served["forcing"] ?? 0), "\(served)")
    #expect((118...121).contains(served["plain"] ?? 0) && (118...121).contains(served["other"] ?? 0), "\(served)")
  }

  @Test("a debt is bounded, however much was used while there was room")
  func debt() {
    var gate = Turnstile(initial: 8, maximum: 8)
    _ = gate.limit.acquire(.init(QuotaCaller(client: "only", rateLimitPrefix: "forcing")), waiter: 0, now: .zero)
    for _ in 0..<100 {
      gate.ask("forcing", cost: .max)
      gate.end()
    }
    for _ in 0..<100 { gate.ask("plain") }
    let number = gate.ask("forcing", cost: .min).number
    var rounds = 0
    while gate.tickets[number] != nil {
      gate.end()
      rounds += 1
    }
    // The caller has paid its debt after that many rounds, and then has a turn.
    #expect(rounds == ConcurrencyLimit<Int>.highestCost + 1)
  }

  @Test("a debt is forgotten when its caller has no requests left")
  func forgotten() {
    var gate = Turnstile(initial: 8, maximum: 8)
    gate.ask("forcing", cost: .max)
    gate.end()
    #expect(gate.limit.callers == 0)
    for _ in 0..<100 { gate.ask("plain") }
    #expect(gate.ask("forcing").goes && gate.limit.inFlight == 8)
    let number = gate.ask("forcing").number
    #expect(gate.end() == [number])
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
    #expect(gate.limit.inFlight == 0 && gate.limit.waiting == 0 && gate.limit.callers == 0)
  }

  @Test("a caller whose only request is cancelled loses its turn")
  func cancelledCaller() throws {
    var gate = Turnstile(initial: 1, maximum: 1)
    gate.ask("a")
    let number = gate.ask("b").number
    let ticket = try #require(gate.tickets[number])
    let next = gate.ask("c").number
    _ = gate.limit.cancel(ticket)
    #expect(gate.limit.callers == 2)
    #expect(gate.end() == [next])
  }

  @Test("a permit counts once, however often it is released")
  func doubleRelease() {
    var limit = ConcurrencyLimit<Int>()
    let request = ConcurrencyLimit<Int>.Request(QuotaCaller(client: "only", rateLimitPrefix: "a"))
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
    for index in 0..<40 { limit.pacer.sent(now: 0.001 * Double(index), isWanted: true) }
    for index in 20..<40 { limit.pacer.refused(sentAt: 0.001 * Double(index), retryAfter: nil, now: 0.1) }
    #expect(limit.rate == 21)
    var request = ConcurrencyLimit<Int>.Request(QuotaCaller(client: "only", rateLimitPrefix: ByteString("a")))
    request.patience = .zero
    func wait() -> Double? {
      let now = Duration(inSeconds: limit.pacer.opening - 0.5)
      guard case .refused(let wait) = limit.acquire(request, waiter: 0, now: now) else { return nil }
      return wait.inSeconds - 0.5
    }
    #expect(abs((wait() ?? 0) - 1 / (0.97 * 21)) < 1e-6)
    while limit.pacer.pace < 40, limit.pacer.opening < 600 {
      limit.pacer.sent(now: limit.pacer.opening, isWanted: true)
    }
    #expect(limit.rate == 42)
    #expect(abs((wait() ?? 0) - 1.0 / 42) < 1e-6)
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
    #expect(served == 10_200 && gate.limit.callers == 0)
  }

  @Test("a full waiting room refuses with a time to retry")
  func full() {
    var limits = ConcurrencyLimits()
    (limits.initial, limits.waiting) = (1, 0)
    var limit = ConcurrencyLimit<Int>(limits)
    _ = limit.acquire(.init(QuotaCaller(client: "only", rateLimitPrefix: "a")), waiter: 1, now: .zero)
    let another = QuotaCaller(client: "only", rateLimitPrefix: "b")
    guard case .refused(let retryAfter) = limit.acquire(.init(another), waiter: 2, now: .zero) else {
      Issue.record("not refused")
      return
    }
    #expect(retryAfter == .seconds(1))
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
        let (number, goes) = gate.ask(caller, cost: .random(in: -1...20, using: &random))
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
    #expect(waiting.isEmpty && gate.limit.callers == 0)
  }
}
