import Testing

@testable import UpstreamAdmission

@Suite struct AdaptiveLimitTests {
  @Test("each success adds one to a limit in use, so a round trip doubles the limit")
  func increase() {
    var limit = AdaptiveLimit(ConcurrencyLimits())
    for _ in 0..<200 { limit.succeeded(inFlight: limit.share, isWanted: false) }
    #expect(limit.value == 400)
  }

  @Test("successes add nothing to an unused limit")
  func unused() {
    var limit = AdaptiveLimit(ConcurrencyLimits())
    for _ in 0..<10_000 { limit.succeeded(inFlight: 174, isWanted: false) }
    #expect(limit.value == 200)
  }

  @Test(
    "the limit grows for waiting requests only while at least half of the limit is in use",
    arguments: [(99, 200), (100, 202), (150, 302)])
  func wanted(inFlight: Int, value: Int) {
    var limit = AdaptiveLimit(ConcurrencyLimits())
    for _ in 0..<200 { limit.succeeded(inFlight: inFlight, isWanted: true) }
    #expect(limit.value == value)
  }

  @Test(
    "a client's share is a fraction of the limit, at least one request",
    arguments: [
      (nil, 200), (1, 200), (0.875, 175), (0.25, 50), (0.01, 2), (0.004, 1), (0, 1), (-1, 1), (7, 200), (.nan, 1),
      (.infinity, 1), (1e300, 1),
    ] as [(Double?, Int)])
  func most(share: Double?, most: Int) {
    #expect(AdaptiveLimit(ConcurrencyLimits()).most(of: share) == most)
  }

  @Test("the limit neither begins nor grows above its maximum")
  func bounds() {
    var limit = AdaptiveLimit(ConcurrencyLimits())
    for _ in 0..<1_000_000 { limit.succeeded(inFlight: 400, isWanted: false) }
    #expect(limit.value == 400)
    var limits = ConcurrencyLimits()
    limits.maximum = 2
    #expect(AdaptiveLimit(limits).value == 2)
  }

  @Test("a caller's share is at least half of the limit, and less than all of a limit of two or more")
  func share() {
    var limits = ConcurrencyLimits()
    for initial in 4...400 {
      limits.initial = initial
      let limit = AdaptiveLimit(limits)
      #expect(limit.share * 2 >= limit.value && limit.share < limit.value)
    }
    limits.initial = 1
    #expect(AdaptiveLimit(limits).share == 1)
  }
}
