import Testing

@testable import UpstreamAdmission

@Suite struct TokenRejectionTests {
  @Test(
    "a rejection has its most specific known reason",
    arguments: [
      (1000, 1000, .unknown), (nil, 1000, .unknown), (971, 1000, .unknown), (970, 1000, .clockAhead(seconds: 30)),
      (1030, 1000, .clockBehind(seconds: 30)), (0, 1_795_000_000, .clockAhead(seconds: 1_795_000_000)),
      (.max, -2, .unknown), (.max, -1, .clockBehind(seconds: .max)),
    ] as [(Int?, Int, TokenRejection)])
  func reason(upstream: Int?, now: Int, reason: TokenRejection) {
    #expect(TokenRejection(upstreamDate: upstream, now: now) == reason)
  }

  @Test("the description of each reason names the problem or its remedy")
  func sentences() {
    #expect(TokenRejection(upstreamDate: 0, now: 90).description.contains("90 s ahead"))
    #expect(TokenRejection(upstreamDate: 90, now: 0).description.contains("90 s behind"))
    #expect(TokenRejection(upstreamDate: 0, now: 0).description.contains("revoked"))
  }
}
