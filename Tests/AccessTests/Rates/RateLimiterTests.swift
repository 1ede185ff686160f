import Bytes
import Dispatch
import TestSupport
import Testing

@testable import Access

@Suite("The rate limiter")
struct RateLimiterTests {
  static let second: UInt64 = 1_000_000_000

  static func isAllowed(_ verdict: RateVerdict) -> Bool {
    if case .limited = verdict { false } else { true }
  }

  @Test("has a separate bucket for each caller of each client")
  func apart() {
    let limiter = RateLimiter()
    let one = ClientRates(client: "one", perCaller: Rate(perSecond: 1, burst: 1), total: nil)
    let two = ClientRates(client: "two", perCaller: Rate(perSecond: 1, burst: 1), total: nil)
    for rates in [one, two] {
      for caller in [Caller.address("192.0.2.1"), .address("192.0.2.2"), .subject("192.0.2.1")] {
        #expect(limiter.take(rates, for: caller, now: 0) == .allowed(.init(.caller, remaining: 0, seconds: 1)))
        #expect(limiter.take(rates, for: caller, now: 0) == .limited(.init(.caller, remaining: 0, seconds: 1)))
      }
    }
    #expect(Self.isAllowed(limiter.take(one, for: .address("192.0.2.1"), now: Self.second)))
  }

  @Test("stops all callers of a client at the client's total, and no other client")
  func total() {
    let limiter = RateLimiter()
    let one = ClientRates(client: "one", perCaller: nil, total: Rate(perSecond: 0.1, burst: 2))
    let two = ClientRates(client: "two", perCaller: nil, total: Rate(perSecond: 0.1, burst: 2))
    #expect(limiter.take(one, for: .address("a"), now: 0) == .allowed(.init(.total, remaining: 1, seconds: 10)))
    #expect(limiter.take(one, for: .address("b"), now: 0) == .allowed(.init(.total, remaining: 0, seconds: 10)))
    #expect(limiter.take(one, for: .address("c"), now: 0) == .limited(.init(.total, remaining: 0, seconds: 10)))
    #expect(Self.isAllowed(limiter.take(two, for: .address("c"), now: 0)))
  }

