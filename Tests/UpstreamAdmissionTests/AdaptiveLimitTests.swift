import Testing

@testable import UpstreamAdmission

@Suite struct AdaptiveLimitTests {
  @Test("each success with the limit in use adds one, so that a round trip doubles it")
  func increase() {
    var limit = AdaptiveLimit(ConcurrencyLimits())
    for _ in 0..<200 { limit.succeeded(inFlight: limit.share, isWanted: false) }
    #expect(limit.value == 400)
  }

  @Test("successes add nothing while the limit is not in use")
  func unused() {
    var limit = AdaptiveLimit(ConcurrencyLimits())
    for _ in 0..<10_000 { limit.succeeded(inFlight: 174, isWanted: false) }
    #expect(limit.value == 200)
  }

  @Test("it grows for those who wait only while half of it is in use", arguments: [(99, 200), (100, 202), (150, 302)])
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

  @Test("it does not begin above the most, nor grow beyond it")
  func bounds() {
    var limit = AdaptiveLimit(ConcurrencyLimits())
    for _ in 0..<1_000_000 { limit.succeeded(inFlight: 400, isWanted: false) }
    #expect(limit.value == 400)
    var limits = ConcurrencyLimits()
    limits.maximum = 2
    #expect(AdaptiveLimit(limits).value == 2)
  }

  @Test("one caller's share is at least half of the limit, and less than all of it from two on")
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
