import Bytes
import TestSupport
import Testing

@testable import Access

@Suite("The fields of a rate limit")
struct RateFieldTests {
  @Test(
    "name each limit with its burst and the seconds until the burst is refilled",
    arguments: [
      (nil, nil, nil),
      (Rate(perSecond: 5, burst: 20), nil, #""caller";q=20;w=4"#),
      (nil, Rate(perSecond: 50, burst: 500), #""total";q=500;w=10"#),
      (Rate(perSecond: 3, burst: 10), Rate(perSecond: 1, burst: 60), #""caller";q=10;w=4, "total";q=60;w=60"#),
      (Rate(perSecond: 1000, burst: 1), nil, #""caller";q=1;w=1"#),
      (Rate(perSecond: 0.01, burst: 1_000_000), nil, #""caller";q=1000000;w=100000000"#),
    ] as [(Rate?, Rate?, String?)])
  func policy(_ perCaller: Rate?, _ total: Rate?, _ field: String?) {
    #expect(ClientRates(client: "a \"strange\" id", perCaller: perCaller, total: total).policyField == field)
  }

  @Test("contain the remaining requests and the seconds")
  func limit() {
    func text(_ limit: ServiceLimit) -> String {
      let bytes = [UInt8](capacity: ServiceLimit.mostBytes) { (output: inout OutputSpan<UInt8>) in output.append(limit)
      }
      return String(decoding: bytes, as: UTF8.self)
    }
    #expect(text(ServiceLimit(.caller, remaining: 19, seconds: 4)) == #""caller";r=19;t=4"#)
    #expect(text(ServiceLimit(.total, remaining: 0, seconds: 100_000_000)) == #""total";r=0;t=100000000"#)
    // There is room for the longest numbers.
    #expect(text(ServiceLimit(.caller, remaining: .min, seconds: .min)).hasSuffix(";t=\(Int.min)"))
  }

  @Test(
    "round seconds up to at least one",
    arguments: [
      (0, 1), (1, 1), (999_999_999, 1), (1_000_000_000, 1), (1_000_000_001, 2), (100_000_000_000_000_000, 100_000_000),
    ])
  func seconds(_ nanoseconds: Int64, _ seconds: Int) {
    #expect(ServiceLimit.seconds(nanoseconds) == seconds)
  }

  @Test("count seconds until the bucket is full while requests remain, then until the next request is allowed")
  func effectiveWindow() {
    let limiter = RateLimiter()
    let rates = ClientRates(client: "c", perCaller: Rate(perSecond: 0.5, burst: 3), total: nil)
    let expected: [RateVerdict] = [
      .allowed(.init(.caller, remaining: 2, seconds: 2)), .allowed(.init(.caller, remaining: 1, seconds: 4)),
      .allowed(.init(.caller, remaining: 0, seconds: 2)), .limited(.init(.caller, remaining: 0, seconds: 2)),
    ]
    #expect(expected.map { _ in limiter.take(rates, for: .address("a"), now: 7) } == expected)
  }

  @Test("are reliable: a caller that waits for the given seconds is allowed", arguments: TokenBucketTests.rates)
  func promise(_ rate: Rate) {
    var random = SplitMix(seed: 9)
    let limiter = RateLimiter()
    let rates = ClientRates(client: "c", perCaller: rate, total: Rate(perSecond: 20, burst: 3))
    var now: UInt64 = 0
    for _ in 0..<2000 {
      // At most a quarter of an hour, because 2000 spans of the slowest rate would overflow.
      now += UInt64(min(TokenBucketTests.pause(for: TokenBucket(rate), using: &random) / 2, 900_000_000_000))
      if case .limited(let limit) = limiter.take(rates, for: .address("a"), now: now) {
        now += UInt64(limit.seconds) * RateLimiterTests.second
        #expect(RateLimiterTests.isAllowed(limiter.take(rates, for: .address("a"), now: now)))
      }
    }
  }
}

extension ServiceLimit {
  init(_ policy: Policy, remaining: Int, seconds: Int) {
    self.init(policy: policy, remaining: remaining, seconds: seconds)
  }
}