  @Test("takes from both buckets or from neither")
  func neither() {
    let limiter = RateLimiter()
    let rates = ClientRates(
      client: "c", perCaller: Rate(perSecond: 0.01, burst: 2), total: Rate(perSecond: 1, burst: 3))
    func ask(_ caller: String, at now: UInt64) -> RateVerdict { limiter.take(rates, for: .address(caller), now: now) }
    #expect(ask("a", at: 0) == .allowed(.init(.caller, remaining: 1, seconds: 100)))
    #expect(ask("a", at: 0) == .allowed(.init(.caller, remaining: 0, seconds: 100)))
    // The caller's own bucket is empty, so these requests leave the last token of the total.
    for _ in 0..<5 { #expect(ask("a", at: 0) == .limited(.init(.caller, remaining: 0, seconds: 100))) }
    #expect(ask("b", at: 0) == .allowed(.init(.total, remaining: 0, seconds: 1)))
    // The total is empty now, so these requests leave the caller's own bucket unchanged.
    for _ in 0..<5 { #expect(ask("b", at: 0) == .limited(.init(.total, remaining: 0, seconds: 1))) }
    #expect(ask("b", at: Self.second) == .allowed(.init(.caller, remaining: 0, seconds: 99)))
  }

  @Test("reports the longer of both waits")
  func longest() {
    let limiter = RateLimiter()
    let rates = ClientRates(
      client: "c", perCaller: Rate(perSecond: 1, burst: 1), total: Rate(perSecond: 0.05, burst: 1))
    #expect(Self.isAllowed(limiter.take(rates, for: .address("a"), now: 0)))
    #expect(limiter.take(rates, for: .address("a"), now: 0) == .limited(.init(.total, remaining: 0, seconds: 20)))
  }

  @Test("keeps its buckets when limits change")
  func reload() {
    let limiter = RateLimiter()
    func rates(_ perSecond: Double, _ burst: Int) -> ClientRates {
      ClientRates(client: "c", perCaller: Rate(perSecond: perSecond, burst: burst), total: nil)
    }
    for _ in 0..<100 { #expect(Self.isAllowed(limiter.take(rates(1, 100), for: .address("a"), now: 0))) }
    // An empty bucket stays empty, but only as long as the new rate takes.
    #expect(
      limiter.take(rates(10, 5), for: .address("a"), now: 0) == .limited(.init(.caller, remaining: 0, seconds: 1)))
    #expect(Self.isAllowed(limiter.take(rates(10, 5), for: .address("a"), now: Self.second / 10 * 9)))
    #expect(
      limiter.take(rates(10, 5), for: .address("b"), now: 0) == .allowed(.init(.caller, remaining: 4, seconds: 1)))
  }

  @Test("keeps no state for clients without limits")
  func unlimited() {
    let limiter = RateLimiter()
    let rates = ClientRates(client: "c", perCaller: nil, total: nil)
    #expect(rates.isUnlimited)
    let before = limiter.bytes
    for number in 0..<10_000 { #expect(limiter.take(rates, for: .address("\(number)"), now: 0) == .unlimited) }
    #expect(limiter.bytes == before)
  }

  @Test("delays an address after a hundred failures, and no other address")
  func failures() {
    let limiter = RateLimiter()
    for _ in 0..<100 { #expect(limiter.takeFailure(from: "192.0.2.1", now: 0) == nil) }
    #expect(limiter.takeFailure(from: "192.0.2.1", now: 0) == 1)
    #expect(limiter.takeFailure(from: "192.0.2.2", now: 0) == nil)
    #expect(limiter.takeFailure(from: "192.0.2.1", now: Self.second) == nil)
    #expect(limiter.takeFailure(from: "192.0.2.1", now: Self.second) == 1)
    // The failures do not slow requests of the address with a valid credential.
    let rates = ClientRates(client: "c", perCaller: Rate(perSecond: 1, burst: 1), total: nil)
    #expect(Self.isAllowed(limiter.take(rates, for: .address("192.0.2.1"), now: 0)))
  }

  @Test("has bounded memory for 200,000 addresses")
  func memory() {
    let limiter = RateLimiter()
    let rates = ClientRates(
      client: "c", perCaller: Rate(perSecond: 0.01, burst: 2), total: Rate(perSecond: 1e6, burst: 1_000_000))
    #expect(limiter.bytes < 10_000)
    var random = SplitMix(seed: 4)
    for number in 0..<200_000 {
      // One word for each address, because longer strings would only slow the test.
      let caller = Caller.address(String(number, radix: 36))
      #expect(Self.isAllowed(limiter.take(rates, for: caller, now: 1)))
      if random.next() % 4 == 0 { _ = limiter.takeFailure(from: String(number, radix: 36), now: 1) }
    }
    #expect(limiter.bytes <= (RateLimits.callers + RateLimits.failedAddresses + 128) * 24)
  }

  @Test("keeps a client's total for any number of addresses")
  func flood() {
    let limiter = RateLimiter(nil, callers: 128)
    let rates = ClientRates(
      client: "c", perCaller: Rate(perSecond: 0.01, burst: 5), total: Rate(perSecond: 0.01, burst: 100))
    let allowed = (0..<10_000).count { Self.isAllowed(limiter.take(rates, for: .address("\($0)"), now: 0)) }
    #expect(allowed == 100)
  }

  @Test("counts exactly with many concurrent threads")
  func threads() {
    let limiter = RateLimiter()
    let rates = ClientRates(
      client: "c", perCaller: Rate(perSecond: 0.01, burst: 500), total: Rate(perSecond: 0.01, burst: 1500))
    let allowed = Counts()
    DispatchQueue.concurrentPerform(iterations: 8) { thread in
      let caller = Caller.subject("\(thread % 4)")
      for _ in 0..<1000 where Self.isAllowed(limiter.take(rates, for: caller, now: 0)) { allowed.add(thread % 4) }
    }
    #expect(allowed.all.allSatisfy { $0 <= 500 })
    #expect(allowed.all.reduce(0, +) == 1500)
  }
}
