import Testing

@testable import CatalogProxy

@Suite struct AdaptiveLimitTests {
  @Test("a round of successes with the limit in use adds one")
  func increase() {
    var limit = AdaptiveLimit(ConcurrencyLimits())
    for _ in 0..<199 { limit.succeeded(inFlight: 175, isWanted: false) }
    #expect(limit.value == 200)
    limit.succeeded(inFlight: 175, isWanted: false)
    #expect(limit.value == 201)
  }

  @Test("successes add nothing while the limit is not in use")
  func unused() {
    var limit = AdaptiveLimit(ConcurrencyLimits())
    for _ in 0..<10_000 { limit.succeeded(inFlight: 174, isWanted: false) }
    #expect(limit.value == 200)
  }

  @Test("it grows back to where it began if somebody waits, however little is under way")
  func recovery() {
    var limit = AdaptiveLimit(ConcurrencyLimits())
    limit.refused(inFlight: 8, now: .zero)
    for _ in 0..<100_000 { limit.succeeded(inFlight: 1, isWanted: true) }
    #expect(limit.value == 200)
  }

  @Test("beyond that it grows for those who wait only while half of it is in use", arguments: [(99, 200), (100, 201)])
  func wanted(inFlight: Int, value: Int) {
    var limit = AdaptiveLimit(ConcurrencyLimits())
    for _ in 0..<200 { limit.succeeded(inFlight: inFlight, isWanted: true) }
    #expect(limit.value == value)
  }

  @Test(
    "a client's share is a part of it, one request at least",
    arguments: [
      (nil, 200), (1, 200), (0.875, 175), (0.25, 50), (0.01, 2), (0.004, 1), (0, 1), (-1, 1), (7, 200), (.nan, 1),
      (.infinity, 1), (1e300, 1),
    ] as [(Double?, Int)])
  func most(share: Double?, most: Int) {
    #expect(AdaptiveLimit(ConcurrencyLimits()).most(of: share) == most)
  }

  @Test("it does not grow beyond the most, nor fall below the least")
  func bounds() {
    var limit = AdaptiveLimit(ConcurrencyLimits())
    for _ in 0..<1_000_000 { limit.succeeded(inFlight: 400, isWanted: false) }
    #expect(limit.value == 400)
    for second in 0..<20 { limit.refused(inFlight: 400, now: .seconds(second)) }
    #expect(limit.value == 4)
  }

  @Test("it does not begin above the most, even if that is below the least")
  func maximum() {
    var limits = ConcurrencyLimits()
    limits.maximum = 2
    var limit = AdaptiveLimit(limits)
    #expect(limit.value == 2)
    limit.refused(inFlight: 2, now: .zero)
    #expect(limit.value == 2)
  }

  @Test("a refusal halves what was under way, not what was allowed")
  func flight() {
    var limit = AdaptiveLimit(ConcurrencyLimits())
    limit.refused(inFlight: 60, now: .seconds(1))
    #expect(limit.value == 30)
  }

  @Test("refusals within half a second count as one")
  func interval() {
    var limit = AdaptiveLimit(ConcurrencyLimits())
    for step in 0..<500 { limit.refused(inFlight: 200, now: .milliseconds(step)) }
    #expect(limit.value == 100)
    limit.refused(inFlight: 150, now: .milliseconds(500))
    #expect(limit.value == 50)
  }

  @Test("one caller's share is at least half of the limit, and less than all of it from two on")
  func share() {
    var limits = ConcurrencyLimits()
    for initial in 4...400 {
      limits.initial = initial
      let limit = AdaptiveLimit(limits)
      #expect(limit.share * 2 >= limit.value && limit.share < limit.value)
    }
    limits.minimum = 1
    limits.initial = 1
    #expect(AdaptiveLimit(limits).share == 1)
  }

  @Test("it settles under a quota that it does not know, and uses most of it")
  func settles() {
    var limit = AdaptiveLimit(ConcurrencyLimits())
    var sum = 0
    for round in 0..<2000 {
      let now = Duration.milliseconds(100 * round)
      let sent = limit.value
      for request in 0..<sent {
        if request < 80 {
          limit.succeeded(inFlight: sent, isWanted: false)
        } else {
          limit.refused(inFlight: sent, now: now)
        }
      }
      if round >= 200 { sum += sent }
    }
    #expect((50...80).contains(sum / 1800))
  }
}
