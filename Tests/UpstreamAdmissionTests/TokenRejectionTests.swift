import Testing

@testable import UpstreamAdmission

@Suite struct TokenRejectionTests {
  @Test(
    "a rejection has its most specific known reason",
    arguments: [
      (1000, 1000, .active, .unknown), (nil, 1000, .active, .unknown), (971, 1000, .active, .unknown),
      (970, 1000, .active, .clockAhead(seconds: 30)), (1030, 1000, .active, .clockBehind(seconds: 30)),
      (0, 1_795_000_000, .active, .clockAhead(seconds: 1_795_000_000)), (0, 1000, .missing, .key(.missing)),
      (1000, 1000, .retired, .key(.retired)), (.max, -2, .active, .unknown),
      (.max, -1, .active, .clockBehind(seconds: .max)),
    ] as [(Int?, Int, TokenRejection.KeyState, TokenRejection.Reason)])
  func reason(upstream: Int?, now: Int, key: TokenRejection.KeyState, reason: TokenRejection.Reason) {
    #expect(TokenRejection(upstreamDate: upstream, now: now, key: key).reason == reason)
  }

  @Test("the description of each reason names the problem or its remedy")
  func sentences() {
    #expect(TokenRejection(upstreamDate: 0, now: 90, key: .active).description.contains("90 s ahead"))
    #expect(TokenRejection(upstreamDate: 90, now: 0, key: .active).description.contains("90 s behind"))
    #expect(TokenRejection(upstreamDate: 0, now: 0, key: .missing).description.contains("Configure one"))
    #expect(TokenRejection(upstreamDate: 0, now: 0, key: .retired).description.contains("retired"))
    #expect(TokenRejection(upstreamDate: 0, now: 0, key: .active).description.contains("revoked"))
  }
}
